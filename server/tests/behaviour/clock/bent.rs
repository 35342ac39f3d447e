//! Offset, drift and freeze of a server's clock, as clients see them.

use super::{PATIENCE, Test, heard, manual, ms, patient, sent};
use redis::{AsyncTypedCommands, IntegerReplyOrNoOp::IntegerReply};
use redouble::fault::Delay;
use redouble::{Clock, Server};
use std::time::Duration;

#[tokio::test]
async fn a_fast_clock_forgets_early_and_a_slow_one_late() -> Test {
    for (ppm, last) in [(250_000, 8_000), (0, 10_000), (-500_000, 20_000)] {
        let server = manual().await?;
        server.clock().drift(ppm);
        assert_eq!(server.clock().drift_ppm(), ppm);
        let mut redis = server.connection().await?;
        redis.pset_ex("k", "v", 10_000).await?;
        let mut waiter = sent(&server, "BLPOP q 10").await?;
        server.clock().advance(ms(last));
        assert_eq!(redis.pttl("k").await?, IntegerReply(0), "{ppm}");
        assert_eq!(heard(&mut waiter), "", "{ppm}");
        server.clock().advance(ms(2));
        assert_eq!(redis.get("k").await?, None, "{ppm}");
        assert_eq!(heard(&mut waiter), "*-1\r\n", "{ppm}");
    }
    Ok(())
}

#[tokio::test]
async fn a_clock_runs_true_again_with_the_offset_it_got() -> Test {
    let server = manual().await?;
    let start = server.clock().true_time();
    assert_eq!((server.now(), server.clock().offset_us()), (start, 0));
    server.clock().drift(1_000);
    server.clock().advance(Duration::from_secs(100));
    server.clock().drift(0);
    server.clock().advance(Duration::from_secs(100));
    assert_eq!(server.clock().offset_us(), 100_000);
    server.clock().jump_back(ms(300));
    assert_eq!(server.clock().offset_us(), -200_000);
    assert_eq!(
        server.clock().true_time(),
        start.plus(Duration::from_secs(200))
    );
    Ok(())
}

#[tokio::test]
async fn nothing_happens_on_a_frozen_clock() -> Test {
    let server = manual().await?;
    let mut redis = server.connection().await?;
    redis.pset_ex("k", "v", 1_000).await?;
    let mut waiter = sent(&server, "BLPOP q 1").await?;
    server.clock().advance(ms(400));
    server.clock().freeze();
    let mut frozen = sent(&server, "BLPOP q 1").await?;
    server.clock().advance(Duration::from_secs(86_400));
    assert!(server.clock().is_frozen() && server.diagnosis().next_due.is_none());
    assert_eq!(redis.pttl("k").await?, IntegerReply(600)); // it answers all the same
    assert_eq!(
        (heard(&mut waiter), heard(&mut frozen)),
        (String::new(), String::new())
    );
    server.clock().thaw();
    server.clock().advance(ms(600));
    assert_eq!(redis.pttl("k").await?, IntegerReply(0));
    assert_eq!(heard(&mut waiter), "");
    server.clock().advance(ms(1));
    assert_eq!(redis.get("k").await?, None);
    assert_eq!(
        (heard(&mut waiter).as_str(), heard(&mut frozen).as_str()),
        ("*-1\r\n", "")
    );
    server.clock().advance(ms(400));
    assert_eq!(heard(&mut frozen), "*-1\r\n");
    // A frozen clock can be set like any other.
    server.clock().freeze();
    let later = server.now().plus(ms(5));
    server.clock().set(later);
    server.clock().advance(ms(5));
    assert_eq!(server.now(), later);
    Ok(())
}

/// Overdue deadlines are handled once, at the new time, not one after the other.
#[tokio::test]
async fn a_jump_does_not_step() -> Test {
    let server = manual().await?;
    let mut redis = server.connection().await?;
    let mut waiter = sent(&server, "BLPOP q 1").await?;
    redis.pset_ex("k", "v", 500).await?;
    server.clock().jump(ms(400));
    assert_eq!(heard(&mut waiter), "");
    server.clock().jump(ms(1_000_000));
    assert_eq!(heard(&mut waiter), "*-1\r\n");
    server.assert_missing("k");
    // A jump to the end of time and back breaks nothing.
    server.clock().jump(Duration::MAX);
    server.clock().advance(Duration::MAX);
    server.clock().jump_back(Duration::MAX);
    server.clock().drift(i32::MAX);
    server.clock().advance(Duration::MAX);
    redis.set("k", "v").await?;
    Ok(())
}

#[tokio::test]
async fn the_system_clock_jumps_too() -> Test {
    let server = Server::start().await?;
    let mut redis = server.connection().await?;
    let mut waiter = sent(&server, "BLPOP q 3600").await?;
    redis.set_ex("k", "v", 3_600).await?;
    server.clock().jump(Duration::from_secs(3_601));
    assert_eq!(heard(&mut waiter), "*-1\r\n");
    assert_eq!(redis.get("k").await?, None);
    // A wait that starts on a frozen clock ends after a thaw and a jump.
    server.clock().freeze();
    let mut waiter = sent(&server, "BLPOP q 3600").await?;
    server.clock().jump(Duration::from_secs(3_600));
    assert_eq!(heard(&mut waiter), "");
    server.clock().jump(ms(1));
    assert_eq!(heard(&mut waiter), "*-1\r\n");
    // The timer adapts to a new rate: half an hour passes in one second.
    server.clock().thaw();
    let mut redis = patient(&server).await?;
    let waiting = tokio::spawn(async move { redis.blpop("q", 60.0).await });
    while server.waiting().is_empty() {
        tokio::task::yield_now().await;
    }
    server.clock().drift(i32::MAX);
    assert_eq!(server.within(PATIENCE, waiting).await??, None);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_tokio_clock_drifts_and_stands_still() -> Test {
    let server = Server::builder().clock(Clock::Tokio).start().await?;
    let mut redis = patient(&server).await?;
    let begun = tokio::time::Instant::now();
    server.clock().drift(1_000_000);
    assert_eq!(redis.blpop("q", 10.0).await?, None);
    assert_eq!(begun.elapsed().as_millis(), 5_001); // the first at which the clock is past it
    server.clock().freeze();
    redis.set_ex("k", "v", 1).await?;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(server.exists("k"));
    server.clock().thaw();
    tokio::time::sleep(ms(501)).await;
    assert!(!server.exists("k"));
    Ok(())
}

/// A message on its way is outside of the server, so the server's clock does not delay it.
#[tokio::test]
async fn delayed_messages_follow_true_time() -> Test {
    let server = manual().await?;
    let rule = server.inject(Delay::reply(ms(100)).command("PING"));
    server.clock().freeze();
    let mut stream = sent(&server, "PING").await?;
    server.clock().jump(Duration::from_secs(60));
    assert_eq!((heard(&mut stream).as_str(), rule.fired()), ("", 1));
    server.clock().advance(ms(100));
    assert_eq!(heard(&mut stream), "+PONG\r\n");
    Ok(())
}
