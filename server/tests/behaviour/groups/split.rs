//! Nodes that do not reach each other, and `heal_all`.

use super::{Plain, Test, field, manual};
use redouble::fault::{DropRequest, Partition};
use redouble::{Clock, Deployment, Lag, Server};
use std::time::Duration;

#[tokio::test]
async fn a_split_parts_replicas_from_their_master() -> Test {
    let group = manual(2).await?;
    let mut redis = Plain::to(&group["master"]).await?;
    let mut replica = Plain::to(&group["replica-1"]).await?;
    let cut = group.cut_link("replica-2");
    let split = group.split(&["replica-1", "replica-2"]);
    redis.ask("SET k v").await;
    for name in ["replica-1", "replica-2"] {
        group[name].assert_missing("k");
    }
    assert_eq!(field(&mut replica, "master_link_status").await, "down");
    assert_eq!(redis.ask("WAIT 0 0").await, "0");
    split.heal();
    group["replica-1"].assert_get("k", "v");
    assert_eq!(field(&mut replica, "master_link_status").await, "up");
    // This link was cut before the split.
    group["replica-2"].assert_missing("k");
    cut.restore();
    group["replica-2"].assert_get("k", "v");
    Ok(())
}

#[tokio::test]
async fn a_failover_reaches_those_on_its_side() -> Test {
    let group = manual(3).await?;
    let split = group.split(&["master", "replica-3"]);
    group.fail_over_to("replica-1");
    let mut old = Plain::to(&group["master"]).await?;
    let mut new = Plain::to(&group["replica-1"]).await?;
    assert_eq!(old.ask("SET k old").await, "OK");
    assert_eq!(new.ask("SET k new").await, "OK");
    for (node, value) in [("replica-2", "new"), ("replica-3", "old")] {
        group[node].assert_get("k", value);
    }
    // Without sentinels the replicas do not learn of the new master.
    split.heal();
    group["master"].assert_get("k", "old");
    group.follow("master", "replica-1");
    group["master"].assert_get("k", "new");
    Ok(())
}

#[tokio::test]
async fn migrate_does_not_cross() -> Test {
    let nodes = Deployment::builder()
        .clock(Clock::Manual)
        .independent(2)
        .await?;
    let mut redis = Plain::to(&nodes["node-1"]).await?;
    redis.ask("SET k v").await;
    let port = nodes["node-2"].addr().port();
    let migrate = format!("MIGRATE 127.0.0.1 {port} k 0 1000");
    let split = nodes.split(&["node-2"]);
    assert!(redis.ask(&migrate).await.starts_with("-IOERR "));
    split.heal();
    assert_eq!(redis.ask(&migrate).await, "OK");
    nodes["node-2"].assert_get("k", "v");
    Ok(())
}

/// Clients do not reach some of the nodes until everything is healed. After that the guards have no
/// effect.
#[tokio::test(start_paused = true)]
async fn all_that_is_wrong_with_the_network_is_healed_at_once() -> Test {
    let group = Deployment::builder()
        .clock(Clock::Tokio)
        .replicated(1, 1)
        .await?;
    group.set_lag("replica-1", Lag::Time(Duration::from_secs(1)));
    let split = group.split(&["replica-1"]);
    let cut = group.cut_link("replica-1");
    let rule = group["master"].inject(DropRequest::new().command("GET"));
    let rules = Partition::new().addr("far:*");
    let partition = group.partition(rules, &["master", "replica-1"]);
    let mut near = Plain::to(&group["master"]).await?;
    let mut far = Vec::new();
    for name in ["master", "replica-1"] {
        let server = &group[name];
        let connecting = tokio::time::timeout(
            Duration::from_secs(5),
            server.connection_builder().addr("far:1").open(),
        );
        assert!(!matches!(connecting.await, Ok(Ok(_))), "{name}");
        far.push(server);
    }
    assert!(partition.fired() >= 2, "{partition:?}");
    near.ask("SET k v").await;
    group.heal_all();
    for server in far {
        server.connection_builder().addr("far:1").open().await?;
    }
    // Lags do not change.
    group["replica-1"].assert_missing("k");
    tokio::time::sleep(Duration::from_secs(2)).await;
    group["replica-1"].assert_get("k", "v");
    assert_eq!(near.ask("GET k").await, "v");

    let _later = (group.split(&["replica-1"]), group.cut_link("replica-1"));
    let still = group["master"].inject(DropRequest::new().command("DEL"));
    drop((split, cut, rule, partition));
    near.ask("SET k w").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    group["replica-1"].assert_get("k", "v");
    assert!(near.ask("DEL k").await.starts_with('-'));
    still.assert_fired(1);
    Ok(())
}

#[tokio::test]
async fn clients_of_any_language_split_and_heal() -> Test {
    let servers = Server::builder().control(true);
    let builder = Deployment::builder().servers(servers).clock(Clock::Manual);
    let group = builder.replicated(1, 2).await?;
    let mut redis = Plain::to(&group["master"]).await?;
    for (line, expected) in [
        ("REDOUBLE.NODE SPLIT replica-1 replica-2", "OK"),
        ("REDOUBLE.NODE CUT replica-2", "OK"),
        ("REDOUBLE.NODE CUT replica-2", "OK"),
        ("SET k v", "OK"),
        ("WAIT 0 0", "0"),
        ("REDOUBLE.NODE SPLIT master", "OK"),
        ("REDOUBLE.FAULT ADD drop_request COMMAND GET", "1"),
        ("REDOUBLE.NODE HEALALL", "OK"),
        ("WAIT 2 0", "2"),
        ("GET k", "v"),
        ("REDOUBLE.NODE SPLIT replica-1", "OK"),
        ("REDOUBLE.RESET", "OK"),
        ("SET k v", "OK"),
        ("WAIT 2 0", "2"),
    ] {
        assert_eq!(redis.ask(line).await, expected, "{line}");
    }
    for (line, expected) in [
        ("REDOUBLE.NODE SPLIT", "expected the name of a node"),
        ("REDOUBLE.NODE SPLIT node-9", "unknown node 'node-9'"),
        (
            "REDOUBLE.NODE SPLIT master replica-1 replica-2",
            "a split needs nodes on both sides",
        ),
        ("REDOUBLE.NODE HEALALL now", "expected the end, found 'now'"),
    ] {
        let error = redis.ask(line).await;
        assert!(
            error.starts_with("-ERR ") && error.contains(expected),
            "{error}"
        );
    }
    for _ in 0..100 {
        redis.ask("REDOUBLE.NODE SPLIT replica-1").await;
    }
    assert_eq!(
        redis.ask("REDOUBLE.NODE SPLIT replica-1").await,
        "-ERR 100 splits are the maximum"
    );
    Ok(())
}
