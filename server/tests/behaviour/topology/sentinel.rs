//! Sentinels: clients find the master through them and follow a failover.

use super::{Test, text};
use futures_util::StreamExt as _;
use redis::AsyncTypedCommands;
use redis::sentinel::{SentinelClient, SentinelServerType};
use redouble::{Clock, Deployment, Loss};
use std::time::Duration;

async fn manual() -> Result<Deployment, redouble::StartError> {
    let builder = Deployment::builder().clock(Clock::Manual);
    builder.sentinel(2, 3).await
}

fn client(group: &Deployment, kind: SentinelServerType) -> redis::RedisResult<SentinelClient> {
    let urls = ["sentinel-1", "sentinel-2", "sentinel-3"].map(|name| group[name].url());
    SentinelClient::build(urls.to_vec(), "mymaster", None, kind)
}

#[tokio::test]
async fn a_sentinel_client_finds_the_master_and_follows_a_failover() -> Test {
    let group = manual().await?;
    let mut masters = client(&group, SentinelServerType::Master)?;
    let mut redis = masters.get_async_connection().await?;
    redis.set("k", "v").await?;
    group["master"].assert_get("k", "v");
    let mut replicas = client(&group, SentinelServerType::Replica)?;
    let mut reader = replicas.get_async_connection().await?;
    assert_eq!(reader.get("k").await?.as_deref(), Some("v"));
    assert_eq!(
        reader.set("k", "w").await.unwrap_err().code(),
        Some("READONLY")
    );

    group["master"].crash(Loss::Nothing);
    group.clock().advance(Duration::from_secs(30));
    let mut redis = masters.get_async_connection().await?;
    redis.set("k", "after").await?;
    group["replica-1"].assert_get("k", "after");
    group["replica-2"].assert_get("k", "after");

    group["master"].restart();
    group["master"].assert_get("k", "after"); // a replica by now
    let mut redis = masters.get_async_connection().await?;
    assert!(text(&mut redis, "ROLE").await?.contains("master"));
    Ok(())
}

#[tokio::test]
async fn subscribers_receive_the_events_in_order() -> Test {
    let group = manual().await?;
    let subscriber = redis::Client::open(group["sentinel-2"].url())?;
    let mut pubsub = subscriber.get_async_pubsub().await?;
    pubsub.psubscribe("*").await?;
    let port = |name: &str| group[name].addr().port();
    let (old, new) = (port("master"), port("replica-1"));
    let pause = group["master"].pause();
    group.clock().advance(Duration::from_secs(30));
    pause.resume();
    let mut told = Vec::new();
    let mut messages = pubsub.on_message();
    while told
        .last()
        .is_none_or(|text: &String| !text.starts_with("+switch-master"))
    {
        let message = messages.next().await.ok_or("the sentinel went away")?;
        told.push(format!(
            "{} {}",
            message.get_channel_name(),
            message.get_payload::<String>()?
        ));
    }
    let master = format!("master mymaster 127.0.0.1 {old}");
    assert_eq!(
        told,
        [
            format!("+sdown {master}"),
            format!("+odown {master}"),
            format!("+failover-end {master}"),
            format!("+switch-master mymaster 127.0.0.1 {old} 127.0.0.1 {new}"),
        ]
    );
    Ok(())
}

#[tokio::test]
async fn a_master_that_comes_back_in_time_stays_master() -> Test {
    let group = manual().await?;
    let pause = group["master"].pause();
    group.clock().advance(Duration::from_millis(29_999));
    let mut sentinel = group["sentinel-1"].connection().await?;
    let masters = text(&mut sentinel, "SENTINEL MASTERS").await?;
    assert!(masters.contains("s_down,o_down,master"), "{masters}");
    pause.resume();
    group.clock().advance(Duration::from_secs(60));
    let address = text(&mut sentinel, "SENTINEL get-master-addr-by-name mymaster").await?;
    assert!(
        address.contains(&group["master"].addr().port().to_string()),
        "{address}"
    );
    Ok(())
}

#[tokio::test]
async fn a_sentinel_answers_as_sentinels_do() -> Test {
    let group = manual().await?;
    let mut redis = group["sentinel-1"].connection().await?;
    for (line, expected) in [
        ("PING", "PONG"),
        (
            "ROLE",
            "array([bulk-string('\"sentinel\"'), array([bulk-string('\"mymaster\"')])])",
        ),
        ("SENTINEL get-master-addr-by-name nosuch", "nil"),
        (
            "SENTINEL ckquorum mymaster",
            "OK 3 usable Sentinels. Quorum and failover authorization can be reached",
        ),
        ("INFO sentinel", "sentinels=3"),
        ("HELLO 2", "sentinel"),
        ("SENTINEL replicas mymaster", "slave-repl-offset"),
        ("SENTINEL sentinels mymaster", "flags"),
    ] {
        let answer = text(&mut redis, line).await?;
        assert!(answer.contains(expected), "{line}: {answer}");
    }
    for (line, expected) in [
        (
            "GET k",
            "unknown command 'GET', with args beginning with: 'k' ",
        ),
        ("SELECT 1", "unknown command 'SELECT'"),
        ("MULTI", "unknown command 'MULTI'"),
        ("SENTINEL master nosuch", "No such master with that name"),
        (
            "SENTINEL nosuch",
            "unknown subcommand 'nosuch'. Try SENTINEL HELP.",
        ),
        (
            "SENTINEL",
            "wrong number of arguments for 'sentinel' command",
        ),
        (
            "SENTINEL master",
            "wrong number of arguments for 'sentinel|master' command",
        ),
        (
            "SENTINEL monitor a b 1 1",
            "redouble does not implement SENTINEL MONITOR",
        ),
        (
            "PUBLISH a b",
            "Only HELLO messages are accepted by Sentinel instances.",
        ),
        ("SENTINEL failover nosuch", "No such master with that name"),
    ] {
        let error = text(&mut redis, line).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{line}: {error}");
    }
    let mut data = group["master"].connection().await?;
    let error = text(&mut data, "SENTINEL masters")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("unknown command 'SENTINEL'"), "{error}");
    Ok(())
}

#[tokio::test]
async fn sentinel_failover_works_by_hand_and_needs_a_replica() -> Test {
    let group = manual().await?;
    let mut sentinel = group["sentinel-3"].connection().await?;
    group["replica-1"].crash(Loss::Everything);
    assert_eq!(
        text(&mut sentinel, "SENTINEL failover mymaster").await?,
        "ok"
    );
    group["replica-2"].connection().await?.set("k", "v").await?;
    group["master"].assert_get("k", "v");
    group["master"].crash(Loss::Everything);
    let error = text(&mut sentinel, "SENTINEL failover mymaster")
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("NOGOODSLAVE") || error.code() == Some("NOGOODSLAVE"),
        "{error}"
    );
    Ok(())
}

async fn master_of(group: &Deployment, sentinel: &str) -> Result<u16, Box<dyn std::error::Error>> {
    let mut sentinel = group[sentinel].connection().await?;
    let line = "SENTINEL get-master-addr-by-name mymaster";
    let answer = text(&mut sentinel, line).await?;
    let digits: String = answer.chars().filter(char::is_ascii_digit).collect();
    Ok(digits.trim_start_matches("127001").parse()?)
}

#[tokio::test]
async fn most_sentinels_fail_over_from_a_master_that_they_do_not_reach() -> Test {
    let group = manual().await?;
    let port = |name: &str| group[name].addr().port();
    let split = group.split(&["master", "replica-2", "sentinel-1"]);
    let mut old = group["master"].connection().await?;
    old.set("k", "lost").await?;
    group.clock().advance(Duration::from_millis(29_999));
    assert_eq!(master_of(&group, "sentinel-2").await?, port("master"));
    group.clock().advance(Duration::from_millis(1));
    assert_eq!(master_of(&group, "sentinel-2").await?, port("replica-1"));
    assert_eq!(master_of(&group, "sentinel-1").await?, port("master"));
    let mut new = group["replica-1"].connection().await?;
    new.set("k", "kept").await?;
    old.set("k", "lost too").await?;
    group["replica-2"].assert_get("k", "lost too");
    split.heal();
    assert_eq!(master_of(&group, "sentinel-1").await?, port("replica-1"));
    for node in ["master", "replica-2"] {
        group[node].assert_get("k", "kept");
    }
    assert_eq!(
        old.set("k", "w").await.unwrap_err().code(),
        Some("READONLY")
    );
    Ok(())
}

#[tokio::test]
async fn sentinels_end_the_sessions_of_clients_where_they_change_a_role() -> Test {
    let group = manual().await?;
    let mut sentinel = group["sentinel-1"].connection().await?;
    let mut clients = Vec::new();
    for node in ["master", "replica-1", "replica-2"] {
        let mut client = group[node].connection().await?;
        text(&mut client, "PING").await?;
        clients.push(client);
    }
    text(&mut sentinel, "SENTINEL failover mymaster").await?;
    for mut client in clients {
        let error = text(&mut client, "PING").await.unwrap_err();
        assert!(error.is_io_error(), "{error}");
    }
    text(&mut sentinel, "PING").await?;
    let error = text(&mut sentinel, "SENTINEL monitor mymaster 127.0.0.1 6379 2").await;
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("Duplicate master name")
    );
    Ok(())
}

#[tokio::test]
async fn sentinels_without_a_majority_do_nothing() -> Test {
    let group = manual().await?;
    let all = [
        group.split(&["sentinel-1"]),
        group.split(&["sentinel-2"]),
        group.split(&["master"]),
    ];
    group.clock().advance(Duration::from_secs(60));
    let mut sentinel = group["sentinel-3"].connection().await?;
    text(&mut sentinel, "SENTINEL failover mymaster").await?;
    for name in ["sentinel-1", "sentinel-2", "sentinel-3"] {
        let port = group["master"].addr().port();
        assert_eq!(master_of(&group, name).await?, port, "{name}");
    }
    drop(all);
    group.clock().advance(Duration::from_secs(60));
    group["master"].connection().await?.set("k", "v").await?;
    group["replica-2"].assert_get("k", "v");
    Ok(())
}

/// Only nodes that were separated get a new master. A split brain that a test caused remains.
#[tokio::test]
async fn a_split_elsewhere_ends_no_split_brain() -> Test {
    let group = manual().await?;
    group.promote("replica-1");
    group.split(&["replica-2", "sentinel-1"]).heal();
    let mut redis = group["replica-1"].connection().await?;
    redis.set("k", "v").await?;
    group["replica-2"].assert_missing("k");
    Ok(())
}
