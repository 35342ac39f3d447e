//! The code of the package's README, and a check that both are the same.

use redis::{AsyncTypedCommands, ExistenceCheck::NX, RedisResult, SetExpiry::PX, SetOptions};
use redouble::{Clock, Server, fault::Disconnect};
use std::time::Duration;

/// Code under test: it uses the `redis` crate and does not know the double.
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

#[tokio::test]
async fn a_claim_ends_after_thirty_seconds() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().clock(Clock::Manual).start().await?; // own port and data, gone on drop
    let mut redis = redis::Client::open(server.url())?
        .get_multiplexed_async_connection()
        .await?;
    assert!(claim(&mut redis, "coupon:7", "first").await?);
    server.clock().advance(Duration::from_secs(30));
    assert!(!claim(&mut redis, "coupon:7", "second").await?);
    server.clock().advance(Duration::from_millis(1)); // a key expires once now > deadline
    assert!(claim(&mut redis, "coupon:7", "second").await?);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_claim_can_be_repeated_after_its_reply_was_lost() -> Result<(), Box<dyn std::error::Error>>
{
    let server = Server::builder()
        .clock(Clock::Tokio)
        .history(100)
        .start()
        .await?;
    let mut redis = server.connection().await?; // without a socket: works on a paused clock
    let lost = server
        .inject(Disconnect::after_execution().command("SET").nth(1))
        .expect(1);
    assert!(claim(&mut redis, "coupon:7", "first").await.is_err()); // executed, never answered
    assert!(
        claim(&mut redis, "coupon:7", "first").await?,
        "{}",
        server.history()
    );
    lost.remove();
    Ok(())
}

/// White space and commas are ignored, because formatting changes them.
#[test]
fn the_readme_has_the_code_of_this_file() {
    let bare = |text: &str| text.replace(|c: char| c.is_whitespace() || c == ',', "");
    let readme = include_str!("../../README.md");
    let mut blocks = readme.split("```rust\n").skip(1);
    let block = blocks.next().and_then(|rest| rest.split("```").next());
    let block = block.expect("the README has a block of Rust");
    assert!(bare(include_str!("package_page.rs")).contains(&bare(block)));
    assert_eq!(blocks.next(), None, "one block is checked");
}
