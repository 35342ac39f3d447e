//! The mutex on the test double: the real scripts, the `redis` crate's own connections, virtual
//! time.

use super::cancel::cancel_at;
use super::rig::{KEY, LEASE, REPLY_TIMEOUT, Test, locks, pass, server};
use redouble::{
    Clock, Server,
    fault::{Delay, Disconnect, DropRequest},
};
use redouble_lock::{Guard, LockError, LockManager, LossReason, Mutex, Release};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{runtime::Handle, time::Instant};

fn mutex(server: &Arc<Server>) -> Mutex {
    locks(server).mutex(KEY).lease(LEASE).build().unwrap()
}

/// Tasks besides those of the server itself, of which there is one.
fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks() - 1
}

#[tokio::test(start_paused = true)]
async fn the_lock_is_not_blocked_by_its_own_ghost() -> Test {
    let server = Server::builder().clock(Clock::Tokio).start().await?;
    let locks = LockManager::new(server.connection().await?);
    let lock = locks.mutex(KEY).lease(LEASE).build()?;
    let lost = server.inject(Disconnect::after_execution().key(KEY).nth(1));
    let begun = Instant::now();
    let guard = lock.lock_timeout(Duration::from_secs(5)).await?;
    assert_eq!(lost.fired(), 1);
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{}",
        server.history()
    );
    assert_eq!(guard.release().await, Release::Released);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lock_from_beginning_to_end() -> Test {
    let server = server().await;
    let lock = mutex(&server);
    let guard = lock.try_lock().await?;
    assert_eq!(server.get(KEY).as_deref(), Some(guard.token().as_bytes()));
    assert!(
        server
            .pttl(KEY)
            .is_some_and(|ttl| guard.remaining() < ttl && ttl <= LEASE)
    );
    assert_eq!(lock.try_lock().await.unwrap_err(), LockError::Contended);
    assert_eq!(guard.release().await, Release::Released);
    assert!(!server.exists(KEY));
    let next = lock.try_lock().await?;
    assert_eq!(next.release().await, Release::Released);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_extension_lengthens_and_never_shortens() -> Test {
    let server = server().await;
    let guard = mutex(&server).try_lock().await?;
    guard.extend(LEASE * 2).await?;
    assert_eq!(server.pttl(KEY), Some(LEASE * 2));
    guard.extend(LEASE).await?;
    assert_eq!(server.pttl(KEY), Some(LEASE * 2));
    assert!(guard.remaining() > LEASE);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lost_grant_stays_lost() -> Test {
    let server = server().await;
    let lock = mutex(&server);
    let stale = lock.try_lock().await?;
    pass(LEASE + Duration::from_millis(1)).await;
    // No other client holds the lock, and yet:
    assert_eq!(
        stale.extend(LEASE).await,
        Err(LockError::Lost(LossReason::Expired))
    );
    let next = lock.try_lock().await?;
    assert_eq!(stale.release().await, Release::AlreadyLost);
    assert_eq!(server.get(KEY).as_deref(), Some(next.token().as_bytes()));
    assert_eq!(next.release().await, Release::Released);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_the_server_forgot_is_neither_extended_nor_released_for_another() -> Test {
    let server = server().await;
    let mut redis = server.connection().await?;
    let lock = mutex(&server);
    let first = lock.try_lock().await?;
    redis::cmd("DEL").arg(KEY).exec_async(&mut redis).await?;
    let next = lock.try_lock().await?;
    pass(LEASE / 2).await;
    let ttl = server.pttl(KEY);
    assert_eq!(
        first.extend(LEASE).await,
        Err(LockError::Lost(LossReason::Gone))
    );
    assert_eq!(first.release().await, Release::AlreadyLost);
    assert_eq!(server.pttl(KEY), ttl);
    assert_eq!(server.get(KEY).as_deref(), Some(next.token().as_bytes()));
    Ok(())
}

#[tokio::test]
async fn a_manager_with_a_client_makes_its_own_connections_and_new_ones() -> Test {
    let server = Server::start().await?;
    let locks = LockManager::from_client(redis::Client::open(server.url())?).await?;
    let lock = locks.mutex(KEY).build()?;
    let guard = lock.try_lock().await?;
    let _cut = server.inject(Disconnect::before_execution().key(KEY).nth(1));
    guard.extend(LEASE * 2).await?;
    assert!(server.pttl(KEY).is_some_and(|ttl| ttl > LEASE));
    assert_eq!(guard.release().await, Release::Released);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_loss_is_signalled_by_the_deadline_while_the_node_is_paused() -> Test {
    for watchdog in [false, true] {
        for own in [false, true] {
            let server = server().await;
            let locks = if own {
                LockManager::new(server.connection().await?)
            } else {
                locks(&server)
            };
            let lock = locks.mutex(KEY).lease(LEASE).watchdog(watchdog).build()?;
            let begun = Instant::now();
            let guard = lock.try_lock().await?;
            let pause = server.pause();
            assert_eq!(guard.lost().await, LossReason::Expired);
            assert!(begun.elapsed() <= LEASE, "{:?}", begun.elapsed());
            assert!(
                guard
                    .run(pass(LEASE))
                    .await
                    .is_err_and(|error| error.is_lost())
            );
            pause.resume();
            pass(REPLY_TIMEOUT).await;
            assert!(!guard.is_valid(), "it does not come back");
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_acquire_without_an_answer_is_repeated_and_recognised() -> Test {
    // The n-th message: SET, then the script that repeats it, by its digest and by its text.
    for n in 1..=3 {
        for executed in [false, true] {
            let server = server().await;
            let lock = mutex(&server);
            let rule = if executed {
                Disconnect::after_execution()
            } else {
                Disconnect::before_execution()
            };
            let _first = server.inject(rule.clone().key(KEY).nth(1));
            let _later = server.inject(rule.key(KEY).nth(n));
            let guard = lock.lock_timeout(Duration::from_secs(5)).await?;
            assert_eq!(server.get(KEY).as_deref(), Some(guard.token().as_bytes()));
            assert_eq!(server.pttl(KEY), Some(LEASE), "the whole lease");
            assert_eq!(guard.release().await, Release::Released);
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_request_that_arrives_late_leaves_no_ghost() -> Test {
    let late = Duration::from_secs(2);
    let server = server().await;
    let lock = mutex(&server);
    let fault = server.inject(Delay::request(late).command("SET").nth(1));
    let guard = lock.lock_timeout(Duration::from_secs(5)).await?;
    assert_eq!(fault.fired(), 1);
    // Released before the first request arrives, which then takes the lock once more.
    assert_eq!(guard.release().await, Release::Released);
    pass(late + REPLY_TIMEOUT).await;
    assert!(!server.exists(KEY), "{}", server.history());
    assert_eq!(tasks(), 1, "the driver of the one connection");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_replaced() -> Test {
    let server = server().await;
    let lock = mutex(&server);
    let _silent = server.inject(DropRequest::new().key(KEY).nth(1));
    let begun = Instant::now();
    let guard = lock.lock_timeout(Duration::from_secs(5)).await?;
    assert!(begun.elapsed() < REPLY_TIMEOUT + Duration::from_millis(10));
    assert_eq!(guard.release().await, Release::Released);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_watchdog_survives_single_failures() -> Test {
    let server = server().await;
    let lock = locks(&server)
        .mutex(KEY)
        .lease(LEASE)
        .watchdog(true)
        .build()?;
    let guard = lock.try_lock().await?;
    let _faults: Vec<_> = (0..10)
        .flat_map(|n| {
            [
                server.inject(Disconnect::after_execution().key(KEY).nth(n * 9 + 2)),
                server.inject(Disconnect::before_execution().key(KEY).nth(n * 9 + 5)),
                server.inject(Delay::reply(REPLY_TIMEOUT * 2).key(KEY).nth(n * 9 + 7)),
            ]
        })
        .collect();
    tokio::select! {
        reason = guard.lost() => panic!("{reason}: {}", server.history()),
        () = pass(LEASE * 20) => {}
    }
    assert_eq!(server.get(KEY).as_deref(), Some(guard.token().as_bytes()));
    drop(_faults);
    assert_eq!(guard.release().await, Release::Released);
    pass(LEASE).await;
    assert_eq!((server.exists(KEY), tasks()), (false, 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_at_a_time() -> Test {
    let server = server().await;
    let (taken, rounds) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU32::new(0)),
    );
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let lock = mutex(&server);
            let (taken, rounds) = (Arc::clone(&taken), Arc::clone(&rounds));
            tokio::spawn(async move {
                for _ in 0..10 {
                    let guard = lock.lock().await.unwrap();
                    assert!(!taken.swap(true, Ordering::Relaxed), "two at a time");
                    pass(Duration::from_millis(20)).await;
                    taken.store(false, Ordering::Relaxed);
                    rounds.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(guard.release().await, Release::Released);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await?;
    }
    assert_eq!(rounds.load(Ordering::Relaxed), 50);
    Ok(())
}

/// Cancels a call at each of its awaits in turn, until it completes untouched. Nothing may be left
/// of it: no key, and no task besides the driver of the connection.
async fn cancelled<F>(what: &str, hold: bool, call: impl Fn(Mutex, Option<Guard>) -> F)
where
    F: Future<Output = Option<Guard>>,
{
    for polls in 0.. {
        let server = server().await;
        let lock = locks(&server)
            .mutex(KEY)
            .lease(LEASE)
            .watchdog(true)
            .build()
            .unwrap();
        let guard = match hold {
            true => Some(lock.try_lock().await.unwrap()),
            false => None,
        };
        let done = cancel_at(polls, call(lock.clone(), guard)).await;
        let completed = done.is_some();
        drop(done);
        pass(Duration::from_millis(1)).await;
        let history = server.history();
        assert!(!server.exists(KEY), "{what}, await {polls}: {history}");
        assert!(tasks() <= 1, "{what}, await {polls}: {history}");
        assert!(
            lock.try_lock().await.is_ok(),
            "{what}, await {polls}: {history}"
        );
        if completed {
            assert!(polls > 0, "{what} was never pending");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_call_that_is_cancelled() {
    cancelled("try_lock", false, |lock, _| async move {
        lock.try_lock().await.ok()
    })
    .await;
    cancelled("extend", true, |_, guard| async move {
        guard.as_ref()?.extend(LEASE * 2).await.unwrap();
        guard
    })
    .await;
    cancelled("release", true, |_, guard| async move {
        assert_eq!(guard?.release().await, Release::Released);
        None
    })
    .await;
}

/// On a thread of no runtime the release goes where the lock was asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_may_be_dropped_on_any_thread() -> Test {
    let server = Server::start().await?;
    let locks = LockManager::new(server.connection().await?);
    let lock = locks.mutex(KEY).lease(Duration::from_secs(600)).build()?;
    let guard = lock.try_lock().await?;
    let elsewhere = std::thread::spawn(move || drop(guard));
    elsewhere.join().map_err(|_| "it panicked")?;
    let again = lock.lock_timeout(Duration::from_secs(20)).await?;
    assert_eq!(again.release().await, Release::Released);
    Ok(())
}
