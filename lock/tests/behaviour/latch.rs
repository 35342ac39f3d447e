//! Latches on the test double, in virtual time.

use super::rig::{KEY, Test, ask, keys, locks, pass, server};
use redouble::{
    Server,
    fault::{Disconnect, Gate, Hold},
};
use redouble_lock::{CountDownLatch, LockError};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

fn latch(server: &Arc<Server>) -> CountDownLatch {
    locks(server).count_down_latch(KEY)
}

#[tokio::test(start_paused = true)]
async fn it_counts_down_to_zero_and_no_further() -> Test {
    let server = server().await;
    let latch = latch(&server);
    assert_eq!(latch.count().await?, None);
    assert_eq!(latch.count_down().await, Err(LockError::NotSet));
    assert!(latch.set_count(3).await?);
    assert!(!latch.set_count(9).await?);
    for left in [Some(2), Some(1), Some(0), None, None] {
        assert_eq!(latch.count_down().await?, left);
        assert_eq!(latch.count().await?, Some(left.unwrap_or(0)));
    }
    assert!(!latch.set_count(1).await?, "it stays open");
    latch.wait(Duration::ZERO).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn waiters_go_on_when_it_is_zero_and_not_before() -> Test {
    let server = server().await;
    let first = latch(&server);
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let latch = latch(&server);
            tokio::spawn(async move { latch.wait(Duration::from_secs(60)).await })
        })
        .collect();
    pass(Duration::from_secs(1)).await;
    assert!(
        waiters.iter().all(|waiter| !waiter.is_finished()),
        "it is not set"
    );
    assert!(first.set_count(2).await?);
    first.count_down().await?;
    pass(Duration::from_secs(1)).await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    let begun = Instant::now();
    first.count_down().await?;
    for waiter in waiters {
        waiter.await??;
    }
    assert_eq!(begun.elapsed(), Duration::ZERO, "a message wakes them");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_waiter_looks_now_and_then_and_not_all_the_time() -> Test {
    let server = server().await;
    let latch = latch(&server);
    assert!(latch.set_count(1).await?);
    let asked = || {
        let history = server.history().to_string();
        history.matches("HGET").count() + history.matches("EVALSHA").count()
    };
    let begun = asked();
    let error = latch.wait(Duration::from_secs(60)).await.unwrap_err();
    assert!(error.is_timed_out());
    let looks = asked() - begun;
    assert!((60..=125).contains(&looks), "{looks} looks");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_counts_once() -> Test {
    // The second and third message: the first is sent by digest, before the text is known.
    for executed in [false, true] {
        for n in 1..=2 {
            let server = server().await;
            let rule = match executed {
                true => Disconnect::after_execution(),
                false => Disconnect::before_execution(),
            };
            let _set = server.inject(rule.clone().key(KEY).nth(n));
            let latch = latch(&server);
            assert!(latch.set_count(5).await?, "{}", server.history());
            let fault = server.inject(rule.key(KEY).nth(n));
            assert_eq!(latch.count_down().await?, Some(4), "{}", server.history());
            assert_eq!(fault.fired(), 1);
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_last_count_counts_though_it_was_repeated() -> Test {
    let server = server().await;
    let latch = latch(&server);
    assert!(latch.set_count(2).await?);
    assert_eq!(latch.count_down().await?, Some(1)); // the script is known from here on
    let fault = server.inject(Disconnect::after_execution().key(KEY).nth(1));
    assert_eq!(latch.count_down().await?, Some(0), "{}", server.history());
    assert_eq!(fault.fired(), 1);
    assert_eq!(latch.count_down().await?, None);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn only_one_client_is_told_that_its_count_was_the_last() -> Test {
    let server = server().await;
    let (mine, another) = (latch(&server), locks(&server).count_down_latch(KEY));
    assert!(mine.set_count(3).await?);
    assert_eq!(mine.count_down().await?, Some(2)); // the script is known from here on
    let gate = Gate::new();
    let _lost = server.inject(Disconnect::after_execution().key(KEY).nth(1));
    // It was executed; its repetition comes after the other one's count.
    let _held = server.inject(Hold::request(&gate).key(KEY).nth(2));
    let (first, last) = tokio::join!(mine.count_down(), async {
        while gate.waiting() == 0 {
            pass(Duration::from_millis(1)).await;
        }
        let last = another.count_down().await;
        gate.open();
        last
    });
    assert_eq!((first?, last?), (Some(1), Some(0)), "{}", server.history());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_client_that_may_still_count_is_not_told_that_there_is_no_latch() -> Test {
    let server = server().await;
    let latch = latch(&server);
    let error = latch.count_down().await.unwrap_err();
    assert!(matches!(error, LockError::NotSet), "{error:?}");
    let fault = server.inject(Disconnect::before_execution().key(KEY).nth(1));
    let error = latch.count_down().await.unwrap_err();
    assert_eq!(fault.fired(), 1);
    assert!(error.is_unknown(), "{error:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_client_of_a_paused_server_is_told_that_the_count_is_unknown() -> Test {
    let server = server().await;
    let latch = latch(&server);
    assert!(latch.set_count(5).await?);
    let pause = server.pause();
    let begun = Instant::now();
    assert!(latch.count_down().await.unwrap_err().is_unknown());
    assert_eq!(begun.elapsed(), Duration::from_millis(500));
    let error = latch.wait(Duration::from_secs(3)).await.unwrap_err();
    assert!(matches!(error, LockError::Redis(_)), "{error:?}");
    pause.resume();
    let error = latch.wait(Duration::from_secs(3)).await.unwrap_err();
    assert!(error.is_timed_out());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn it_is_kept_for_a_time() -> Test {
    let server = server().await;
    let latch = latch(&server).keep(Duration::from_secs(10));
    assert!(latch.set_count(2).await?);
    latch.count_down().await?;
    pass(Duration::from_millis(10_001)).await;
    assert!(keys(&server).await.is_empty());
    assert_eq!(latch.count().await?, None);
    let _: i64 = ask(&server, &["HSET", KEY, "count", "x"]).await;
    assert!(latch.count().await.is_err());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_latch_that_is_set_to_zero_wakes_its_waiters() -> Test {
    let server = server().await;
    let first = latch(&server);
    let waits = latch(&server);
    let waiter = tokio::spawn(async move { waits.wait(Duration::from_secs(60)).await });
    pass(Duration::from_millis(300)).await;
    let begun = Instant::now();
    assert!(first.set_count(0).await?);
    waiter.await??;
    assert_eq!(begun.elapsed(), Duration::ZERO, "a message wakes it");
    Ok(())
}
