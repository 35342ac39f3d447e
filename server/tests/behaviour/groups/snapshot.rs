//! Snapshots of a deployment.

use super::{Plain, Test, manual};
use redouble::Lag;
use std::time::Duration;

#[tokio::test]
async fn a_group_is_put_back_as_it_was() -> Test {
    let group = manual(1).await?;
    let mut redis = Plain::to(&group["master"]).await?;
    redis.ask("SET k first").await;
    let first = group.snapshot();
    assert_eq!(first.diff(&group.snapshot()), "");
    group.set_lag("replica-1", Lag::Time(Duration::from_secs(1)));
    redis.ask("SET k second").await;
    let second = group.snapshot();
    let changed = "master:\n- 0 \"k\" = \"first\"\n+ 0 \"k\" = \"second\"\n";
    assert_eq!(first.diff(&second), changed);
    assert_eq!(
        second.to_string(),
        "master:\n0 \"k\" = \"second\"\nreplica-1:\n0 \"k\" = \"first\"\n"
    );
    redis.ask("FLUSHALL").await;
    group.restore(&second);
    assert_eq!(second.diff(&group.snapshot()), "");
    // The replica receives its master's data after its lag, as always.
    group.clock().advance(Duration::from_secs(1));
    group["replica-1"].assert_get("k", "second");
    group.set_lag("replica-1", Lag::default());
    redis.ask("SET other 1").await;
    group["replica-1"].assert_keys(["k", "other"]);
    Ok(())
}
