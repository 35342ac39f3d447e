//! The fair mutex on the test double, in virtual time.

use super::cancel::cancel_at;
use super::rig::{KEY, LEASE, REPLY_TIMEOUT, Test, ask, keys, locks, pass, server};
use redouble::{Server, fault::Disconnect};
use redouble_lock::{FairMutex, LockError, Release};
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::Instant};

const QUEUE: &str = "{coupon:7}:queue";

/// Time for which a waiter that does not ask keeps its place.
const PATIENCE: Duration = Duration::from_secs(2);

fn fair(server: &Arc<Server>) -> FairMutex {
    locks(server).fair_mutex(KEY).lease(LEASE).build().unwrap()
}

async fn queue(server: &Server) -> i64 {
    ask(server, &["ZCARD", QUEUE]).await
}

#[tokio::test(start_paused = true)]
async fn first_come_first_served() -> Test {
    let server = server().await;
    let guard = fair(&server).lock().await?;
    let (served, mut order) = mpsc::unbounded_channel();
    let mut waiters = Vec::new();
    for n in 0..10 {
        let (lock, served) = (fair(&server), served.clone());
        waiters.push(tokio::spawn(async move {
            let guard = lock.lock().await.unwrap();
            served.send(n).unwrap();
            pass(Duration::from_millis(50)).await;
            assert_eq!(guard.release().await, Release::Released);
        }));
        // Their pauses are random, so later ones would often be faster.
        pass(Duration::from_millis(137)).await;
    }
    assert_eq!(queue(&server).await, 10);
    assert_eq!(guard.release().await, Release::Released);
    for n in 0..10 {
        assert_eq!(order.recv().await, Some(n));
    }
    for waiter in waiters {
        waiter.await?;
    }
    assert!(keys(&server).await.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_is_taken_in_one_round_trip_and_without_a_queue() -> Test {
    let server = server().await;
    let lock = fair(&server);
    let guard = lock.try_lock().await?;
    assert_eq!(keys(&server).await, [KEY]);
    let plain = locks(&server).mutex(KEY).build()?;
    assert_eq!(plain.try_lock().await.unwrap_err(), LockError::Contended);
    assert_eq!(lock.try_lock().await.unwrap_err(), LockError::Contended);
    assert_eq!(
        keys(&server).await,
        [KEY],
        "a client that does not wait is not queued"
    );
    assert_eq!(guard.release().await, Release::Released);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_first_client_to_ask_goes_first_even_if_the_lock_is_free() -> Test {
    let server = server().await;
    let lock = fair(&server);
    let guard = lock.lock().await?;
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.lock().await.unwrap() }
    });
    pass(Duration::from_secs(1)).await;
    let _: i64 = ask(&server, &["DEL", KEY]).await;
    assert_eq!(
        lock.try_lock().await.unwrap_err(),
        LockError::Contended,
        "another queues"
    );
    let next = waiter.await?;
    assert_eq!(server.get(KEY).as_deref(), Some(next.token().as_bytes()));
    assert_eq!(guard.release().await, Release::AlreadyLost);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_dead_are_skipped() -> Test {
    let server = server().await;
    let lock = fair(&server);
    let guard = lock.lock().await?;
    // Two whose connections end for good while they wait, and one in between who lives.
    let (dead, alive) = (fair(&server), fair(&server));
    let first = tokio::spawn(async move { dead.lock().await });
    pass(Duration::from_millis(300)).await;
    let second = tokio::spawn(async move { alive.lock().await });
    pass(Duration::from_millis(300)).await;
    assert_eq!(queue(&server).await, 2);
    // As a crash does it: no farewell. Aborting the task would leave the queue.
    let ghost = "ghost";
    let _: i64 = ask(&server, &["ZADD", QUEUE, "0", ghost]).await;
    let time: Vec<u64> = ask(&server, &["TIME"]).await;
    let until = time[0] * 1000 + time[1] / 1000 + 2_000;
    let _: i64 = ask(
        &server,
        &["ZADD", "{coupon:7}:alive", &until.to_string(), ghost],
    )
    .await;
    let begun = Instant::now();
    assert_eq!(guard.release().await, Release::Released);
    let guard = first.await??;
    assert!(
        begun.elapsed() > Duration::from_secs(2),
        "not before its time is over"
    );
    assert!(begun.elapsed() < PATIENCE + Duration::from_millis(20));
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(second.await??.release().await, Release::Released);
    assert!(keys(&server).await.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_dead_do_not_pile_up() -> Test {
    let server = server().await;
    let lock = fair(&server);
    let _guard = lock.lock().await?;
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.lock().await.map(drop) }
    });
    pass(Duration::from_secs(1)).await;
    for n in 0..50 {
        let ghost = format!("ghost {n}");
        let _: i64 = ask(&server, &["ZADD", QUEUE, "9", &ghost]).await;
        let _: i64 = ask(&server, &["ZADD", "{coupon:7}:alive", "1000", &ghost]).await;
    }
    assert!(lock.try_lock().await.is_err());
    assert_eq!(queue(&server).await, 1, "only the one that waits");
    waiter.abort();
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_makes_room_at_once() -> Test {
    let server = server().await;
    let guard = fair(&server).lock().await?;
    let first = fair(&server);
    let first = tokio::spawn(async move { first.lock_timeout(Duration::from_secs(3)).await });
    pass(Duration::from_millis(500)).await;
    let cancelled = fair(&server);
    let cancelled = tokio::spawn(async move { cancelled.lock().await });
    pass(Duration::from_millis(500)).await;
    let last = fair(&server);
    let last = tokio::spawn(async move { last.lock().await });
    pass(Duration::from_millis(500)).await;
    assert_eq!(queue(&server).await, 3);
    cancelled.abort();
    pass(Duration::from_millis(1)).await;
    assert_eq!(queue(&server).await, 2);
    assert!(first.await?.unwrap_err().is_timed_out());
    assert_eq!(queue(&server).await, 1);
    let begun = Instant::now();
    assert_eq!(guard.release().await, Release::Released);
    drop(last.await??);
    assert!(begun.elapsed() < Duration::from_millis(120));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_place_survives_lost_answers() -> Test {
    let server = server().await;
    let guard = fair(&server).lock().await?;
    let fault = server.inject(Disconnect::after_execution().key(QUEUE).nth(3));
    let first = fair(&server);
    let first = tokio::spawn(async move { first.lock().await });
    pass(Duration::from_millis(200)).await;
    let second = fair(&server);
    let second = tokio::spawn(async move { second.lock().await });
    pass(Duration::from_secs(5)).await;
    assert_eq!((fault.fired(), queue(&server).await), (1, 2));
    assert_eq!(guard.release().await, Release::Released);
    let guard = first.await??;
    assert!(!second.is_finished());
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(second.await??.release().await, Release::Released);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn fencing_tokens_grow_in_the_order_of_the_queue() -> Test {
    let server = server().await;
    let lock = locks(&server)
        .fair_mutex(KEY)
        .fenced()
        .lease(LEASE)
        .build()?;
    let first = lock.lock().await?;
    let fence = first.fencing_token();
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.lock().await }
    });
    pass(Duration::from_millis(200)).await;
    assert_eq!(first.release().await, Release::Released);
    assert!(waiter.await??.fencing_token() > fence);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_waiter_that_is_cancelled() -> Test {
    for held in [true, false] {
        for polls in 0..8 {
            let server = server().await;
            let lock = fair(&server);
            let guard = match held {
                true => Some(lock.lock().await?),
                false => None,
            };
            drop(cancel_at(polls, lock.lock()).await);
            pass(Duration::from_millis(1)).await;
            drop(guard);
            pass(Duration::from_millis(1)).await;
            assert!(
                keys(&server).await.is_empty(),
                "{polls}: {}",
                server.history()
            );
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_waiter_of_a_silent_server_keeps_its_time() -> Test {
    let server = server().await;
    let lock = fair(&server);
    let _guard = lock.lock().await?;
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move {
            let begun = Instant::now();
            let outcome = lock.lock_timeout(Duration::from_secs(2)).await;
            (outcome, begun.elapsed())
        }
    });
    pass(Duration::from_secs(1)).await;
    let _pause = server.pause();
    let (outcome, waited) = waiter.await?;
    assert!(outcome.unwrap_err().is_unknown());
    assert!(
        waited <= Duration::from_secs(2) + REPLY_TIMEOUT,
        "{waited:?}"
    );
    Ok(())
}

// Waiters counted as alive for no longer than a lease, and asked a few milliseconds after the holder's lease had ended.
#[tokio::test(start_paused = true)]
async fn the_order_holds_with_short_leases() -> Test {
    for lease_ms in [50, 300, 900] {
        let server = server().await;
        let lease = Duration::from_millis(lease_ms);
        let fair = || locks(&server).fair_mutex(KEY).lease(lease).build().unwrap();
        // Each holder dies with its lock.
        std::mem::forget(fair().try_lock().await?);
        let (served, mut order) = mpsc::unbounded_channel();
        for n in 0..8 {
            let (lock, served) = (fair(), served.clone());
            tokio::spawn(async move {
                std::mem::forget(lock.lock().await.unwrap());
                served.send(n).unwrap();
            });
            pass(Duration::from_millis(2)).await;
        }
        for n in 0..8 {
            assert_eq!(order.recv().await, Some(n), "lease of {lease_ms} ms");
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_waiter_queues_again_after_its_queue_is_evicted() -> Test {
    let server = server().await;
    let guard = fair(&server).lock().await?;
    let waiters = [(); 3].map(|()| {
        let lock = fair(&server);
        tokio::spawn(async move { lock.lock().await })
    });
    pass(Duration::from_millis(300)).await;
    assert_eq!(queue(&server).await, 3);
    let _: i64 = ask(&server, &["DEL", QUEUE]).await;
    pass(Duration::from_millis(1_100)).await;
    assert_eq!(queue(&server).await, 3);
    assert_eq!(guard.release().await, Release::Released);
    for waiter in waiters {
        drop(waiter.await??);
    }
    Ok(())
}

// The release told the dead one alone: the next waiter found out at its next look, most of a second later.
#[tokio::test(start_paused = true)]
async fn a_release_passes_over_a_dead_process() -> Test {
    let server = server().await;
    let guard = fair(&server).lock().await?;
    let waiter = tokio::spawn({
        let lock = fair(&server);
        async move { lock.lock().await.map(|guard| (guard, Instant::now())) }
    });
    pass(Duration::from_secs(2)).await;
    let ghost = "0".repeat(48);
    let _: i64 = ask(&server, &["ZADD", QUEUE, "0", &ghost]).await;
    let _: i64 = ask(&server, &["ZADD", "{coupon:7}:alive", "1000", &ghost]).await;
    let freed = Instant::now();
    assert_eq!(guard.release().await, Release::Released);
    let (_guard, granted) = waiter.await??;
    assert!(
        granted - freed < Duration::from_millis(20),
        "{:?}",
        granted - freed
    );
    Ok(())
}
