//! Options of a lock, on the double, in virtual time.

use super::cancel::cancel_at;
use super::rig::{InProcess, KEY, LEASE, REPLY_TIMEOUT, Test, ask, keys, locks, pass, server};
use redis::RedisResult;
use redouble::{
    Clock, Deployment, Lag,
    fault::{Disconnect, DropReply},
};
use redouble_lock::{
    BoxFuture, Connected, Connector, Guard, Kind, LockBuilder, LockError, LockManager, LossReason,
    Metrics, Redlock, Release,
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

fn at_most(a: Duration, b: Duration) -> bool {
    a <= b && b - a <= Duration::from_millis(2)
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_held_at_least_so_long() -> Test {
    let server = server().await;
    let hold = Duration::from_secs(10);
    let lock = locks(&server)
        .mutex(KEY)
        .fenced()
        .lease(LEASE)
        .hold_at_least(hold)
        .build()?;
    let begun = Instant::now();
    let guard = lock.try_lock().await?;
    pass(Duration::from_secs(2)).await;
    assert_eq!(guard.release().await, Release::Released);
    assert!(at_most(server.pttl(KEY).unwrap(), Duration::from_secs(8)));
    assert_eq!(lock.try_lock().await.unwrap_err(), LockError::Contended);
    let guard = lock.lock().await?;
    assert!(begun.elapsed() >= hold && begun.elapsed() < hold + Duration::from_millis(10));
    pass(hold).await;
    assert_eq!(guard.release().await, Release::Released);
    assert!(!server.exists(KEY), "that was long enough");
    Ok(())
}

// The sets of readers and of holders expired with the last lease in them.
#[tokio::test(start_paused = true)]
async fn permits_and_readers_are_held_for_longer_than_their_lease() -> Test {
    let server = server().await;
    let (lease, hold) = (Duration::from_secs(1), Duration::from_secs(5));
    let locks = locks(&server);
    let permits = locks.semaphore("permits", 1).lease(lease);
    let permits = permits.hold_at_least(hold).build()?.permits(1)?;
    let prices = locks.rw_lock("prices").lease(lease);
    let prices = prices.hold_at_least(hold).build()?;
    let begun = Instant::now();
    let permit = permits.try_lock().await?;
    let reader = prices.read().try_lock().await?;
    pass(lease / 2).await;
    assert_eq!(permit.release().await, Release::Released);
    assert_eq!(reader.release().await, Release::Released);
    let permit = async { (permits.lock().await, begun.elapsed()) };
    let writer = async { (prices.write().lock().await, begun.elapsed()) };
    let ((permit, of_permit), (writer, of_writer)) = tokio::join!(permit, writer);
    for waited in [of_permit, of_writer] {
        assert!(
            waited >= hold && waited < hold + Duration::from_millis(10),
            "{of_permit:?} {of_writer:?}"
        );
    }
    drop((permit?, writer?));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lock_released_over_several_connections_keeps_its_minimum_hold() -> Test {
    let server = server().await;
    let hold = Duration::from_secs(10);
    let lock = locks(&server).mutex(KEY).hold_at_least(hold).build()?;
    // An answer that never comes: a release goes over that connection too, and over the one of the grant.
    let silent = server.inject(DropReply::new().key(KEY).nth(1));
    let begun = Instant::now();
    let guard = lock.lock().await?;
    assert_eq!(silent.fired(), 1);
    assert_eq!(guard.release().await, Release::Released);
    pass(Duration::from_secs(2)).await;
    let left = server.pttl(KEY);
    assert!(
        left.is_some_and(|left| begun.elapsed() + left >= hold),
        "{}",
        server.history()
    );
    pass(hold).await;
    assert!(!server.exists(KEY), "{}", server.history());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_no_client_was_granted_has_no_minimum_hold() -> Test {
    for polls in 0.. {
        let server = server().await;
        let lock = locks(&server).mutex(KEY).hold_at_least(LEASE).build()?;
        // Its only request is executed and not answered.
        let _lost = server.inject(Disconnect::after_execution().key(KEY).nth(1));
        let done = cancel_at(polls, lock.try_lock()).await;
        if let Some(guard) = done {
            drop(guard?);
            return Ok(());
        }
        pass(Duration::from_millis(5)).await;
        assert!(!server.exists(KEY), "await {polls}: {}", server.history());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_watchdog_stops_when_the_lock_was_held_for_long_enough() -> Test {
    for (lease, max_hold) in [(30, 100), (30, 90), (30, 31), (10, 3600)] {
        let (lease, max_hold) = (Duration::from_secs(lease), Duration::from_secs(max_hold));
        let server = server().await;
        let lock = locks(&server)
            .mutex(KEY)
            .lease(lease)
            .watchdog(true)
            .max_hold(max_hold)
            .build()?;
        let begun = Instant::now();
        let guard = lock.try_lock().await?;
        assert_eq!(guard.lost().await, LossReason::MaxHold);
        assert!(begun.elapsed() <= max_hold && begun.elapsed() > max_hold - lease / 3);
        assert_eq!(
            guard.extend(lease).await,
            Err(LockError::Lost(LossReason::MaxHold))
        );
        pass(lease / 20).await;
        assert!(!server.exists(KEY), "the last lease was as short");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_short_hold_does_not_cut_the_first_lease() -> Test {
    let server = server().await;
    let max_hold = Duration::from_secs(5);
    let lock = locks(&server)
        .mutex(KEY)
        .lease(LEASE)
        .watchdog(true)
        .max_hold(max_hold)
        .build()?;
    let begun = Instant::now();
    let guard = lock.try_lock().await?;
    assert_eq!(guard.lost().await, LossReason::MaxHold);
    assert!(begun.elapsed() > LEASE * 9 / 10);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_operator_sees_who_holds_a_lock_and_takes_it_away() -> Test {
    let server = server().await;
    let locks = locks(&server);
    assert_eq!(locks.holder(KEY).await?, None);
    let lock = locks
        .mutex(KEY)
        .fenced()
        .lease(LEASE)
        .metadata("host 7, pid 12")
        .build()?;
    let guard = lock.try_lock().await?;
    let holder = locks.holder(KEY).await?.unwrap();
    assert_eq!(holder.token, guard.token().as_bytes());
    assert_eq!(holder.metadata.as_deref(), Some(&b"host 7, pid 12"[..]));
    assert_eq!(holder.remaining, Some(LEASE));

    // The other key lives as long as the lock.
    guard.extend(LEASE * 2).await?;
    pass(LEASE * 3 / 2).await;
    assert!(locks.holder(KEY).await?.unwrap().metadata.is_some());

    assert!(!locks.force_unlock(KEY, "somebody else").await?);
    assert!(guard.is_valid() && locks.force_unlock(KEY, guard.token()).await?);
    assert_eq!(
        guard.extend(LEASE).await,
        Err(LockError::Lost(LossReason::Gone))
    );
    assert_eq!(guard.release().await, Release::AlreadyLost);
    assert_eq!(lock.try_lock().await?.release().await, Release::Released);
    pass(LEASE).await;
    assert_eq!(keys(&server).await, ["{coupon:7}:fence"]);
    // The last fencing token is kept for a day.
    let kept = server.pttl("{coupon:7}:fence").unwrap();
    assert!(kept > Duration::from_secs(23 * 3_600), "{kept:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn metadata_goes_with_locks_of_all_kinds() -> Test {
    let server = server().await;
    let locks = locks(&server);
    let metadata = || async {
        keys(&server)
            .await
            .iter()
            .filter(|key| key.contains(":holder:"))
            .count()
    };
    let room = locks.semaphore("seats", 3).metadata("one").build()?;
    let fair = locks.fair_mutex("fair").metadata("fair").build()?;
    let multi = locks
        .multi_key_mutex(["a{x}", "b{x}"])?
        .metadata("multi")
        .build()?;
    let mutex = locks.mutex("mutex").metadata("mutex").build()?;
    let guards = [
        mutex.try_lock().await?,
        room.permits(1)?.try_lock().await?,
        room.permits(1)?.try_lock().await?,
        fair.try_lock().await?,
        multi.try_lock().await?,
    ];
    assert_eq!(metadata().await, 5);
    for guard in guards {
        guard.extend(LEASE * 2).await?;
        assert_eq!(guard.release().await, Release::Released);
    }
    assert_eq!(metadata().await, 0);
    Ok(())
}

/// A client does not release what it knows to be lost, so this key stayed until its expiry.
#[tokio::test(start_paused = true)]
async fn metadata_goes_when_the_lock_is_found_gone() -> Test {
    let server = server().await;
    let lock = locks(&server).mutex(KEY).metadata("me").build()?;
    let guard = lock.try_lock().await?;
    assert_eq!(keys(&server).await.len(), 2);
    server.evict(KEY);
    assert!(
        guard
            .extend(LEASE)
            .await
            .is_err_and(|error| error.is_lost())
    );
    assert_eq!(keys(&server).await, [""; 0]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_foreign_lock_has_a_holder_too() -> Test {
    let server = server().await;
    let locks = locks(&server);
    ask::<String>(&server, &["SET", KEY, "host-3:pid-9"]).await;
    let holder = locks.holder(KEY).await?.unwrap();
    assert_eq!((holder.remaining, holder.metadata), (None, None));
    assert!(locks.force_unlock(KEY, holder.token).await?);
    ask::<i64>(&server, &["RPUSH", KEY, "x"]).await;
    assert!(matches!(locks.holder(KEY).await, Err(LockError::Redis(_))));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_grant_goes_from_one_process_to_another() -> Test {
    let server = server().await;
    let (giver, taker) = (locks(&server), locks(&server));
    let guard = giver
        .mutex(KEY)
        .fenced()
        .lease(LEASE)
        .watchdog(true)
        .build()?
        .try_lock()
        .await?;
    let fence = guard.fencing_token();
    pass(LEASE * 3).await;
    let token = guard.cancellation_token();
    let parts = Guard::from(guard).detach()?;
    token.cancelled().await; // the giver does not hold it any more
    assert!(parts.remaining() <= LEASE);
    let parts = parts.to_string().parse()?;
    pass(LEASE / 2).await;
    assert!(server.exists(KEY), "nothing was released");

    let lock = taker.mutex(KEY).fenced().lease(LEASE * 2).build()?;
    let adopted = lock.adopt(&parts).await?;
    assert_eq!(server.pttl(KEY), Some(LEASE * 2));
    assert_eq!(adopted.fencing_token(), fence);
    assert_eq!(
        taker
            .mutex("other")
            .build()?
            .adopt(&parts)
            .await
            .unwrap_err(),
        LockError::OtherLock
    );
    assert_eq!(adopted.release().await, Release::Released);
    assert_eq!(
        lock.adopt(&parts).await.unwrap_err(),
        LockError::Lost(LossReason::Gone)
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_adoption_that_is_cancelled_or_fails_leaves_the_grant() -> Test {
    let server = server().await;
    let lock = locks(&server).mutex(KEY).lease(LEASE).build()?;
    let parts = lock.try_lock().await?.detach()?;
    assert_eq!(parts.fencing_token(), None);
    for polls in 0.. {
        let lock = locks(&server).mutex(KEY).lease(LEASE).build()?;
        let done = cancel_at(polls, lock.adopt(&parts)).await;
        let completed = done.is_some();
        if let Some(guard) = done {
            let _ = guard?.detach()?;
        }
        pass(Duration::from_millis(5)).await;
        assert!(server.exists(KEY), "await {polls}");
        if completed {
            break;
        }
    }
    let _lost = server.inject(Disconnect::after_execution().key(KEY).nth(1));
    let adopted = lock.adopt(&parts).await?;
    assert_eq!(adopted.release().await, Release::Released);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_adoption_pauses_between_its_attempts() -> Test {
    let server = server().await;
    let lock = locks(&server).mutex(KEY).lease(LEASE).build()?;
    let parts = lock.try_lock().await?.detach()?;
    let lost = server.inject(Disconnect::after_execution().key(KEY).first(1_000));
    let error = lock.adopt(&parts).await.unwrap_err();
    assert!(matches!(error, LockError::Unknown(_)), "{error}");
    // Pauses of 5 ms and more, which double, fill the reply timeout.
    assert!((2..20).contains(&lost.fired()), "{} requests", lost.fired());
    Ok(())
}

/// Dials once, and cannot after that.
struct DialsOnce(InProcess, AtomicBool);

impl Connector for DialsOnce {
    type Connection = <InProcess as Connector>::Connection;

    fn connect(&self) -> BoxFuture<'_, RedisResult<Connected<Self::Connection>>> {
        if self.1.swap(true, Ordering::SeqCst) {
            let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
            return Box::pin(async { Err(refused.into()) });
        }
        self.0.connect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_know_its_outcome_if_only_its_last_request_was_not_sent() -> Test {
    let server = server().await;
    let detached = locks(&server).mutex(KEY).lease(LEASE).build()?;
    let parts = detached.try_lock().await?.detach()?;
    let dials_once = DialsOnce(InProcess(Arc::clone(&server)), AtomicBool::new(false));
    let locks = LockManager::builder(dials_once).build();
    let lock = locks.mutex(KEY).lease(LEASE).build()?;
    let lost = server.inject(Disconnect::after_execution().key(KEY).nth(1));
    let error = lock.adopt(&parts).await.unwrap_err();
    assert_eq!(lost.fired(), 1);
    assert!(matches!(error, LockError::Unknown(_)), "{error}");
    // Nothing was sent this time.
    let error = lock.adopt(&parts).await.unwrap_err();
    assert!(matches!(error, LockError::Redis(_)), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_lock_counts_when_enough_replicas_have_it() -> Test {
    let group = Deployment::replicated(1, 2).await?;
    let names: Vec<String> = group.names().map(String::from).collect();
    let client = redis::Client::open(group[names[0].as_str()].url())?;
    let locks = LockManager::from_client(client).await?;
    let lock = |replicas| {
        let lock = locks.mutex(KEY).replicas(replicas);
        lock.reply_timeout(Duration::from_millis(200))
            .build()
            .unwrap()
    };
    for replicas in [1, 2] {
        let guard = lock(replicas).try_lock().await?;
        let have = names[1..]
            .iter()
            .filter(|name| group[name.as_str()].exists(KEY));
        assert!(have.count() >= replicas as usize);
        assert_eq!(guard.release().await, Release::Released);
    }
    group.set_lag(&names[1], Lag::Time(Duration::from_secs(60)));
    drop(lock(1).try_lock().await?);
    let error = lock(2)
        .lock_timeout(Duration::from_secs(1))
        .await
        .unwrap_err();
    let (wanted, confirmed) = (2, 1);
    assert_eq!(error, LockError::NotReplicated { wanted, confirmed });
    assert!(!group[names[0].as_str()].exists(KEY), "it was given back");
    Ok(())
}

// WAIT held up the connection that all locks of the manager shared.
#[tokio::test(start_paused = true)]
async fn waiting_for_replicas_holds_up_no_other_lock() -> Test {
    let server = server().await;
    let locks = locks(&server);
    let other = locks.mutex("other").lease(LEASE).build()?;
    drop(other.try_lock().await?);
    let waits = locks.mutex(KEY).lease(LEASE).replicas(1).build()?;
    let waits = tokio::spawn(async move { waits.try_lock().await.map(drop) });
    pass(Duration::from_millis(20)).await;
    let begun = Instant::now();
    let guard = other.try_lock().await?;
    assert_eq!(guard.release().await, Release::Released);
    assert!(
        begun.elapsed() < Duration::from_millis(10),
        "{:?}",
        begun.elapsed()
    );
    let (wanted, confirmed) = (1, 0);
    let error = LockError::NotReplicated { wanted, confirmed };
    assert_eq!(waits.await?, Err(error));
    assert!(!server.exists(KEY));
    Ok(())
}

/// A server to which a connection takes long, longer than a call has time.
struct Far(InProcess, Arc<AtomicU32>);

impl Connector for Far {
    type Connection = <InProcess as Connector>::Connection;

    fn connect(&self) -> BoxFuture<'_, RedisResult<Connected<Self::Connection>>> {
        Box::pin(async {
            self.1.fetch_add(1, Ordering::Relaxed);
            pass(REPLY_TIMEOUT * 2).await;
            self.0.connect().await
        })
    }
}

// Each request for a connection of its own cut off the attempt to connect: such a server was never reached.
#[tokio::test(start_paused = true)]
async fn a_connection_for_the_wait_for_replicas_may_take_long() -> Test {
    let (server, attempts) = (server().await, Arc::default());
    let far = Far(InProcess(Arc::clone(&server)), Arc::clone(&attempts));
    let locks = LockManager::builder(far).build();
    let lock = locks.mutex(KEY).lease(LEASE).replicas(1).build()?;
    let begun = Instant::now();
    let error = lock.try_lock().await.unwrap_err();
    assert!(matches!(error, LockError::Redis(_)), "{error:?}");
    assert_eq!(begun.elapsed(), REPLY_TIMEOUT);
    pass(REPLY_TIMEOUT * 2).await;
    let (wanted, confirmed) = (1, 0);
    let not_replicated = LockError::NotReplicated { wanted, confirmed };
    for _ in 0..2 {
        assert_eq!(lock.try_lock().await.unwrap_err(), not_replicated);
        // The release needs the connection for all other requests.
        pass(REPLY_TIMEOUT * 4).await;
    }
    // One for the wait, and one for all other requests.
    assert_eq!(attempts.load(Ordering::Relaxed), 2);
    Ok(())
}

// The next call got a connection that the wait of the cancelled call still blocked.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_cancelled_while_it_waits_for_replicas_delays_no_other() -> Test {
    let server = server().await;
    let locks = locks(&server);
    let lock = |key: &str| locks.mutex(key).lease(LEASE).replicas(1).build().unwrap();
    let cancelled = lock(KEY);
    let waits = tokio::time::timeout(REPLY_TIMEOUT / 10, cancelled.try_lock());
    assert!(waits.await.is_err());
    let begun = Instant::now();
    let (wanted, confirmed) = (1, 0);
    let not_replicated = LockError::NotReplicated { wanted, confirmed };
    assert_eq!(lock("other").try_lock().await.unwrap_err(), not_replicated);
    let waited = begun.elapsed();
    assert!(waited < REPLY_TIMEOUT / 5 * 4, "{waited:?}");
    Ok(())
}

/// A master with a replica that is far behind it.
async fn lagging() -> Result<Deployment, Box<dyn std::error::Error>> {
    let builder = Deployment::builder().clock(Clock::Tokio);
    let group = builder.replicated(1, 1).await?;
    let replica = group.names().nth(1).map(String::from).ok_or("no replica")?;
    group.set_lag(&replica, Lag::Time(Duration::from_secs(60)));
    Ok(group)
}

// The repetition wrote nothing, so its connection had nothing to wait for.
async fn is_not_replicated<K: Kind>(lock: LockBuilder<K>, group: &Deployment) -> Test {
    let name = group.names().next().ok_or("no master")?;
    let lost = group[name].inject(Disconnect::after_execution().key(KEY).nth(1));
    let error = lock.replicas(1).build()?.try_lock().await.unwrap_err();
    assert_eq!(lost.fired(), 1);
    let (wanted, confirmed) = (1, 0);
    let not_replicated = LockError::NotReplicated { wanted, confirmed };
    assert_eq!(error, not_replicated);
    Ok(())
}

/// Opens connections to the master of a deployment.
struct ToMaster(Arc<Deployment>);

impl Connector for ToMaster {
    type Connection = redis::aio::MultiplexedConnection;

    fn connect(&self) -> BoxFuture<'_, RedisResult<Connected<Self::Connection>>> {
        Box::pin(async {
            let name = self.0.names().next().unwrap();
            let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
            let info = redis::RedisConnectionInfo::default();
            let stream = self.0[name].connect();
            let made =
                redis::aio::MultiplexedConnection::new_with_config(&info, stream, config).await?;
            Ok(Connected::new(made.0).driver(made.1))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_waits_for_replicas_too() -> Test {
    let group = Arc::new(lagging().await?);
    let locks = LockManager::builder(ToMaster(Arc::clone(&group))).build();
    is_not_replicated(locks.mutex(KEY), &group).await?;
    is_not_replicated(locks.mutex(KEY).fenced(), &group).await?;
    is_not_replicated(locks.fair_mutex(KEY), &group).await?;
    is_not_replicated(locks.multi_key_mutex([KEY])?, &group).await?;
    is_not_replicated(locks.multi_key_mutex([KEY])?.fenced(), &group).await?;
    for writes in [false, true] {
        let lost = Disconnect::after_execution().key(KEY).nth(1);
        let _lost = group[group.names().next().ok_or("no master")?].inject(lost);
        let lock = locks.rw_lock(KEY).replicas(1).build()?;
        let error = match writes {
            true => lock.write().try_lock().await.unwrap_err(),
            false => lock.read().try_lock().await.unwrap_err(),
        };
        assert!(matches!(error, LockError::NotReplicated { .. }), "{error}");
    }
    let lost = Disconnect::after_execution().key(KEY).nth(1);
    let _lost = group[group.names().next().ok_or("no master")?].inject(lost);
    let permits = locks.semaphore(KEY, 2).replicas(1).build()?.permits(1)?;
    let error = permits.try_lock().await.unwrap_err();
    assert!(matches!(error, LockError::NotReplicated { .. }), "{error}");
    Ok(())
}

#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn note(&self, key: &[u8], what: &str) {
        let key = String::from_utf8_lossy(key);
        self.0.lock().unwrap().push(format!("{key} {what}"));
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Metrics for Told {
    fn granted(&self, key: &[u8], waited: Duration) {
        self.note(key, &format!("granted after {} s", waited.as_secs()));
    }

    fn not_granted(&self, key: &[u8], waited: Duration, error: &LockError) {
        self.note(
            key,
            &format!("not granted after {} s: {error}", waited.as_secs()),
        );
    }

    fn failed(&self, key: &[u8], error: &redouble_lock::NodeError) {
        self.note(key, &format!("failed: {error}"));
    }

    fn renewed(&self, key: &[u8]) {
        self.note(key, "renewed");
    }

    fn lost(&self, key: &[u8], held: Duration, reason: LossReason) {
        self.note(key, &format!("lost after {} s: {reason}", held.as_secs()));
    }

    fn released(&self, key: &[u8], held: Duration, outcome: &Release) {
        self.note(key, &format!("{outcome:?} after {} s", held.as_secs()));
    }

    fn dropped(&self, key: &[u8], held: Duration) {
        self.note(key, &format!("dropped after {} s", held.as_secs()));
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_are_told_what_becomes_of_locks() -> Test {
    let server = server().await;
    let told = Told::default();
    let locks = LockManager::builder(InProcess(Arc::clone(&server)));
    let locks = locks.metrics(told.clone()).build();
    let lock = locks.mutex("k").lease(LEASE).watchdog(true).build()?;
    let guard = lock.try_lock().await?;
    pass(Duration::from_secs(11)).await;
    let waited = lock.lock_timeout(Duration::from_secs(3)).await;
    assert!(waited.is_err());
    assert_eq!(guard.release().await, Release::Released);
    let contended = told.take();
    assert_eq!(contended[..2], ["k granted after 0 s", "k renewed"]);
    assert!(contended[2].starts_with("k not granted after 3 s: other clients held the lock"));
    assert_eq!(contended[3..], ["k Released after 14 s"]);

    let _cut = server.inject(Disconnect::before_execution().key("k").nth(1));
    drop(lock.try_lock().await?);
    let dropped = told.take();
    assert_eq!(
        dropped,
        [
            "k failed: the connection ended before the answer",
            "k granted after 0 s",
            "k dropped after 0 s"
        ]
    );

    let guard = lock.lock().await?;
    let _pause = server.pause();
    guard.lost().await;
    let lost = told.take();
    let reason = "its deadline has passed";
    assert_eq!(
        lost.last().unwrap(),
        &format!("k lost after 29 s: {reason}")
    );
    assert_eq!(lost.iter().filter(|line| line.contains("lost")).count(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_manager_has_defaults_and_a_prefix() -> Test {
    let server = server().await;
    let locks = LockManager::builder(InProcess(Arc::clone(&server)))
        .default_lease(LEASE * 2)
        .watchdog(true)
        .key_prefix("shop:")
        .build();
    let guard = locks.mutex("a").build()?.try_lock().await?;
    assert_eq!(
        (guard.key(), server.pttl("shop:a")),
        (&b"shop:a"[..], Some(LEASE * 2))
    );
    let own = locks.mutex("b").lease(LEASE).watchdog(false).build()?;
    let own = own.try_lock().await?;
    assert_eq!(server.pttl("shop:b"), Some(LEASE));
    pass(LEASE * 3).await;
    assert!(guard.is_valid() && !own.is_valid());

    assert!(locks.is_locked("a").await?);
    assert!(locks.force_unlock("a", guard.token()).await?);
    let both = locks
        .multi_key_mutex(["c", "d"])?
        .build()?
        .try_lock()
        .await?;
    assert!(server.exists("shop:c") && server.exists("shop:d"));
    assert!(locks.count_down_latch("e").set_count(1).await?);
    assert_eq!(locks.admission("f", 1).enter().await?, Some(1));
    assert!(locks.stock("g").fill(1, LEASE).await?);
    let all = Redlock::new([locks])?
        .mutex("h")
        .build()?
        .try_lock()
        .await?;
    assert!(
        ["e", "f", "g", "h"]
            .iter()
            .all(|key| server.exists(format!("shop:{key}")))
    );
    drop((both, all));
    Ok(())
}
