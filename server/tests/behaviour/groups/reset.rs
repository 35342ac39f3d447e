//! REDOUBLE.RESET of nodes that agree on their master themselves.

use super::{Plain, Test, field};
use redouble::{Clock, Deployment, DeploymentBuilder, Loss, Server};
use std::time::Duration;

fn builder() -> DeploymentBuilder {
    let servers = Server::builder().control(true);
    Deployment::builder().servers(servers).clock(Clock::Manual)
}

#[tokio::test]
async fn a_cluster_is_as_it_was_made() -> Test {
    let cluster = builder().cluster(2, 1).await?;
    let mut redis = Plain::to(&cluster["master-1"]).await?;
    let (begun, slots) = (
        redis.ask("CLUSTER NODES").await,
        redis.ask("CLUSTER SLOTS").await,
    );
    redis.ask("SET b 1").await;
    cluster.move_slot(3300, "master-2");
    cluster.begin_migration(100, "master-2");
    cluster.fail_over_to("replica-2-1");
    cluster.set_failure_noticed_after(Duration::ZERO);
    cluster["replica-1-1"].crash(Loss::Everything);
    let _split = cluster.split(&["master-2"]);
    assert_ne!(redis.ask("CLUSTER NODES").await, begun);
    assert_eq!(redis.ask("REDOUBLE.RESET").await, "OK");
    assert_eq!(redis.ask("CLUSTER NODES").await, begun);
    assert_eq!(redis.ask("CLUSTER SLOTS").await, slots);
    assert_eq!(cluster.owner_of(3300), Some("master-1"));
    for node in cluster.nodes() {
        node.assert_keys::<&str>([]);
    }
    assert_eq!(redis.ask("SET b 2").await, "OK");
    cluster["replica-1-1"].assert_get("b", "2");
    let mut other = Plain::to(&cluster["replica-2-1"]).await?;
    assert_eq!(field(&mut other, "role").await, "slave");
    assert!(other.ask("GET b").await.starts_with("-MOVED 3300 "));
    Ok(())
}

#[tokio::test]
async fn sentinels_watch_the_first_master_again() -> Test {
    let group = builder().sentinel(2, 3).await?;
    let mut redis = Plain::to(&group["sentinel-1"]).await?;
    let master = "SENTINEL GET-MASTER-ADDR-BY-NAME mymaster";
    let begun = redis.ask(master).await;
    let id = redis.ask("SENTINEL MYID").await;
    group["master"].crash(Loss::Nothing);
    group.clock().advance(Duration::from_secs(30));
    assert_ne!(redis.ask(master).await, begun);
    assert_eq!(redis.ask("REDOUBLE.RESET").await, "OK");
    assert_eq!(redis.ask(master).await, begun);
    assert_eq!(redis.ask("SENTINEL MYID").await, id);
    let told = redis.ask("SENTINEL MASTERS").await;
    assert!(
        told.contains("num-slaves") && !told.contains("s_down"),
        "{told}"
    );
    let mut data = Plain::to(&group["master"]).await?;
    assert_eq!(data.ask("SET k v").await, "OK");
    for replica in ["replica-1", "replica-2"] {
        group[replica].assert_get("k", "v");
    }
    // The sentinels still watch the master.
    group["master"].crash(Loss::Nothing);
    group.clock().advance(Duration::from_secs(30));
    assert_ne!(redis.ask(master).await, begun);
    Ok(())
}

#[tokio::test]
async fn addresses_are_true_from_the_start() -> Test {
    let group = Deployment::builder()
        .clock(Clock::Manual)
        .replicated(1, 1)
        .await?;
    let mut replica = Plain::to(&group["replica-1"]).await?;
    let port = field(&mut replica, "master_port").await;
    // The master's address was not requested before.
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
    let mut redis = client.get_multiplexed_async_connection().await?;
    redis::cmd("SET")
        .arg("k")
        .arg("v")
        .exec_async(&mut redis)
        .await?;
    group["replica-1"].assert_get("k", "v");
    Ok(())
}
