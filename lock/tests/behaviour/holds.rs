//! The minimum hold: it applies to grants that a caller got, and to no others. On the double, in virtual time.

use super::cancel::cancel_at;
use super::rig::{InProcess, KEY, LEASE, REPLY_TIMEOUT, Test, ask, locks, pass, server};
use redouble::{
    Server,
    fault::{AnswerError, Delay},
};
use redouble_lock::{
    BoxFuture, Environment, LockError, LockManager, Metrics, NoRuntime, NodeErrorKind, Redlock,
    Release, Tokio, lock_all,
};
use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

const HOLD: Duration = Duration::from_secs(10);

async fn three() -> [Arc<Server>; 3] {
    [server().await, server().await, server().await]
}

fn redlock(servers: &[Arc<Server>]) -> Redlock {
    Redlock::new(servers.iter().map(locks)).unwrap()
}

/// Whether no server stores the lock.
fn is_free(servers: &[Arc<Server>]) -> bool {
    servers.iter().all(|server| !server.exists(KEY))
}

#[tokio::test(start_paused = true)]
async fn the_votes_of_a_round_without_a_quorum_are_not_held() -> Test {
    let servers = three().await;
    let lock = redlock(&servers).mutex(KEY).lease(LEASE);
    let lock = lock.hold_at_least(HOLD).build()?;
    for server in &servers[1..] {
        let _: String = ask(server, &["SET", KEY, "another"]).await;
    }
    assert_eq!(lock.try_lock().await.unwrap_err(), LockError::Contended);
    pass(REPLY_TIMEOUT).await;
    assert!(is_free(&servers[..1]), "{}", servers[0].history());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_votes_of_a_quorum_without_a_fencing_token_are_not_held() -> Test {
    let servers = three().await;
    // The nodes know the scripts then.
    let lock = redlock(&servers).mutex(KEY).lease(LEASE).fenced().build()?;
    drop(lock.try_lock().await?.release().await);
    let lock = redlock(&servers).mutex(KEY).lease(LEASE);
    let lock = lock.hold_at_least(HOLD).fenced().build()?;
    // The nodes grant the lock, and refuse the number of the grant.
    let refuse = || AnswerError::new("NOPERM no").command("EVALSHA").nth(2);
    let _refusals = servers.each_ref().map(|server| server.inject(refuse()));
    assert!(lock.try_lock().await.is_err());
    pass(REPLY_TIMEOUT).await;
    assert!(is_free(&servers), "{}", servers[0].history());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_votes_of_nodes_that_are_one_server_are_not_held() -> Test {
    let one = server().await;
    let same = [Arc::clone(&one), Arc::clone(&one), Arc::clone(&one)];
    let lock = redlock(&same).mutex(KEY).lease(LEASE);
    let lock = lock.hold_at_least(HOLD).build()?;
    let error = lock.try_lock().await.unwrap_err();
    assert!(
        matches!(&error, LockError::Redis(node) if *node.kind() == NodeErrorKind::SameServer),
        "{error}"
    );
    pass(REPLY_TIMEOUT).await;
    assert!(is_free(&same), "{}", one.history());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_quorum_that_a_caller_got_is_held() -> Test {
    let servers = three().await;
    let lock = redlock(&servers).mutex(KEY).lease(LEASE);
    let lock = lock.hold_at_least(HOLD).build()?;
    assert_eq!(lock.try_lock().await?.release().await, Release::Released);
    for server in &servers {
        let left = server.pttl(KEY).unwrap();
        assert!(left <= HOLD && left > HOLD - REPLY_TIMEOUT, "{left:?}");
    }
    Ok(())
}

// The call kept the lock from itself: the token of the late grant stayed for the hold.
#[tokio::test(start_paused = true)]
async fn a_grant_whose_reply_comes_too_late_is_not_held() -> Test {
    let server = server().await;
    let lock = locks(&server)
        .mutex(KEY)
        .lease(Duration::from_millis(400))
        .hold_at_least(HOLD)
        .build()?;
    // After the deadline of the grant, and before the end of its key.
    let late = Duration::from_millis(398);
    let _late = server.inject(Delay::reply(late).key(KEY).nth(1));
    let begun = Instant::now();
    drop(lock.lock().await?);
    assert!(begun.elapsed() < REPLY_TIMEOUT * 3, "{:?}", begun.elapsed());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_too_few_replicas_confirm_is_not_held() -> Test {
    for polls in 0.. {
        let server = server().await;
        let lock = locks(&server).mutex(KEY).lease(LEASE).replicas(1);
        let lock = lock.hold_at_least(HOLD).build()?;
        // Cancelled at each of its awaits, the wait for replicas among them.
        let done = cancel_at(polls, lock.try_lock()).await;
        pass(REPLY_TIMEOUT).await;
        assert!(is_free(&[Arc::clone(&server)]), "await {polls}");
        if let Some(outcome) = done {
            let (wanted, confirmed) = (1, 0);
            let error = LockError::NotReplicated { wanted, confirmed };
            assert_eq!(outcome.unwrap_err(), error);
            return Ok(());
        }
    }
    Ok(())
}

/// Tokio, of which a task can be refused.
struct Tasks(Arc<Mutex<bool>>);

impl Environment for Tasks {
    fn now(&self) -> Duration {
        Tokio.now()
    }

    fn sleep_until(&self, deadline: Duration) -> BoxFuture<'static, ()> {
        Tokio.sleep_until(deadline)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<(), NoRuntime> {
        match *self.0.lock().unwrap() {
            true => Err(NoRuntime),
            false => Tokio.spawn(task),
        }
    }

    fn random(&self) -> [u8; 16] {
        Tokio.random()
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_without_a_runtime_for_its_watchdog_is_not_held() -> Test {
    let (server, refuses) = (server().await, Arc::default());
    let locks = LockManager::builder(InProcess(Arc::clone(&server)));
    let locks = locks.environment(Tasks(Arc::clone(&refuses))).build();
    drop(locks.mutex("other").build()?.try_lock().await?);
    let lock = locks.mutex(KEY).lease(LEASE).watchdog(true);
    let lock = lock.hold_at_least(HOLD).build()?;
    *refuses.lock().unwrap() = true;
    assert!(matches!(
        lock.try_lock().await.unwrap_err(),
        LockError::NoRuntime
    ));
    assert!(!server.exists(KEY));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn locks_of_a_call_that_did_not_get_all_of_them_are_not_held() -> Test {
    let server = server().await;
    let lock = |key: &str| locks(&server).mutex(key).lease(LEASE).hold_at_least(HOLD);
    let (first, second) = (lock("a").build()?, lock("b").build()?);
    let _: String = ask(&server, &["SET", "b", "another"]).await;
    assert!(lock_all([&first, &second], LEASE / 10).await.is_err());
    assert!(!server.exists("a"));
    let _: u32 = ask(&server, &["DEL", "b"]).await;
    let both = lock_all([&first, &second], LEASE / 10).await?;
    assert_eq!(both.release().await, Release::Released);
    assert!(server.exists("a") && server.exists("b"));
    Ok(())
}

/// Keeps a call that was granted until another one is too.
#[derive(Default)]
struct TwoAtOnce(Mutex<u32>, Condvar);

impl Metrics for TwoAtOnce {
    fn granted(&self, _: &[u8], _: Duration) {
        let mut granted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *granted += 1;
        self.1.notify_all();
        let wait = Duration::from_secs(5);
        drop(
            self.1
                .wait_timeout_while(granted, wait, |granted| *granted < 2),
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_surplus_grant_of_an_owner_is_not_held() -> Test {
    let server = Server::start().await?;
    let connector = redouble_lock::Fixed(server.connection().await?);
    let locks = LockManager::builder(connector).metrics(TwoAtOnce::default());
    let readers = locks
        .build()
        .rw_lock(KEY)
        .hold_at_least(LEASE * 10)
        .build()?;
    let owner = readers.read().owner();
    let reader = || {
        let owner = owner.clone();
        tokio::spawn(async move { owner.lock().await })
    };
    let (one, other) = (reader(), reader());
    let _both = (one.await??, other.await??);
    let readers: Vec<String> = ask(&server, &["ZRANGE", "{coupon:7}:readers", "0", "-1"]).await;
    assert_eq!(readers.len(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_process_that_adopts_a_grant_keeps_the_rest_of_its_hold() -> Test {
    let server = server().await;
    let lock = locks(&server).mutex(KEY).lease(LEASE);
    let lock = lock.hold_at_least(HOLD).build()?;
    let guard = lock.try_lock().await?;
    pass(Duration::from_secs(2)).await;
    let text = guard.detach()?.to_string();
    let other = locks(&server).mutex(KEY).lease(LEASE).build()?;
    let adopted = other.adopt(&text.parse()?).await?;
    pass(Duration::from_secs(3)).await;
    assert_eq!(adopted.release().await, Release::Released);
    assert_eq!(server.pttl(KEY), Some(Duration::from_secs(5)));
    Ok(())
}
