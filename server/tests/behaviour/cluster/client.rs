//! A real cluster client over TCP, with default settings.

use super::Test;
use redis::AsyncTypedCommands;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redouble::{Deployment, Loss};

async fn connect(cluster: &Deployment) -> redis::RedisResult<ClusterConnection> {
    // The client discovers the other nodes by itself.
    let client = ClusterClient::new(vec![cluster["master-2"].url()])?;
    client.get_async_connection().await
}

async fn fill(redis: &mut ClusterConnection) -> redis::RedisResult<()> {
    for n in 0..60 {
        redis.set(format!("k{n}"), n).await?;
    }
    Ok(())
}

async fn assert_filled(redis: &mut ClusterConnection) -> redis::RedisResult<()> {
    for n in 0..60 {
        let value = redis.get(format!("k{n}")).await?;
        assert_eq!(value, Some(n.to_string()), "k{n}");
    }
    Ok(())
}

#[tokio::test]
async fn keys_go_to_all_masters_and_come_back() -> Test {
    let cluster = Deployment::cluster(3, 1).await?;
    let mut redis = connect(&cluster).await?;
    fill(&mut redis).await?;
    assert_filled(&mut redis).await?;
    let counts = ["master-1", "master-2", "master-3"].map(|name| cluster[name].keys("*").len());
    assert_eq!(counts.iter().sum::<usize>(), 60);
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
    let error = redis::pipe()
        .atomic()
        .set("a", 1)
        .set("b", 1)
        .query_async::<()>(&mut redis)
        .await;
    assert!(error.is_err());
    let (a, b): (i64, i64) = redis::pipe()
        .atomic()
        .incr("{t}a", 1)
        .incr("{t}b", 2)
        .query_async(&mut redis)
        .await?;
    assert_eq!((a, b), (1, 2));
    Ok(())
}

#[tokio::test]
async fn a_resharding_is_followed_at_every_step() -> Test {
    let cluster = Deployment::cluster(3, 0).await?;
    let mut redis = connect(&cluster).await?;
    fill(&mut redis).await?;
    for n in 0..20 {
        let key = format!("k{n}");
        let slot = Deployment::slot_of(&key);
        let to = if cluster.owner_of(slot) == Some("master-1") {
            "master-3"
        } else {
            "master-1"
        };
        cluster.begin_migration(slot, to);
        assert_eq!(redis.get(&key).await?, Some(n.to_string()));
        assert!(cluster.migrate_key(&key));
        // The client asks the old owner and is redirected to the new one.
        assert_eq!(redis.get(&key).await?, Some(n.to_string()));
        redis.set(format!("{{{key}}}new"), "v").await?;
        cluster[to].assert_get(format!("{{{key}}}new"), "v");
        cluster.finish_migration(slot);
        assert_eq!(redis.get(&key).await?, Some(n.to_string()));
    }
    assert_filled(&mut redis).await?;
    Ok(())
}

#[tokio::test]
async fn a_failover_is_followed() -> Test {
    let cluster = Deployment::cluster(3, 1).await?;
    let mut redis = connect(&cluster).await?;
    fill(&mut redis).await?;
    cluster.fail_over_to("replica-1-1");
    assert_filled(&mut redis).await?;
    fill(&mut redis).await?;
    // Then a failover without a plan.
    cluster["master-2"].crash(Loss::Everything);
    cluster.fail_over_to("replica-2-1");
    assert_filled(&mut redis).await?;
    Ok(())
}
