//! The modes of a clock, and what moves the time in each.

use super::{PATIENCE, Test, ms};
use redis::{AsyncTypedCommands, RedisResult};
use redouble::engine::{UnixMicros, UnixMillis};
use redouble::{Clock, Server};

#[tokio::test]
async fn the_system_clock_moves_by_itself() -> Test {
    let server = Server::start().await?;
    let mut redis = redis::Client::open(server.url())?
        .get_multiplexed_async_connection()
        .await?;
    redis.pset_ex("k", "v", 1).await?;
    // Waits for the expiry itself and not for a time, so that a slow machine also passes.
    while server.exists("k") {
        tokio::task::yield_now().await;
    }
    assert_eq!(redis.get("k").await?, None);
    // The active expiry cycle removes keys that no request reads.
    redis.pset_ex("k", "v", 1).await?;
    let dbsize = async |redis: &mut redis::aio::MultiplexedConnection| -> RedisResult<i64> {
        redis::cmd("DBSIZE").query_async(redis).await
    };
    while dbsize(&mut redis).await? != 0 {
        tokio::task::yield_now().await;
    }
    Ok(())
}

#[tokio::test]
async fn a_manual_clock_steps_through_every_deadline() -> Test {
    let server = Server::builder()
        .clock(Clock::Manual)
        .starting_at(UnixMillis(1_000))
        .start()
        .await?;
    let mut redis = server.connection().await?;
    for (key, ttl) in [("c", 30), ("a", 10), ("b", 20)] {
        redis.pset_ex(key, "v", ttl).await?;
    }
    let time: (i64, i64) = redis::cmd("TIME").query_async(&mut redis).await?;
    assert_eq!(time, (1, 0));
    server.clock().advance(ms(20));
    assert_eq!(server.keys("*"), ["b", "c"]);
    server.clock().advance(ms(1));
    assert_eq!(server.keys("*"), ["c"]);
    // The active expiry cycle has removed the key, not this command: DBSIZE counts stored keys.
    assert_eq!(
        redis::cmd("DBSIZE").query_async::<i64>(&mut redis).await?,
        1
    );
    assert_eq!(server.clock().now(), UnixMicros(1_021_000));
    Ok(())
}

#[tokio::test]
async fn time_may_go_back() -> Test {
    let server = Server::builder().clock(Clock::Manual).start().await?;
    let mut redis = server.connection().await?;
    redis.pset_ex("k", "v", 1_000).await?;
    let start = server.clock().now();
    server.clock().set(UnixMicros(start.0 - 5_000_000));
    assert_eq!(
        redis.pttl("k").await?,
        redis::IntegerReplyOrNoOp::IntegerReply(6_000)
    );
    server.clock().jump(ms(6_001));
    assert!(!server.exists("k"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_tokio_clock_expires_keys_that_no_request_reads() -> Test {
    let server = Server::builder().clock(Clock::Tokio).start().await?;
    let mut redis = server.connection().await?;
    redis.pset_ex("k", "v", 30_000).await?;
    tokio::time::sleep(ms(30_000)).await;
    assert_eq!(
        redis::cmd("DBSIZE").query_async::<i64>(&mut redis).await?,
        1
    ); // not before now > deadline
    tokio::time::sleep(ms(2)).await;
    assert_eq!(
        redis::cmd("DBSIZE").query_async::<i64>(&mut redis).await?,
        0
    );
    Ok(())
}

#[test]
fn without_a_runtime() -> Test {
    use redis::TypedCommands;
    let server = Server::builder().clock(Clock::Manual).start_blocking()?;
    let mut redis = redis::Client::open(server.url())?.get_connection()?;
    redis.pset_ex("k", "v", 100)?;
    server.clock().advance(ms(101));
    assert_eq!(redis.get("k")?, None);
    assert!(
        Server::builder()
            .clock(Clock::Tokio)
            .start_blocking()
            .is_err()
    );
    Ok(())
}

/// Requests that can be served now do not need the clock to move.
#[test]
fn a_request_sent_behind_a_blocked_one_is_served_after_it() -> Test {
    use redis::TypedCommands;
    use std::io::{Read, Write};
    let server = Server::builder().clock(Clock::Manual).start_blocking()?;
    let mut stream = std::net::TcpStream::connect(server.addr())?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"BLPOP q 0\r\nPING\r\n")?;
    while server.diagnosis().unserved.is_empty() {
        std::thread::yield_now();
    }
    let mut redis = redis::Client::open(server.url())?.get_connection()?;
    redis.rpush("q", "v")?;
    let expected = b"*2\r\n$1\r\nq\r\n$1\r\nv\r\n+PONG\r\n";
    let mut replies = [0; 25];
    stream.read_exact(&mut replies)?;
    assert_eq!(&replies, expected);
    Ok(())
}

#[tokio::test]
#[should_panic(expected = "only a manual clock can be moved")]
async fn a_clock_that_is_not_manual_cannot_be_advanced() {
    Server::start().await.unwrap().clock().advance(ms(1));
}

#[tokio::test]
async fn debug_sleep_blocks_all_clients_until_the_clock_has_moved() -> Test {
    let server = Server::builder().clock(Clock::Manual).start().await?;
    let mut redis = server.connection().await?;
    redis.set("k", "v").await?;
    let (mut sleeper, mut other) = (server.connection().await?, server.connection().await?);
    let sleeping = tokio::spawn(async move {
        redis::cmd("DEBUG")
            .arg("SLEEP")
            .arg("0.3")
            .query_async::<String>(&mut sleeper)
            .await
    });
    tokio::task::yield_now().await;
    let reading = tokio::spawn(async move { other.get("k").await });
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(!sleeping.is_finished() && !reading.is_finished());
    server.clock().advance(ms(299));
    tokio::task::yield_now().await;
    assert!(!sleeping.is_finished() && !reading.is_finished());
    server.clock().advance(ms(1));
    assert_eq!(sleeping.await??, "OK");
    assert_eq!(reading.await??.as_deref(), Some("v"));
    Ok(())
}
