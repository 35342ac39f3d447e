//! Several locks at once on the test double, in virtual time.

use super::cancel::cancel_at;
use super::rig::{LEASE, Test, ask, keys, locks, pass, server};
use redouble::Server;
use redouble_lock::{LockError, LossReason, Mutex, Release, lock_all};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

fn mutex(server: &Arc<Server>, key: &str) -> Mutex {
    locks(server).mutex(key).lease(LEASE).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn all_or_none_of_several_nodes() -> Test {
    let (here, there) = (server().await, server().await);
    let (a, b, c) = (mutex(&here, "a"), mutex(&there, "b"), mutex(&here, "c"));
    let wait = Duration::from_secs(1);
    let all = lock_all([&c, &a, &b, &a.clone()], wait).await?;
    let keys_of_guards: Vec<_> = all
        .guards()
        .iter()
        .map(|guard| guard.key().to_vec())
        .collect();
    assert_eq!(
        keys_of_guards,
        [b"a", b"b", b"c"],
        "in their order, and none twice"
    );
    let error = lock_all([&b, &mutex(&there, "aa")], wait)
        .await
        .unwrap_err();
    assert!(error.is_timed_out());
    assert_eq!(keys(&there).await, ["b"], "the other one was given back");
    assert_eq!(all.release().await, Release::Released);
    assert!(keys(&here).await.is_empty() && keys(&there).await.is_empty());
    let none: [&Mutex; 0] = [];
    assert_eq!(
        lock_all(none, wait).await.unwrap_err(),
        LockError::NothingToLock
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn no_clients_wait_in_a_circle() -> Test {
    let server = server().await;
    let tasks: Vec<_> = [["a", "b"], ["b", "a"], ["c", "a"], ["b", "c"]]
        .into_iter()
        .map(|[first, second]| {
            let (first, second) = (mutex(&server, first), mutex(&server, second));
            tokio::spawn(async move {
                for _ in 0..10 {
                    let all = lock_all([&first, &second], LEASE).await.unwrap();
                    pass(Duration::from_millis(10)).await;
                    assert_eq!(all.release().await, Release::Released);
                }
            })
        })
        .collect();
    let begun = Instant::now();
    for task in tasks {
        task.await?;
    }
    assert!(begun.elapsed() < LEASE, "{:?}", begun.elapsed());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_expires_while_the_call_waits_for_another_is_no_grant() -> Test {
    let server = server().await;
    let (a, b) = (mutex(&server, "a"), mutex(&server, "b"));
    let _: String = ask(&server, &["SET", "b", "other", "PX", "31000"]).await;
    let error = lock_all([&a, &b], LEASE * 2).await.unwrap_err();
    assert_eq!(error, LockError::Lost(LossReason::Expired));
    assert!(keys(&server).await.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_one_ends_the_work() -> Test {
    let server = server().await;
    let (a, b) = (mutex(&server, "a"), mutex(&server, "b"));
    let long = b.try_lock().await?;
    drop(long.release().await);
    let all = lock_all([&a, &b], LEASE).await?;
    pass(LEASE / 2).await;
    all.guards()[1].extend(LEASE * 2).await?;
    assert!(all.remaining() < LEASE / 2, "the earliest counts");
    assert_eq!(all.deadline(), all.guards()[0].deadline());
    all.extend(LEASE).await?;
    assert!(all.remaining() > LEASE / 2);
    assert_eq!(all.run(async { 7 }).await?, 7);
    let _: i64 = ask(&server, &["DEL", "b"]).await;
    assert!(all.extend(LEASE).await.unwrap_err().is_lost());
    assert_eq!(all.lost().await, LossReason::Gone);
    assert!(
        all.run(pass(LEASE))
            .await
            .is_err_and(|error| error.is_lost())
    );
    assert!(!all.is_valid() && all.deadline().is_none());
    assert_eq!(all.release().await, Release::AlreadyLost);
    assert!(keys(&server).await.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_call_that_is_cancelled() -> Test {
    for polls in 0.. {
        let server = server().await;
        let (a, b) = (mutex(&server, "a"), mutex(&server, "b"));
        let outcome = cancel_at(polls, lock_all([&a, &b], LEASE)).await;
        let completed = outcome.is_some();
        drop(outcome);
        pass(Duration::from_millis(1)).await;
        assert!(
            keys(&server).await.is_empty(),
            "{polls}: {}",
            server.history()
        );
        if completed {
            assert!(polls > 1);
            return Ok(());
        }
    }
    Ok(())
}
