//! The first tests that a user writes: an expiry that the test controls, and a lost reply.

use redis::{AsyncTypedCommands, ExistenceCheck::NX, RedisResult, SetExpiry::PX, SetOptions};
use redouble::fault::Disconnect;
use redouble::{Clock, Server};
use std::time::Duration;

type Test = Result<(), Box<dyn std::error::Error>>;

/// Code under test: plain `redis` crate. With `NX GET` (Redis 7) a repeated claim recognises
/// itself.
async fn claim(redis: &mut impl AsyncTypedCommands, coupon: &str, who: &str) -> RedisResult<bool> {
    let once = SetOptions::default()
        .conditional_set(NX)
        .get(true)
        .with_expiration(PX(30_000));
    Ok(redis
        .set_options(coupon, who, once)
        .await?
        .is_none_or(|owner| owner == who))
}

#[tokio::test] // a real socket, any client; time moves only when told
async fn a_claim_lapses_one_millisecond_after_its_hold() -> Test {
    let server = Server::builder().clock(Clock::Manual).start().await?;
    let client = redis::Client::open(server.url())?;
    let mut redis = client.get_multiplexed_async_connection().await?;
    assert!(claim(&mut redis, "coupon:7", "first").await?);
    server.clock().advance(Duration::from_secs(30));
    assert!(!claim(&mut redis, "coupon:7", "second").await?); // expired only when now > deadline
    server.clock().advance(Duration::from_millis(1));
    assert!(claim(&mut redis, "coupon:7", "second").await?);
    assert_eq!(server.get("coupon:7").as_deref(), Some(&b"second"[..]));
    Ok(())
}

#[tokio::test(start_paused = true)] // virtual time: an in-process connection
async fn a_waiter_gets_the_coupon_when_the_hold_lapses() -> Test {
    let server = Server::builder().clock(Clock::Tokio).start().await?;
    let mut redis = server.connection().await?;
    assert!(claim(&mut redis, "coupon:7", "first").await?);
    let begun = tokio::time::Instant::now();
    while !claim(&mut redis, "coupon:7", "second").await? {
        tokio::time::sleep(Duration::from_millis(100)).await; // 30 s pass in milliseconds
    }
    assert_eq!(begun.elapsed(), Duration::from_millis(30_100));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_claim_can_be_repeated_after_its_reply_was_lost() -> Test {
    let server = Server::builder().clock(Clock::Tokio).start().await?;
    let mut redis = server.connection().await?;
    let lost = server.inject(
        Disconnect::after_execution()
            .command("SET")
            .key("coupon:*")
            .nth(1),
    );
    let error = claim(&mut redis, "coupon:7", "first").await.unwrap_err(); // executed, never answered
    assert!(error.is_connection_dropped(), "{error:?}");
    assert_eq!((lost.fired(), server.exists("coupon:7")), (1, true));
    assert!(
        claim(&mut redis, "coupon:7", "first").await?,
        "{}",
        server.history()
    );
    Ok(())
}
