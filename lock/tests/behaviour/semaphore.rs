//! Semaphores on the test double, in virtual time.

use super::rig::{KEY, LEASE, Test, ask, keys, locks, pass, server};
use redouble::{Server, fault::Disconnect};
use redouble_lock::{LockError, LossReason, Release, Semaphore};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

fn semaphore(server: &Arc<Server>, capacity: u32) -> Semaphore {
    locks(server)
        .semaphore(KEY, capacity)
        .lease(LEASE)
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn no_more_than_there_are() -> Test {
    let server = server().await;
    let semaphore = semaphore(&server, 5);
    let three = semaphore.permits(3)?.try_lock().await?;
    assert_eq!(
        semaphore.permits(3)?.try_lock().await.unwrap_err(),
        LockError::Contended
    );
    let two = semaphore.permits(2)?.try_lock().await?;
    assert!(semaphore.permits(1)?.try_lock().await.is_err());
    assert_eq!(three.release().await, Release::Released);
    let others = (
        semaphore.permits(1)?.try_lock().await?,
        semaphore.permits(2)?.try_lock().await?,
    );
    assert!(semaphore.permits(1)?.try_lock().await.is_err());
    drop((two, others));
    pass(Duration::from_millis(1)).await;
    assert!(keys(&server).await.is_empty());
    assert_eq!(
        semaphore.permits(6).unwrap_err(),
        LockError::InvalidPermits {
            permits: 6,
            capacity: 5
        }
    );
    assert!(semaphore.permits(0).is_err());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn permits_of_the_dead_come_back_one_holder_at_a_time() -> Test {
    let server = server().await;
    let semaphore = semaphore(&server, 3);
    let begun = Instant::now();
    for _ in 0..3 {
        std::mem::forget(semaphore.permits(1)?.try_lock().await?);
        pass(Duration::from_secs(5)).await;
    }
    // For two of them the first two holders must be over.
    let two = semaphore.permits(2)?.lock().await?;
    let waited = begun.elapsed();
    assert!(waited > LEASE + Duration::from_secs(5), "{waited:?}");
    assert!(waited < LEASE + Duration::from_millis(5_020), "{waited:?}");
    assert!(
        semaphore.permits(1)?.try_lock().await.is_err(),
        "the third one is not"
    );
    two.extend(LEASE * 3).await?;
    pass(LEASE).await;
    assert!(semaphore.permits(1)?.try_lock().await.is_ok());
    assert_eq!(two.release().await, Release::Released);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_holder_extends_only_itself_and_never_comes_back() -> Test {
    let server = server().await;
    let semaphore = semaphore(&server, 2);
    let (lost, other) = (
        semaphore.permits(1)?.try_lock().await?,
        semaphore.permits(1)?.try_lock().await?,
    );
    // Its deadline is over.
    let holder = format!("1:{}", lost.token());
    let _: i64 = ask(&server, &["ZADD", KEY, "XX", "CH", "1", &holder]).await;
    let next = semaphore.permits(1)?.try_lock().await?;
    assert_eq!(
        lost.extend(LEASE).await,
        Err(LockError::Lost(LossReason::Gone))
    );
    assert_eq!(lost.release().await, Release::AlreadyLost);
    assert!(semaphore.permits(1)?.try_lock().await.is_err());
    other.extend(LEASE * 2).await?;
    pass(LEASE + Duration::from_millis(1)).await;
    drop(next);
    assert!(semaphore.permits(2)?.try_lock().await.is_err());
    assert!(semaphore.permits(1)?.try_lock().await.is_ok());
    assert!(other.is_valid());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_counts_once() -> Test {
    let server = server().await;
    let semaphore = semaphore(&server, 4);
    drop(semaphore.permits(2)?.try_lock().await?.release().await);
    let fault = server.inject(Disconnect::after_execution().key(KEY).nth(1));
    let two = semaphore.permits(2)?.try_lock().await?;
    assert_eq!(fault.fired(), 1);
    assert!(semaphore.permits(3)?.try_lock().await.is_err());
    assert!(semaphore.permits(2)?.try_lock().await.is_ok());
    assert_eq!(two.release().await, Release::Released);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn under_contention() -> Test {
    let server = server().await;
    let inside = Arc::new(AtomicU32::new(0));
    let most = Arc::new(AtomicU32::new(0));
    let tasks: Vec<_> = (0..6_u32)
        .map(|n| {
            let permits = n % 3 + 1;
            let lock = semaphore(&server, 4).permits(permits).unwrap();
            let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
            tokio::spawn(async move {
                for _ in 0..10 {
                    let guard = lock.lock().await.unwrap();
                    let now = inside.fetch_add(permits, Ordering::Relaxed) + permits;
                    most.fetch_max(now, Ordering::Relaxed);
                    pass(Duration::from_millis(20)).await;
                    inside.fetch_sub(permits, Ordering::Relaxed);
                    assert_eq!(guard.release().await, Release::Released);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await?;
    }
    assert_eq!(most.load(Ordering::Relaxed), 4);
    assert!(keys(&server).await.is_empty());
    Ok(())
}

// The count of the permits stayed, until the lease of the last holder.
#[tokio::test(start_paused = true)]
async fn nothing_is_left_after_the_last_holder_is_over() -> Test {
    let server = server().await;
    let semaphore = semaphore(&server, 2);
    let lost = semaphore.permits(1)?.try_lock().await?;
    pass(LEASE / 2).await;
    let other = semaphore.permits(1)?.try_lock().await?;
    assert_eq!(other.release().await, Release::Released);
    pass(LEASE / 2 + Duration::from_millis(2)).await;
    assert_eq!(lost.release().await, Release::AlreadyLost);
    assert!(keys(&server).await.is_empty(), "{}", server.history());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn free_permits_and_waiters_are_counted() -> Test {
    let server = server().await;
    let locks = locks(&server);
    let semaphore = locks.semaphore(KEY, 5).lease(LEASE).build()?;
    assert_eq!(semaphore.available_permits().await?, 5);
    std::mem::forget(semaphore.permits(3)?.try_lock().await?); // dies
    let longer = locks.semaphore(KEY, 5).lease(LEASE * 2).build()?;
    let _alive = longer.permits(1)?.try_lock().await?;
    assert_eq!(semaphore.available_permits().await?, 1);
    assert_eq!(locks.queue_length(KEY).await?, 0);
    let wants = semaphore.permits(2)?;
    let waiter = tokio::spawn(async move { wants.lock().await.map(drop) });
    pass(Duration::from_secs(2)).await;
    assert_eq!(locks.queue_length(KEY).await?, 1);
    waiter.abort();
    pass(LEASE + Duration::from_millis(2)).await;
    assert_eq!(locks.queue_length(KEY).await?, 0);
    assert_eq!(
        semaphore.available_permits().await?,
        4,
        "the dead count as gone"
    );
    Ok(())
}
