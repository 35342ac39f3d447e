//! Locks on several keys on the test double, in virtual time.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that fails, in virtual time"
)]

mod rig;

use redouble::{Server, fault::Disconnect};
use redouble_lock::{LockError, LossReason, MultiLock, Release};
use rig::{LEASE, Test, ask, keys, locks, pass, server};
use std::{sync::Arc, time::Duration};

fn multi(server: &Arc<Server>, keys: &[&str]) -> MultiLock {
    locks(server).multi(keys).unwrap().lease(LEASE).build()
}

#[tokio::test(start_paused = true)]
async fn all_or_nothing() -> Test {
    let server = server().await;
    let mutex = |key: &str| locks(&server).mutex(key).lease(LEASE).build();
    let guard = multi(&server, &["b", "a", "c", "a"]).try_lock().await?;
    for key in ["a", "b", "c"] {
        assert_eq!(server.get(key).as_deref(), Some(guard.token().as_bytes()));
        assert_eq!(server.pttl(key), Some(LEASE));
        assert_eq!(
            mutex(key).try_lock().await.unwrap_err(),
            LockError::Contended
        );
    }
    let other = multi(&server, &["d", "c"]);
    assert_eq!(other.try_lock().await.unwrap_err(), LockError::Contended);
    assert!(!server.exists("d"));
    assert_eq!(guard.release().await, Release::Released);
    assert!(keys(&server).await.is_empty());
    let plain = mutex("d").try_lock().await?;
    assert!(other.try_lock().await.is_err());
    assert!(!server.exists("c"));
    assert_eq!(plain.release().await, Release::Released);
    assert_eq!(other.try_lock().await?.release().await, Release::Released);
    assert_eq!(
        locks(&server).multi([""; 0]).unwrap_err(),
        LockError::NothingToLock
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn crosswise_waiters_do_not_block_each_other_for_ever() -> Test {
    let server = server().await;
    let tasks: Vec<_> = [["a", "b"], ["b", "a"], ["b", "c"], ["c", "a"]]
        .into_iter()
        .map(|keys| {
            let lock = multi(&server, &keys);
            tokio::spawn(async move {
                for _ in 0..10 {
                    let guard = lock.lock().await.unwrap();
                    pass(Duration::from_millis(10)).await;
                    assert_eq!(guard.release().await, Release::Released);
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(LEASE, task).await??;
    }
    assert!(keys(&server).await.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_one_is_the_loss_of_all() -> Test {
    let server = server().await;
    let guard = multi(&server, &["a", "b", "c"]).try_lock().await?;
    let _: i64 = ask(&server, &["DEL", "b"]).await;
    pass(LEASE / 2).await;
    assert_eq!(
        guard.extend(LEASE).await,
        Err(LockError::Lost(LossReason::Gone))
    );
    assert!(keys(&server).await.is_empty(), "the others are given back");
    let thief = locks(&server).mutex("b").build().try_lock().await?;
    assert_eq!(guard.release().await, Release::AlreadyLost);
    pass(Duration::from_millis(1)).await;
    assert_eq!(keys(&server).await, ["b"]);
    assert!(thief.is_valid());
    let guard = multi(&server, &["a", "c"]).try_lock().await?;
    let _: i64 = ask(&server, &["DEL", "c"]).await;
    assert_eq!(guard.release().await, Release::AlreadyLost);
    assert_eq!(keys(&server).await, ["b"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn extension_and_repetition() -> Test {
    let server = server().await;
    let lock = multi(&server, &["a", "b"]);
    drop(lock.try_lock().await?.release().await);
    let fault = server.inject(Disconnect::after_execution().key("b").nth(1));
    let guard = lock.try_lock().await?;
    assert_eq!(fault.fired(), 1);
    guard.extend(LEASE * 2).await?;
    guard.extend(LEASE).await?;
    assert_eq!(
        (server.pttl("a"), server.pttl("b")),
        (Some(LEASE * 2), Some(LEASE * 2))
    );
    assert_eq!(guard.release().await, Release::Released);
    Ok(())
}
