//! Masters that are down, and the replicas that replace them.

use super::{Plain, Test, address, manual};
use redis::AsyncTypedCommands;
use redouble::{Lag, Loss};
use std::time::Duration;

#[tokio::test]
async fn a_replica_takes_the_slots_of_its_master_along() -> Test {
    let cluster = manual(3, 2).await?;
    let mut master = Plain::to(&cluster["master-1"]).await?;
    master.ask("SET b arrived").await;
    cluster.set_lag("replica-1-1", Lag::Time(Duration::from_secs(1)));
    master.ask("SET b lost").await;
    cluster.fail_over_to("replica-1-1");
    let moved = format!("-MOVED 3300 {}", address(&cluster["replica-1-1"]));
    for name in ["master-1", "replica-1-2", "master-2", "replica-3-1"] {
        let mut redis = Plain::to(&cluster[name]).await?;
        assert_eq!(redis.ask("GET b").await, moved, "{name}");
        let nodes = redis.ask("CLUSTER NODES").await;
        assert_eq!(nodes.matches("slave").count(), 6, "{nodes}");
    }
    let mut new = Plain::to(&cluster["replica-1-1"]).await?;
    assert_eq!(new.ask("GET b").await, "arrived");
    assert_eq!(new.ask("SET b new").await, "OK");
    for name in ["master-1", "replica-1-2"] {
        cluster[name].assert_get("b", "new");
    }
    let epoch = new.ask("CLUSTER INFO").await;
    assert!(epoch.contains("cluster_my_epoch:10\r\n"), "{epoch}");
    Ok(())
}

/// A master that is down does not learn that a replica has taken its slots. CLUSTER NODES shows it as a master until it runs again.
#[tokio::test]
async fn a_master_that_is_down_becomes_a_replica_when_it_is_back() -> Test {
    for by_client in [true, false] {
        let cluster = manual(3, 2).await?;
        let mut other = Plain::to(&cluster["master-2"]).await?;
        let old = cluster["master-1"].addr().port();
        cluster.crash("master-1");
        cluster.clock().advance(Duration::from_secs(60));
        if by_client {
            let mut replica = Plain::to(&cluster["replica-1-1"]).await?;
            assert_eq!(replica.ask("CLUSTER FAILOVER TAKEOVER").await, "OK");
        } else {
            cluster.fail_over_to("replica-1-1");
        }
        let nodes = other.ask("CLUSTER NODES").await;
        let line = |nodes: &str| {
            let mut lines = nodes.lines().map(str::to_owned);
            lines
                .find(|line| line.contains(&format!(":{old}@")))
                .unwrap()
        };
        assert!(line(&nodes).contains(" master,fail - "), "{nodes}");
        let mut sibling = Plain::to(&cluster["replica-1-2"]).await?;
        let new = cluster["replica-1-1"].addr().port();
        assert!(sibling.ask("ROLE").await.contains(&format!(" {new} ")));
        cluster["replica-1-1"]
            .connection()
            .await?
            .set("b", "1")
            .await?;
        cluster.restart("master-1");
        let nodes = other.ask("CLUSTER NODES").await;
        assert!(line(&nodes).contains(" slave "), "{nodes}");
        cluster["master-1"].assert_get("b", "1");
    }
    Ok(())
}

#[tokio::test]
async fn cluster_failover_loses_nothing_unless_forced() -> Test {
    for (line, kept) in [
        ("CLUSTER FAILOVER", "late"),
        ("CLUSTER FAILOVER TAKEOVER", "early"),
    ] {
        let cluster = manual(3, 1).await?;
        let mut master = Plain::to(&cluster["master-1"]).await?;
        master.ask("SET b early").await;
        cluster.set_lag("replica-1-1", Lag::Time(Duration::from_secs(1)));
        master.ask("SET b late").await;
        let mut replica = Plain::to(&cluster["replica-1-1"]).await?;
        assert_eq!(replica.ask(line).await, "OK");
        assert_eq!(replica.ask("GET b").await, kept, "{line}");
        assert!(master.ask("ROLE").await.contains("slave"));
        assert_eq!(
            replica.ask("CLUSTER FAILOVER").await,
            "-ERR You should send CLUSTER FAILOVER to a replica"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_cluster_without_all_of_its_slots_is_down_once_that_is_known() -> Test {
    let cluster = manual(3, 1).await?;
    cluster.set_failure_noticed_after(Duration::from_secs(15));
    cluster["master-3"].crash(Loss::Everything);
    let mut redis = Plain::to(&cluster["master-1"]).await?;
    assert_eq!(redis.ask("SET b 1").await, "OK");
    cluster.clock().advance(Duration::from_secs(15));
    let down = "-CLUSTERDOWN The cluster is down";
    assert_eq!(redis.ask("GET b").await, down);
    assert_eq!(
        redis.ask("EVAL \"return redis.call('get','b')\" 0").await[..60],
        *"-ERR Script attempted to execute a command while the cluster is down"[..60].to_owned()
    );
    let info = redis.ask("CLUSTER INFO").await;
    for field in ["cluster_state:fail", "cluster_slots_fail:5461"] {
        assert!(info.contains(field), "{info}");
    }
    let nodes = redis.ask("CLUSTER NODES").await;
    assert_eq!(nodes.matches("master,fail").count(), 1, "{nodes}");
    redis
        .ask("CONFIG SET cluster-allow-reads-when-down yes")
        .await;
    assert_eq!(redis.ask("GET b").await, "1");
    assert_eq!(
        redis.ask("SET b 2").await,
        "-CLUSTERDOWN The cluster is down and only accepts read commands"
    );
    redis
        .ask("CONFIG SET cluster-require-full-coverage no")
        .await;
    assert_eq!(redis.ask("SET b 2").await, "OK");
    cluster.fail_over_to("replica-3-1");
    let mut other = Plain::to(&cluster["master-2"]).await?;
    assert!(other.ask("CLUSTER INFO").await.contains("cluster_state:ok"));
    cluster["master-3"].restart();
    let nodes = other.ask("CLUSTER NODES").await;
    assert!(!nodes.contains("fail"), "{nodes}");
    let mut back = Plain::to(&cluster["master-3"]).await?;
    let moved = format!("-MOVED 15495 {}", address(&cluster["replica-3-1"]));
    assert_eq!(back.ask("GET a").await, moved);
    Ok(())
}

#[tokio::test]
async fn without_most_masters_nothing_is_served() -> Test {
    let cluster = manual(3, 0).await?;
    let mut redis = Plain::to(&cluster["master-1"]).await?;
    redis
        .ask("CONFIG SET cluster-require-full-coverage no")
        .await;
    cluster["master-2"].crash(Loss::Everything);
    assert_eq!(redis.ask("SET b 1").await, "OK");
    cluster["master-3"].crash(Loss::Everything);
    assert_eq!(redis.ask("GET b").await, "-CLUSTERDOWN The cluster is down");
    cluster["master-3"].restart();
    assert_eq!(redis.ask("GET b").await, "1");
    Ok(())
}

/// Two masters believe that they own the slots: the old one has not learned of the promotion.
#[tokio::test]
async fn a_promotion_behind_the_masters_back_is_a_split_brain() -> Test {
    let cluster = manual(3, 1).await?;
    cluster.promote("replica-1-1");
    let (mut old, mut new) = (
        Plain::to(&cluster["master-1"]).await?,
        Plain::to(&cluster["replica-1-1"]).await?,
    );
    assert_eq!(old.ask("SET b old").await, "OK");
    assert_eq!(new.ask("SET b new").await, "OK");
    cluster.move_slot(3168, "master-2");
    assert_eq!(old.ask("SET f old").await, "OK");
    cluster.follow("master-1", "replica-1-1");
    assert!(old.ask("GET b").await.starts_with("-MOVED 3300"));
    let moved = format!("-MOVED 3168 {}", address(&cluster["master-2"]));
    assert_eq!(old.ask("GET f").await, moved);
    cluster["master-1"].assert_get("b", "new");
    Ok(())
}
