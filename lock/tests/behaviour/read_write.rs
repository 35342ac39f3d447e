//! Readers and writers on the test double, in virtual time.

use super::cancel::cancel_at;
use super::rig::{KEY, LEASE, Test, ask, keys, locks, pass, server};
use redouble::{Server, fault::Disconnect};
use redouble_lock::{LockError, LossReason, Release, RwLock};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

const READERS: &str = "{coupon:7}:readers";

fn lock(server: &Arc<Server>, prefer_writers: bool) -> RwLock {
    let builder = locks(server).rw_lock(KEY).lease(LEASE);
    builder.prefer_writers(prefer_writers).build().unwrap()
}

async fn readers(server: &Server) -> i64 {
    ask(server, &["ZCARD", READERS]).await
}

#[tokio::test(start_paused = true)]
async fn many_readers_or_one_writer() -> Test {
    let server = server().await;
    let lock = lock(&server, false);
    let first = lock.read().try_lock().await?;
    let second = lock.read().try_lock().await?;
    assert_eq!(
        lock.write().try_lock().await.unwrap_err(),
        LockError::Contended
    );
    assert_eq!(first.release().await, Release::Released);
    assert_eq!(
        lock.write().try_lock().await.unwrap_err(),
        LockError::Contended
    );
    assert_eq!(second.release().await, Release::Released);
    let writer = lock.write().try_lock().await?;
    assert_eq!(
        lock.read().try_lock().await.unwrap_err(),
        LockError::Contended
    );
    assert_eq!(
        lock.write().try_lock().await.unwrap_err(),
        LockError::Contended
    );
    let mutex = locks(&server).mutex(KEY).build()?;
    assert_eq!(mutex.try_lock().await.unwrap_err(), LockError::Contended);
    assert_eq!(writer.release().await, Release::Released);
    assert!(keys(&server).await.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn each_reader_goes_by_itself() -> Test {
    let server = server().await;
    let lock = lock(&server, false);
    std::mem::forget(lock.read().try_lock().await?); // dies
    pass(LEASE / 2).await;
    let living = lock.read().try_lock().await?;
    living.extend(LEASE * 3).await?;
    assert_eq!(server.pttl(READERS), Some(LEASE * 3));
    assert_eq!(readers(&server).await, 2);
    pass(LEASE / 2 + Duration::from_millis(1)).await;
    let third = lock.read().try_lock().await?;
    assert_eq!(
        readers(&server).await,
        2,
        "the dead one is gone, the living one is not"
    );
    assert_eq!(
        server.pttl(READERS).map(|ttl| ttl > LEASE * 2),
        Some(true),
        "never shortened"
    );
    assert_eq!(third.release().await, Release::Released);
    assert!(lock.write().try_lock().await.is_err());
    assert_eq!(living.release().await, Release::Released);
    assert!(lock.write().try_lock().await.is_ok());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_writer_has_the_lock_when_the_last_dead_reader_is_over() -> Test {
    let server = server().await;
    let lock = lock(&server, false);
    let begun = Instant::now();
    for _ in 0..3 {
        std::mem::forget(lock.read().try_lock().await?);
        pass(Duration::from_secs(1)).await;
    }
    let writer = lock.write().lock().await?;
    let waited = begun.elapsed().checked_sub(Duration::from_secs(2)).unwrap();
    assert!(
        waited > LEASE && waited < LEASE + Duration::from_millis(20),
        "{waited:?}"
    );
    assert_eq!(keys(&server).await, [KEY]);
    assert_eq!(writer.release().await, Release::Released);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lost_reader_is_neither_extended_nor_brought_back() -> Test {
    let server = server().await;
    let lock = lock(&server, false);
    let (lost, other) = (lock.read().try_lock().await?, lock.read().try_lock().await?);
    let token = lost.token().to_string();
    let _: i64 = ask(&server, &["ZREM", READERS, &token]).await;
    assert_eq!(
        lost.extend(LEASE).await,
        Err(LockError::Lost(LossReason::Gone))
    );
    assert_eq!(lost.release().await, Release::AlreadyLost);
    assert!(other.is_valid());
    assert_eq!(readers(&server).await, 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_acquire_without_an_answer_is_one_reader() -> Test {
    let server = server().await;
    let lock = lock(&server, true);
    drop(lock.read().try_lock().await?.release().await);
    let fault = server.inject(Disconnect::after_execution().key(READERS).nth(1));
    let reader = lock.read().try_lock().await?;
    assert_eq!((fault.fired(), readers(&server).await), (1, 1));
    assert_eq!(reader.release().await, Release::Released);
    assert!(keys(&server).await.is_empty(), "{}", server.history());
    Ok(())
}

/// Readers that come and go without a gap: how long a writer waits for its turn.
async fn wait_among_readers(prefer_writers: bool) -> Option<Duration> {
    let server = server().await;
    let lock = lock(&server, prefer_writers);
    let readers: Vec<_> = (0..4)
        .map(|n| {
            let read = lock.read().clone();
            tokio::spawn(async move {
                pass(Duration::from_millis(70 * n)).await;
                loop {
                    let guard = read.lock().await.unwrap();
                    pass(Duration::from_millis(300)).await;
                    drop(guard.release().await);
                }
            })
        })
        .collect();
    pass(Duration::from_secs(1)).await;
    let begun = Instant::now();
    let outcome = lock.write().lock_timeout(Duration::from_secs(20)).await;
    let waited = begun.elapsed();
    readers.iter().for_each(tokio::task::JoinHandle::abort);
    outcome.ok().map(|_| waited)
}

#[tokio::test(start_paused = true)]
async fn a_preferred_writer_does_not_starve() {
    assert!(wait_among_readers(true).await.unwrap() < Duration::from_secs(1));
    assert_eq!(
        wait_among_readers(false).await,
        None,
        "the readers do leave a gap"
    );
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_gives_up_lets_readers_in_at_once() -> Test {
    let server = server().await;
    let lock = lock(&server, true);
    let reader = lock.read().try_lock().await?;
    assert!(lock.write().try_lock().await.is_err());
    let other = lock.read().try_lock().await?;
    let error = lock
        .write()
        .lock_timeout(Duration::from_secs(3))
        .await
        .unwrap_err();
    assert!(error.is_timed_out());
    drop(lock.read().try_lock().await?);
    drop((reader, other));
    pass(Duration::from_millis(1)).await;
    assert!(keys(&server).await.is_empty(), "{}", server.history());
    Ok(())
}

// Readers made way for no longer than a lease, which was over before the writer asked again.
#[tokio::test(start_paused = true)]
async fn readers_make_way_for_a_writer_with_a_short_lease_all_the_time() -> Test {
    let server = server().await;
    let _reader = lock(&server, true).read().try_lock().await?;
    let short = locks(&server).rw_lock(KEY).prefer_writers(true);
    let short = short.lease(Duration::from_millis(50)).build()?;
    let _writer = tokio::spawn(async move { short.write().lock().await.map(drop) });
    for _ in 0..40 {
        pass(Duration::from_millis(97)).await;
        let error = lock(&server, true).read().try_lock().await.unwrap_err();
        assert_eq!(error, LockError::Contended);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_dies_while_it_waits_keeps_readers_out_for_a_short_time() -> Test {
    let server = server().await;
    let lock = lock(&server, true);
    let _reader = lock.read().try_lock().await?;
    let _: String = ask(
        &server,
        &["SET", "{coupon:7}:writer-waits", "dead", "PX", "2000"],
    )
    .await;
    let begun = Instant::now();
    assert!(lock.read().try_lock().await.is_err());
    assert!(lock.read().lock().await.is_ok());
    assert!(begun.elapsed() < Duration::from_millis(2_020));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn fencing_tokens_of_writers_grow() -> Test {
    let server = server().await;
    let lock = locks(&server).rw_lock(KEY).fenced().build()?;
    let mut last = None;
    for _ in 0..3 {
        let guard = lock.write().lock().await?;
        assert!(Some(guard.fencing_token()) > last);
        last = Some(guard.fencing_token());
        assert_eq!(guard.release().await, Release::Released);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_writer_that_is_cancelled_while_it_waits() -> Test {
    for polls in 0..6 {
        let server = server().await;
        let lock = lock(&server, true);
        let reader = lock.read().try_lock().await?;
        assert!(cancel_at(polls, lock.write().lock()).await.is_none());
        pass(Duration::from_millis(1)).await;
        assert!(
            lock.read().try_lock().await.is_ok(),
            "{polls}: {}",
            server.history()
        );
        pass(Duration::from_millis(1)).await;
        assert_eq!(reader.release().await, Release::Released);
        assert!(
            keys(&server).await.is_empty(),
            "{polls}: {}",
            server.history()
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_leaves_no_gap_for_another_writer() -> Test {
    let server = server().await;
    let lock = lock(&server, false);
    let writer = lock.write().try_lock().await?;
    let token = *writer.token();
    let waiting = lock.clone();
    let other_writer = tokio::spawn(async move { waiting.write().lock().await });
    let waiting = lock.clone();
    let other_reader = tokio::spawn(async move { waiting.read().lock().await });
    pass(Duration::from_millis(900)).await;

    let begun = Instant::now();
    let reader = lock.downgrade(writer).await?;
    assert_eq!(*reader.token(), token);
    let entered = other_reader.await??;
    assert!(begun.elapsed() < Duration::from_millis(50), "it was woken");
    assert_eq!(readers(&server).await, 2);
    assert!(!server.exists(KEY) && !other_writer.is_finished());

    assert_eq!(entered.release().await, Release::Released);
    assert!(!other_writer.is_finished());
    assert_eq!(reader.release().await, Release::Released);
    let writer = other_writer.await??;
    assert_eq!(writer.release().await, Release::Released);
    assert!(keys(&server).await.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_wakes_no_reader_in_front_of_which_a_writer_goes() -> Test {
    let server = server().await;
    let lock = lock(&server, true);
    let writer = lock.write().try_lock().await?;
    let waiting = lock.clone();
    let other_writer = tokio::spawn(async move { waiting.write().lock().await });
    pass(Duration::from_millis(100)).await;
    let reader = lock.downgrade(writer).await?;
    assert!(lock.read().try_lock().await.unwrap_err().is_contended());
    assert_eq!(reader.release().await, Release::Released);
    assert!(other_writer.await?.is_ok());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_keeps_the_longer_lease_and_the_watchdog() -> Test {
    let server = server().await;
    let builder = locks(&server).rw_lock(KEY).fenced().lease(LEASE);
    let lock = builder.watchdog(true).build()?;
    let writer = lock.write().try_lock().await?;
    writer.extend(LEASE * 4).await?;
    let reader = lock.downgrade(writer).await?;
    assert_eq!(server.pttl(READERS), Some(LEASE * 4));
    pass(LEASE * 6).await;
    assert!(reader.is_valid() && server.exists(READERS));
    assert_eq!(reader.release().await, Release::Released);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_without_a_reply_is_repeated() -> Test {
    for lost in 1..=2 {
        let server = server().await;
        let lock = lock(&server, false);
        let writer = lock.write().try_lock().await?;
        let _lose = server.inject(Disconnect::after_execution().key(KEY).nth(lost));
        let reader = lock.downgrade(writer).await?;
        assert_eq!(readers(&server).await, 1, "{lost}");
        assert_eq!(reader.release().await, Release::Released);
        assert!(keys(&server).await.is_empty());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_that_is_cancelled_or_fails_leaves_nothing() -> Test {
    for polls in 0..4 {
        let server = server().await;
        let lock = lock(&server, false);
        let writer = lock.write().try_lock().await?;
        drop(cancel_at(polls, lock.downgrade(writer)).await);
        pass(Duration::from_millis(1)).await;
        let left = keys(&server).await;
        assert!(left.is_empty(), "{polls}: {left:?}");
    }
    let server = server().await;
    let lock = lock(&server, false);
    let writer = lock.write().try_lock().await?;
    ask::<i64>(&server, &["DEL", KEY]).await;
    let lost = LockError::Lost(LossReason::Gone);
    assert_eq!(lock.downgrade(writer).await.unwrap_err(), lost);
    let writer = lock.write().try_lock().await?;
    pass(LEASE + Duration::from_millis(1)).await;
    assert!(lock.downgrade(writer).await.unwrap_err().is_lost());
    let writer = lock.write().try_lock().await?;
    let other = locks(&server).rw_lock("other").build()?;
    assert_eq!(
        other.downgrade(writer).await.unwrap_err(),
        LockError::OtherLock
    );
    pass(Duration::from_millis(1)).await;
    assert!(keys(&server).await.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_takes_no_guard_of_another_manager() -> Test {
    let (here, there) = (server().await, server().await);
    let writer = lock(&there, false).write().try_lock().await?;
    let error = lock(&here, false).downgrade(writer).await.unwrap_err();
    assert_eq!(error, LockError::OtherLock);
    pass(Duration::from_millis(1)).await;
    assert!(keys(&here).await.is_empty() && keys(&there).await.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_of_a_lost_lock_removes_what_is_left_of_it() -> Test {
    let server = server().await;
    let lock = locks(&server).rw_lock(KEY).lease(LEASE);
    let lock = lock.metadata("worker 1").build()?;
    let writer = lock.write().try_lock().await?;
    let _: u32 = ask(&server, &["DEL", KEY]).await;
    assert!(lock.downgrade(writer).await.unwrap_err().is_lost());
    pass(Duration::from_millis(1)).await;
    let left = keys(&server).await;
    assert!(left.is_empty(), "{left:?}");
    Ok(())
}

// It kept readers out for as long as the pauses after failed requests may be.
#[tokio::test(start_paused = true)]
async fn a_writer_that_died_keeps_readers_out_for_two_seconds_at_most() -> Test {
    let server = server().await;
    let reader = lock(&server, true).read().try_lock().await?;
    let ms = Duration::from_millis;
    let writer = locks(&server)
        .rw_lock(KEY)
        .lease(LEASE)
        .prefer_writers(true);
    let writer = writer
        .retry_pauses(ms(10), Duration::from_secs(60))
        .build()?;
    assert!(writer.write().lock_timeout(ms(100)).await.is_err());
    let waits = tokio::spawn(async move { writer.write().lock().await.map(drop) });
    pass(ms(100)).await;
    let left: i64 = ask(&server, &["PTTL", "{coupon:7}:writer-waits"]).await;
    assert!((1..=2_000).contains(&left), "{left} ms");
    assert_eq!(reader.release().await, Release::Released);
    waits.await??;
    Ok(())
}
