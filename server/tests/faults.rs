//! Message rules and the pause of a node, seen by an unmodified client.

use redis::{AsyncTypedCommands, RedisResult};
use redouble::fault::{Delay, Disconnect, DropRequest, FAULTS};
use redouble::{Clock, Connection, Server};
use std::time::Duration;
use tokio::time::Instant;

type Test = Result<(), Box<dyn std::error::Error>>;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

async fn server() -> Result<(Server, Connection), Box<dyn std::error::Error>> {
    let server = Server::builder()
        .clock(Clock::Tokio)
        .history(100)
        .start()
        .await?;
    let connection = server.connection().await?;
    Ok((server, connection))
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_is_executed_later() -> Test {
    let (server, mut redis) = server().await?;
    let rule = server.inject(Delay::request(ms(100)).command("set"));
    let begun = Instant::now();
    let (set, get) = tokio::join!(
        {
            let mut redis = redis.clone();
            async move { redis.set("k", "v").await }
        },
        async { redis.get("k").await } // waits behind it on the same connection
    );
    set?;
    assert_eq!(
        (get?.as_deref(), begun.elapsed(), rule.fired()),
        (Some("v"), ms(100), 1)
    );
    let executed = server.history().entries().last().expect("a history").at;
    assert_eq!(executed, server.now());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_delayed_reply_was_executed_at_once() -> Test {
    let (server, mut redis) = server().await?;
    let mut observer = server.connection().await?;
    let _rule = server.inject(Delay::reply(ms(100)).key("k").nth(1));
    let begun = Instant::now();
    let set = tokio::spawn(async move { redis.set("k", "v").await });
    tokio::task::yield_now().await;
    assert_eq!(
        (observer.get("k").await?.as_deref(), begun.elapsed()),
        (Some("v"), ms(0))
    );
    set.await??;
    assert_eq!(begun.elapsed(), ms(100));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_silences_the_connection_until_it_is_replaced() -> Test {
    let (server, mut redis) = server().await?;
    let rule = server.inject(DropRequest::new().command("SET").nth(1));
    let error = redis.set("k", "lost").await.unwrap_err();
    assert!(error.is_timeout() && !server.exists("k"), "{error}");
    redis.set("k", "v").await?; // the connection was dialled anew
    assert_eq!(
        (server.get("k").as_deref(), rule.fired()),
        (Some(&b"v"[..]), 1)
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_connection_may_end_before_execution() -> Test {
    let (server, mut redis) = server().await?;
    let rule = server.inject(Disconnect::before_execution().command("SET").nth(1));
    assert!(
        redis
            .set("k", "v")
            .await
            .unwrap_err()
            .is_connection_dropped()
    );
    assert!(!server.exists("k") && rule.fired() == 1);
    redis.set("k", "v").await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_rule_finds_keys_in_scripts_and_goes_with_its_guard() -> Test {
    let (server, mut redis) = server().await?;
    let script = redis::Script::new("return redis.call('set', KEYS[1], ARGV[1])");
    let rule = server.inject(Disconnect::after_execution().key("lock:*"));
    let lost: RedisResult<String> = script.key("lock:7").arg("x").invoke_async(&mut redis).await;
    assert!(lost.is_err() && rule.fired() == 1, "{}", server.history());
    drop(rule);
    let done: String = script
        .key("lock:7")
        .arg("y")
        .invoke_async(&mut redis)
        .await?;
    assert_eq!(
        (done.as_str(), server.get("lock:7").as_deref()),
        ("OK", Some(&b"y"[..]))
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn rules_choose_by_client_name_and_by_chance() -> Test {
    let (server, mut redis) = server().await?;
    redis::cmd("CLIENT")
        .arg("SETNAME")
        .arg("worker")
        .query_async::<()>(&mut redis)
        .await?;
    let mut other = server.connection().await?;
    let rule = server.inject(Delay::reply(ms(1)).client_name("worker").probability(0.5));
    for _ in 0..100 {
        redis.get("k").await?;
        other.get("k").await?;
    }
    assert!((30..70).contains(&rule.fired()), "{}", rule.fired());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_paused_node_serves_nobody_until_it_is_resumed() -> Test {
    let (server, mut redis) = server().await?;
    server.pause();
    let error = redis.set("k", "v").await.unwrap_err();
    assert!(error.is_timeout() && !server.exists("k"), "{error}");
    server.resume();
    assert_eq!(server.get("k").as_deref(), Some(&b"v"[..])); // what was queued is executed first
    assert_eq!(redis.get("k").await?.as_deref(), Some("v"));
    Ok(())
}

#[test]
fn every_fault_has_a_name_and_a_line() {
    assert!(
        FAULTS.len() >= 4
            && FAULTS
                .iter()
                .all(|fault| !fault.name.is_empty() && !fault.summary.is_empty())
    );
}
