//! FAILOVER, as clients see it.

use super::{Plain, Test, field, manual};
use redouble::{Deployment, Lag, Loss};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn to(group: &Deployment, replica: &str, rest: &str) -> String {
    let port = group[replica].addr().port();
    format!("FAILOVER TO 127.0.0.1 {port}{rest}")
}

async fn state(redis: &mut Plain) -> String {
    let (role, state) = (
        field(redis, "role").await,
        field(redis, "master_failover_state").await,
    );
    format!("{role}, {state}")
}

#[tokio::test]
async fn a_master_and_its_replica_change_places() -> Test {
    let group = manual(2).await?;
    let mut old = Plain::to(&group["master"]).await?;
    let mut new = Plain::to(&group["replica-2"]).await?;
    let mut other = Plain::to(&group["replica-1"]).await?;
    old.ask("SET k before").await;
    assert_eq!(old.ask(&to(&group, "replica-2", "")).await, "OK");
    assert_eq!(state(&mut old).await, "slave, no-failover");
    assert_eq!(state(&mut new).await, "master, no-failover");
    assert_eq!(
        old.ask("SET k w").await,
        "-READONLY You can't write against a read only replica."
    );
    assert_eq!(new.ask("SET k after").await, "OK");
    // The other replica still follows the former master, and receives everything through it.
    let port = group["master"].addr().port().to_string();
    assert_eq!(field(&mut other, "master_port").await, port);
    for node in ["master", "replica-1"] {
        group[node].assert_get("k", "after");
    }
    assert_eq!(new.ask("FAILOVER").await, "OK");
    assert_eq!(state(&mut old).await, "master, no-failover");
    assert_eq!(old.ask("SET k again").await, "OK");
    for node in ["replica-1", "replica-2"] {
        group[node].assert_get("k", "again");
    }
    Ok(())
}

#[tokio::test]
async fn writes_wait_for_the_replica_and_reads_do_not() -> Test {
    let group = manual(1).await?;
    group.set_lag("replica-1", Lag::Time(2 * SECOND));
    let mut old = Plain::to(&group["master"]).await?;
    let mut writer = Plain::to(&group["master"]).await?;
    old.ask("SET k v").await;
    assert_eq!(old.ask("FAILOVER").await, "OK");
    assert_eq!(state(&mut old).await, "master, waiting-for-sync");
    assert_eq!(
        old.ask("FAILOVER").await,
        "-ERR FAILOVER already in progress."
    );
    assert_eq!(
        old.ask("REPLICAOF NO ONE").await,
        "-ERR REPLICAOF not allowed while failing over."
    );
    let late = tokio::spawn(async move { writer.ask("SET k late").await });
    while field(&mut old, "blocked_clients").await != "1" {
        tokio::task::yield_now().await;
    }
    assert_eq!(old.ask("CLIENT UNPAUSE").await, "OK");
    assert_eq!(old.ask("GET k").await, "v");
    group.clock().advance(2 * SECOND);
    assert!(late.await?.starts_with("-READONLY "));
    assert_eq!(state(&mut old).await, "slave, no-failover");
    group["replica-1"].assert_get("k", "v");
    Ok(())
}

#[tokio::test]
async fn it_is_called_off_by_hand_or_when_the_time_is_over() -> Test {
    let group = manual(1).await?;
    let mut old = Plain::to(&group["master"]).await?;
    let cut = group.cut_link("replica-1");
    old.ask("SET k v").await;
    for (begin, end) in [("FAILOVER", "FAILOVER ABORT"), ("FAILOVER TIMEOUT 100", "")] {
        assert_eq!(old.ask(begin).await, "OK");
        assert_eq!(state(&mut old).await, "master, waiting-for-sync");
        let mut writer = Plain::to(&group["master"]).await?;
        let late = tokio::spawn(async move { writer.ask("INCR n").await });
        while field(&mut old, "blocked_clients").await != "1" {
            tokio::task::yield_now().await;
        }
        if end.is_empty() {
            group.clock().advance(Duration::from_millis(99));
            assert_eq!(state(&mut old).await, "master, waiting-for-sync");
            group.clock().advance(Duration::from_millis(1));
        } else {
            assert_eq!(old.ask(end).await, "OK");
        }
        assert!(!late.await?.starts_with('-'));
        assert_eq!(state(&mut old).await, "master, no-failover");
    }
    cut.restore();
    group["replica-1"].assert_get("n", "2");
    Ok(())
}

#[tokio::test]
async fn by_force_it_comes_about_without_the_tail() -> Test {
    let group = manual(1).await?;
    let mut old = Plain::to(&group["master"]).await?;
    let mut waiting = Plain::to(&group["master"]).await?;
    old.ask("SET k old").await;
    group.set_lag("replica-1", Lag::Time(60 * SECOND));
    old.ask("SET k new").await;
    let waiter = tokio::spawn(async move { waiting.ask("BLPOP l 0").await });
    while group["master"].waiting().is_empty() {
        tokio::task::yield_now().await;
    }
    let forced = to(&group, "replica-1", " FORCE TIMEOUT 1000");
    assert_eq!(old.ask(&forced).await, "OK");
    group.clock().advance(SECOND);
    assert_eq!(state(&mut old).await, "slave, no-failover");
    group["replica-1"].assert_get("k", "old");
    group["master"].assert_get("k", "old");
    assert_eq!(
        waiter.await?,
        "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"
    );
    Ok(())
}

#[tokio::test]
async fn a_master_waits_for_a_replica_that_it_cannot_reach() -> Test {
    let group = manual(1).await?;
    let mut old = Plain::to(&group["master"]).await?;
    let forced = to(&group, "replica-1", " FORCE TIMEOUT 1000");
    let cut = group.cut_link("replica-1");
    old.ask("SET k v").await;
    assert_eq!(old.ask(&forced).await, "OK");
    let pause = group["replica-1"].pause();
    group.clock().advance(SECOND);
    assert_eq!(state(&mut old).await, "slave, failover-in-progress");
    assert_eq!(old.ask("FAILOVER ABORT").await, "OK");
    assert_eq!(state(&mut old).await, "master, no-failover");
    assert_eq!(
        old.ask("FAILOVER ABORT").await,
        "-ERR No failover in progress."
    );
    assert_eq!(old.ask("SET k w").await, "OK");
    assert_eq!(old.ask(&forced).await, "OK");
    group.clock().advance(SECOND);
    pause.resume();
    assert_eq!(state(&mut old).await, "slave, failover-in-progress");
    cut.restore();
    assert_eq!(state(&mut old).await, "slave, no-failover");
    Ok(())
}

#[tokio::test]
async fn a_master_that_crashes_on_the_way_comes_back_as_one() -> Test {
    let group = manual(1).await?;
    let pause = group["replica-1"].pause();
    let mut old = Plain::to(&group["master"]).await?;
    old.ask("SET k v").await;
    let forced = to(&group, "replica-1", " FORCE TIMEOUT 1000");
    assert_eq!(old.ask(&forced).await, "OK");
    group.clock().advance(SECOND);
    assert_eq!(state(&mut old).await, "slave, failover-in-progress");
    group["master"].crash(Loss::Nothing);
    group["master"].restart();
    let mut old = Plain::to(&group["master"]).await?;
    assert_eq!(state(&mut old).await, "master, no-failover");
    pause.resume();
    assert_eq!(state(&mut old).await, "master, no-failover");
    group["replica-1"].assert_get("k", "v");
    Ok(())
}
