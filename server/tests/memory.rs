//! `maxmemory`: which commands are refused, and which keys are evicted.

use futures_util::StreamExt as _;
use redis::{AsyncTypedCommands, RedisError};
use redouble::engine::EvictionPolicy;
use redouble::{Clock, Connection, Deployment, Server};
use std::time::Duration;

type Test = Result<(), Box<dyn std::error::Error>>;

/// Memory of twenty keys of [`fill`].
const ROOM: u64 = 20 * 1_150;

async fn used(redis: &mut Connection) -> Result<u64, RedisError> {
    let info: String = redis::cmd("INFO").arg("memory").query_async(redis).await?;
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    Ok(line.and_then(|line| line.parse().ok()).unwrap_or(0))
}

async fn configure(
    redis: &mut Connection,
    name: &str,
    value: impl ToString,
) -> Result<(), RedisError> {
    let mut cmd = redis::cmd("CONFIG");
    let cmd = cmd.arg("SET").arg(name).arg(value.to_string());
    cmd.exec_async(redis).await
}

async fn evicted(redis: &mut Connection) -> Result<u64, RedisError> {
    let info: String = redis::cmd("INFO").arg("stats").query_async(redis).await?;
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("evicted_keys:"));
    Ok(line.and_then(|line| line.parse().ok()).unwrap_or(0))
}

/// A server with room for about twenty keys, and its memory limit.
async fn small(
    policy: EvictionPolicy,
    seed: u64,
) -> Result<(Server, Connection, u64), Box<dyn std::error::Error>> {
    let server = Server::builder()
        .clock(Clock::Manual)
        .seed(seed)
        .start()
        .await?;
    let mut redis = server.connection().await?;
    let bound = used(&mut redis).await? + ROOM;
    configure(&mut redis, "maxmemory-policy", policy.name()).await?;
    configure(&mut redis, "maxmemory", bound).await?;
    Ok((server, redis, bound))
}

async fn fill(redis: &mut Connection, name: &str) -> Result<(), RedisError> {
    redis.set(name, "x".repeat(1_000)).await
}

#[tokio::test]
async fn without_eviction_writes_are_refused_until_there_is_room() -> Test {
    let (server, mut redis, bound) = small(EvictionPolicy::NoEviction, 1).await?;
    let mut stored = 0;
    let error = loop {
        match fill(&mut redis, &format!("k{stored}")).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), Some("OOM"), "{error}");
    assert!((18..=22).contains(&stored), "{stored}");
    assert!(used(&mut redis).await? > bound, "the last one was too much");
    assert_eq!(evicted(&mut redis).await?, 0);
    assert_eq!(redis.get("k0").await?.map(|text| text.len()), Some(1_000));
    redis.del(&["k0", "k1"]).await?;
    fill(&mut redis, "again").await?;
    redis::cmd("FLUSHALL").exec_async(&mut redis).await?;
    fill(&mut redis, "first").await?;
    server.assert_keys(["first"]);
    Ok(())
}

#[tokio::test]
async fn the_key_that_was_not_used_for_longest_goes_first() -> Test {
    let (server, mut redis, bound) = small(EvictionPolicy::AllKeysLru, 1).await?;
    for number in 0..40 {
        fill(&mut redis, &format!("k{number}")).await?;
        server.clock().advance(Duration::from_secs(1));
        redis.get("k0").await?; // the first, and always in use
    }
    redis::cmd("PING").exec_async(&mut redis).await?;
    assert!(used(&mut redis).await? <= bound);
    let keys = server.keys("*");
    assert!(server.exists("k0") && server.exists("k39") && !server.exists("k1"));
    let gone = 40 - keys.len();
    assert_eq!(evicted(&mut redis).await?, gone as u64);
    let expected = (0..40).filter(|number| *number == 0 || *number > gone);
    let mut expected: Vec<_> = expected.map(|number| format!("k{number}")).collect();
    expected.sort_unstable();
    server.assert_keys(expected);
    Ok(())
}

#[tokio::test]
async fn the_key_that_is_used_least_often_goes_first() -> Test {
    let (server, mut redis, _) = small(EvictionPolicy::AllKeysLfu, 1).await?;
    configure(&mut redis, "lfu-log-factor", 0).await?;
    for number in 0..15 {
        fill(&mut redis, &format!("often{number}")).await?;
    }
    for number in 0..15 {
        for _ in 0..3 {
            redis.get(format!("often{number}")).await?;
        }
    }
    for number in 0..30 {
        fill(&mut redis, &format!("once{number}")).await?;
    }
    let often = server
        .keys("*")
        .iter()
        .filter(|key| key.starts_with(b"often"))
        .count();
    assert_eq!(often, 15);
    assert!(!server.exists("once0"));
    Ok(())
}

#[tokio::test]
async fn keys_without_a_deadline_stay_where_only_others_may_go() -> Test {
    for (policy, first_to_go) in [
        (EvictionPolicy::VolatileTtl, Some("t0")),
        (EvictionPolicy::VolatileLru, Some("t9")),
        (EvictionPolicy::VolatileRandom, None),
        (EvictionPolicy::VolatileLfu, None),
    ] {
        let (server, mut redis, _) = small(policy, 1).await?;
        for number in (0..10).rev() {
            let name = format!("t{number}");
            fill(&mut redis, &name).await?;
            redis.expire(name, 100 + 2 * number).await?;
            server.clock().advance(Duration::from_secs(1));
        }
        let mut stored = 0;
        while server.keys("*").len() - stored == 10 {
            fill(&mut redis, &format!("k{stored}")).await?;
            stored += 1;
        }
        if let Some(first) = first_to_go {
            assert!(!server.exists(first), "{policy:?}");
        }
        let refused = loop {
            match fill(&mut redis, &format!("k{stored}")).await {
                Ok(()) => stored += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.code(), Some("OOM"), "{policy:?}");
        assert!(!server.keys("*").iter().any(|key| key.starts_with(b"t")));
        assert_eq!(server.keys("*").len(), stored);
    }
    Ok(())
}

#[tokio::test]
async fn random_eviction_draws_its_keys_from_the_seed() -> Test {
    let mut runs = Vec::new();
    for seed in [1, 1, 2] {
        let (server, mut redis, _) = small(EvictionPolicy::AllKeysRandom, seed).await?;
        for number in 0..60 {
            fill(&mut redis, &format!("k{number}")).await?;
        }
        runs.push(server.keys("*"));
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
    Ok(())
}

#[tokio::test]
async fn subscribers_and_replicas_learn_of_evictions() -> Test {
    let builder = Deployment::builder().clock(Clock::Manual);
    let group = builder.replicated(1, 1).await?;
    let mut redis = group["master"].connection().await?;
    configure(&mut redis, "notify-keyspace-events", "Ee").await?;
    let mut listener = redis::aio::PubSub::new(
        &redis::RedisConnectionInfo::default(),
        group["master"].connect(),
    )
    .await?;
    listener.subscribe("__keyevent@0__:evicted").await?;
    fill(&mut redis, "old").await?;
    fill(&mut redis, "older").await?;
    let bound = used(&mut redis).await?;
    let mut follower = group["replica-1"].connection().await?;
    configure(&mut follower, "maxmemory", 1).await?;
    configure(&mut redis, "maxmemory-policy", "allkeys-lru").await?;
    // As soon as the limit is lowered, not at the next write.
    configure(&mut redis, "maxmemory", bound - 10).await?;
    let message = listener.on_message().next().await.ok_or("a message")?;
    assert_eq!(message.get_payload::<String>()?, "old");
    group["master"].assert_keys(["older"]);
    // A replica has the data of its master, whatever its own limit.
    group["replica-1"].assert_keys(["older"]);
    Ok(())
}
