//! How long a call waits by default, and how waiters and failed requests pause, on the double, in virtual time.

use super::rig::{KEY, LEASE, Test, locks, pass, server};
use redouble::{Server, fault::AnswerError};
use redouble_lock::{Exclusive, LockBuilder, LockError, LockManager};
use std::time::Duration;
use tokio::time::Instant;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Over a connection on which no messages arrive.
async fn deaf(server: &Server) -> LockManager {
    LockManager::new(server.connection().await.unwrap())
}

/// How many requests the server was sent that are about locks.
fn asked(server: &Server) -> usize {
    let history = server.history().to_string();
    let about_locks = |line: &&str| line.contains("EVALSHA") || line.contains(" SET ");
    history.lines().filter(about_locks).count()
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_as_long_as_the_lock_says() -> Test {
    let server = server().await;
    let lock = locks(&server)
        .mutex(KEY)
        .lease(LEASE)
        .wait(ms(700))
        .build()?;
    let guard = lock.lock().await?;
    for owned in [false, true] {
        let begun = Instant::now();
        let error = match owned {
            false => lock.lock().await.unwrap_err(),
            true => lock.owner().lock().await.unwrap_err(),
        };
        assert!(error.is_timed_out(), "{error}");
        assert_eq!(begun.elapsed().as_millis(), 700);
    }
    // What a call says itself goes first.
    let begun = Instant::now();
    let error = lock.lock_timeout(ms(2_000)).await.unwrap_err();
    assert!(error.is_timed_out(), "{error}");
    assert_eq!(begun.elapsed().as_millis(), 2_000);
    let waiter = tokio::spawn(async move { lock.lock().await });
    pass(ms(600)).await;
    drop(guard);
    assert!(waiter.await?.is_ok());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn without_one_it_waits_on() -> Test {
    let server = server().await;
    let lock = locks(&server).mutex(KEY).lease(LEASE).build()?;
    std::mem::forget(lock.try_lock().await?);
    let begun = Instant::now();
    let _guard = lock.lock().await?;
    assert!(begun.elapsed() >= LEASE);
    Ok(())
}

/// Number of requests of a waiter within two seconds, if no message wakes it.
async fn looks(pauses: Option<(Duration, Duration)>) -> usize {
    let server = server().await;
    let holder = locks(&server).mutex(KEY).lease(LEASE).build().unwrap();
    let _guard = holder.try_lock().await.unwrap();
    let before = asked(&server);
    let mut lock = deaf(&server).await.mutex(KEY).lease(LEASE);
    if let Some((first, longest)) = pauses {
        lock = lock.poll_pauses(first, longest);
    }
    let error = lock
        .build()
        .unwrap()
        .lock_timeout(ms(2_000))
        .await
        .unwrap_err();
    assert!(error.is_timed_out(), "{error}");
    asked(&server) - before
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_nothing_wakes_pauses_as_it_is_told() -> Test {
    // Besides the first request and the last one; each pause is at least half of the longest one.
    let fixed = looks(Some((ms(200), ms(200)))).await;
    assert!((11..=22).contains(&fixed), "{fixed}");
    let rare = looks(Some((ms(1_000), ms(1_000)))).await;
    assert!((3..=6).contains(&rare), "{rare}");
    // 1, 2, 4 ... 64 ms, then 64 ms each.
    let growing = looks(Some((ms(1), ms(64)))).await;
    assert!((36..=71).contains(&growing), "{growing}");
    // 5, 10, 20, 40, 80 ms, then 100 ms each.
    let default = looks(None).await;
    assert!((24..=46).contains(&default), "{default}");
    Ok(())
}

/// How often a call asks within two seconds, if the server answers each request that it is loading.
async fn tries(options: impl Fn(LockBuilder<Exclusive>) -> LockBuilder<Exclusive>) -> u64 {
    let server = server().await;
    let fault = server.inject(AnswerError::new("LOADING not yet").key(KEY));
    let lock = options(locks(&server).mutex(KEY).lease(LEASE));
    let error = lock
        .build()
        .unwrap()
        .lock_timeout(ms(2_000))
        .await
        .unwrap_err();
    assert!(matches!(error, LockError::Redis(_)), "{error}");
    fault.fired()
}

#[tokio::test(start_paused = true)]
async fn failed_requests_are_repeated_after_pauses_as_told() -> Test {
    let fixed = tries(|lock| lock.retry_pauses(ms(100), ms(100))).await;
    assert!((21..=42).contains(&fixed), "{fixed}");
    let rare = tries(|lock| lock.retry_pauses(ms(60_000), ms(60_000))).await;
    assert_eq!(rare, 2, "at the begin and at the end");
    // 10, 20, 40 ... 640 ms, then 1 s each.
    let default = tries(|lock| lock).await;
    assert!((8..=13).contains(&default), "{default}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_waiter_asks_within_its_longest_poll_interval_after_failures_too() -> Test {
    // 10, 20, 40 ms, then 50 ms each.
    let frequent = tries(|lock| lock.max_poll_interval(ms(50))).await;
    assert!((41..=82).contains(&frequent), "{frequent}");
    let told = |lock: LockBuilder<Exclusive>| {
        lock.max_poll_interval(ms(50))
            .retry_pauses(ms(500), ms(500))
    };
    let rare = tries(told).await;
    assert!((5..=9).contains(&rare), "{rare}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_watchdog_asks_again_after_such_pauses() -> Test {
    let mut counts = [0_u64, 0];
    for (count, longest) in counts.iter_mut().zip([ms(20), ms(2_000)]) {
        let server = server().await;
        let lock = locks(&server).mutex(KEY).lease(LEASE).watchdog(true);
        let guard = lock.retry_pauses(ms(20), longest).build()?.lock().await?;
        let fault = server.inject(AnswerError::new("LOADING not yet").key(KEY));
        pass(ms(11_000)).await;
        *count = fault.fired();
        assert!(guard.is_valid());
    }
    let [often, seldom] = counts;
    assert!((40..=130).contains(&often), "{often}");
    assert!((3..=14).contains(&seldom), "{seldom}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn pauses_that_make_no_sense_are_refused() -> Test {
    let server = server().await;
    let second = Duration::from_secs(1);
    for (first, longest) in [
        (Duration::ZERO, second),
        (ms(1) - Duration::from_nanos(1), second),
        (ms(20), ms(19)),
        (ms(20), second + ms(1)),
        (second * 2, Duration::MAX),
    ] {
        let lock = locks(&server).mutex(KEY).poll_pauses(first, longest);
        let error = lock.build().unwrap_err();
        let limit = second;
        let wanted = LockError::InvalidPauses {
            first,
            longest,
            limit,
        };
        assert_eq!(error, wanted);
        assert!(!error.is_retryable() && error.to_string().contains("<= 1s"));
        let lock = locks(&server).mutex(KEY).retry_pauses(first, longest);
        let refused = lock.build().is_err();
        assert_eq!(refused, longest != second + ms(1) || first < ms(1));
    }
    let lock = locks(&server).mutex(KEY);
    let lock = lock
        .poll_pauses(ms(1), ms(1))
        .retry_pauses(second, second * 60);
    assert!(lock.build()?.lock().await.is_ok());
    let history = server.history().to_string();
    assert_eq!(history.matches(" SET ").count(), 1, "{history}");
    Ok(())
}
