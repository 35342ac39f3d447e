//! Replication with a lag, cut links, failovers that lose recent writes, crashes.

use super::{SECOND, Test, text};
use redis::AsyncTypedCommands;
use redouble::{Clock, Connection, Deployment, Lag, Loss, Persistence, Server};
use std::time::Duration;

async fn manual(replicas: usize) -> Result<Deployment, redouble::StartError> {
    let builder = Deployment::builder().clock(Clock::Manual);
    builder.replicated(1, replicas).await
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let prefix = format!("{name}:");
    info.split("\\r\\n")
        .find_map(|line| line.strip_prefix(&prefix))
}

/// The origin of a whole class of bugs: a lock was granted, the grant was not replicated, and the
/// new master grants the lock again.
#[tokio::test]
async fn a_failover_forgets_a_lock_that_had_not_arrived() -> Test {
    let group = manual(1).await?;
    group.set_lag("replica-1", Lag::Units(1));
    group["master"]
        .connection()
        .await?
        .set_nx("lock", "first")
        .await?;
    group.promote("replica-1");
    assert!(
        group["replica-1"]
            .connection()
            .await?
            .set_nx("lock", "second")
            .await?
    );
    Ok(())
}

#[tokio::test]
async fn a_write_at_a_master_arrives_at_its_replicas_at_once() -> Test {
    let group = manual(2).await?;
    let mut redis = group["master"].connection().await?;
    redis.set_ex("k", "v", 10).await?;
    for replica in ["replica-1", "replica-2"] {
        group[replica].assert_get("k", "v");
        assert_eq!(group[replica].pttl("k"), Some(10 * SECOND));
        let mut reader = group[replica].connection().await?;
        assert_eq!(reader.get("k").await?.as_deref(), Some("v"));
        let error = reader.set("k", "w").await.unwrap_err();
        assert_eq!(error.code(), Some("READONLY"), "{error}");
    }
    assert_eq!(text(&mut redis, "WAIT 2 0").await?, "int(2)");
    Ok(())
}

#[tokio::test]
async fn a_lag_of_time_is_exact_and_one_of_units_counts_whole_scripts() -> Test {
    let group = manual(2).await?;
    group.set_lag("replica-1", Lag::Time(2 * SECOND));
    group.set_lag("replica-2", Lag::Units(1));
    let mut redis = group["master"].connection().await?;
    redis.set("a", "1").await?;
    text(
        &mut redis,
        "EVAL redis.call('SET','b','1');redis.call('SET','c','1') 0",
    )
    .await?;
    group["replica-2"].assert_keys(["a"]);
    assert_eq!(
        (group.in_flight("replica-1"), group.in_flight("replica-2")),
        (2, 1)
    );
    group.clock().advance(2 * SECOND - Duration::from_micros(1));
    group["replica-1"].assert_keys::<&str>([]);
    group.clock().advance(Duration::from_micros(1));
    group["replica-1"].assert_keys(["a", "b", "c"]);
    redis.set("d", "1").await?;
    group["replica-2"].assert_keys(["a", "b", "c"]);
    Ok(())
}

#[tokio::test]
async fn a_link_that_was_cut_catches_up() -> Test {
    let group = manual(1).await?;
    let mut redis = group["master"].connection().await?;
    let mut reader = group["replica-1"].connection().await?;
    let cut = group.cut_link("replica-1");
    redis.set("k", "v").await?;
    group.clock().advance(5 * SECOND);
    group["replica-1"].assert_missing("k");
    let info = text(&mut reader, "INFO replication").await?;
    assert_eq!(field(&info, "master_link_status"), Some("down"), "{info}");
    assert_eq!(field(&info, "master_link_down_since_seconds"), Some("5"));
    assert!(text(&mut reader, "ROLE").await?.contains("connect"));
    text(
        &mut redis,
        "CONFIG SET min-replicas-to-write 1 min-replicas-max-lag 3",
    )
    .await?;
    let error = redis.set("k", "w").await.unwrap_err();
    assert_eq!(error.code(), Some("NOREPLICAS"), "{error}");
    cut.restore();
    group["replica-1"].assert_get("k", "v");
    redis.set("k", "w").await?;
    let info = text(&mut reader, "INFO replication").await?;
    assert_eq!(field(&info, "master_link_status"), Some("up"), "{info}");
    Ok(())
}

#[tokio::test]
async fn writes_that_do_not_fit_the_backlog_arrive_as_a_copy_of_all_data() -> Test {
    let group = manual(1).await?;
    let mut redis = group["master"].connection().await?;
    redis.set("gone", "v").await?;
    let cut = group.cut_link("replica-1");
    redis.del("gone").await?;
    for n in 0..40 {
        redis.set(format!("big:{n}"), "x".repeat(40_000)).await?;
    }
    assert!(
        group.in_flight("replica-1") < 40,
        "more than 1 MiB is not kept"
    );
    drop(cut);
    assert_eq!(group["replica-1"].keys("*").len(), 40);
    group["replica-1"].assert_missing("gone");
    Ok(())
}

#[tokio::test]
async fn a_replica_goes_by_its_own_clock_and_removes_nothing() -> Test {
    let group = manual(1).await?;
    let mut redis = group["master"].connection().await?;
    let mut reader = group["replica-1"].connection().await?;
    redis.set_ex("k", "v", 10).await?;
    group["replica-1"].clock().jump(11 * SECOND);
    assert_eq!(reader.get("k").await?, None);
    assert_eq!(text(&mut reader, "DBSIZE").await?, "int(1)");
    assert_eq!(redis.get("k").await?.as_deref(), Some("v"));
    group.clock().advance(11 * SECOND);
    assert_eq!(text(&mut reader, "DBSIZE").await?, "int(0)");
    Ok(())
}

#[tokio::test]
async fn a_failover_makes_the_others_follow_and_the_tail_is_lost() -> Test {
    let group = manual(2).await?;
    let mut old = group["master"].connection().await?;
    old.set("k", "arrived").await?;
    group.set_lag("replica-1", Lag::Time(SECOND));
    group.set_lag("replica-2", Lag::Time(SECOND));
    old.set("k", "lost").await?;
    group.fail_over_to("replica-1");
    let mut new = group["replica-1"].connection().await?;
    assert_eq!(new.get("k").await?.as_deref(), Some("arrived"));
    assert_eq!(old.get("k").await?.as_deref(), Some("arrived"));
    assert!(text(&mut old, "ROLE").await?.contains("slave"));
    group.set_lag("replica-2", Lag::default());
    new.set("k", "new").await?;
    group["replica-2"].assert_get("k", "new");
    let info = text(&mut new, "INFO replication").await?;
    assert_eq!(
        (field(&info, "role"), field(&info, "connected_slaves")),
        (Some("master"), Some("2"))
    );
    assert_ne!(field(&info, "master_replid2"), Some(&*"0".repeat(40)));
    Ok(())
}

#[tokio::test]
async fn replicaof_works_over_the_wire_within_the_deployment() -> Test {
    let group = Deployment::independent(2).await?;
    let url = group["node-1"].url();
    let mut first = redis::Client::open(url)?
        .get_multiplexed_async_connection()
        .await?;
    let second = &group["node-2"];
    let mut redis = redis::Client::open(second.url())?
        .get_multiplexed_async_connection()
        .await?;
    first.set("k", "v").await?;
    redis.set("own", "v").await?;
    let port = group["node-1"].addr().port();
    assert_eq!(
        text(&mut redis, &format!("REPLICAOF 127.0.0.1 {port}")).await?,
        "ok"
    );
    second.assert_keys(["k"]);
    let again = text(&mut redis, &format!("REPLICAOF 127.0.0.1 {port}")).await?;
    assert!(again.contains("Already connected"), "{again}");
    let error = text(&mut redis, "REPLICAOF 127.0.0.1 1").await.unwrap_err();
    assert!(
        error.to_string().contains("redouble does not implement"),
        "{error}"
    );
    let role = text(&mut first, "ROLE").await?;
    assert!(role.contains(&second.addr().port().to_string()), "{role}");
    text(&mut redis, "REPLICAOF NO ONE").await?;
    redis.set("own", "v").await?;
    assert!(text(&mut first, "ROLE").await?.contains("[]"));
    Ok(())
}

#[tokio::test]
async fn a_paused_replica_takes_nothing_in_before_it_is_resumed() -> Test {
    let group = manual(1).await?;
    let pause = group["replica-1"].pause();
    group["master"].connection().await?.set("k", "v").await?;
    group["replica-1"].assert_missing("k");
    pause.resume();
    group["replica-1"].assert_get("k", "v");
    Ok(())
}

async fn written(
    persistence: Persistence,
) -> Result<(Server, Connection), Box<dyn std::error::Error>> {
    let builder = Server::builder()
        .clock(Clock::Manual)
        .persistence(persistence);
    let server = builder.start().await?;
    let mut redis = server.connection().await?;
    for n in 0..5 {
        redis.set(format!("k{n}"), "v").await?;
        server.clock().advance(Duration::from_millis(600));
    }
    Ok((server, redis))
}

#[tokio::test]
async fn a_crash_loses_what_was_not_written_for_good() -> Test {
    for (persistence, loss, kept) in [
        (Persistence::None, Loss::AsConfigured, 0),
        (Persistence::EverySecond, Loss::AsConfigured, 5),
        (Persistence::Always, Loss::AsConfigured, 5),
        (Persistence::None, Loss::Nothing, 5),
        (Persistence::Always, Loss::Everything, 0),
        (Persistence::Always, Loss::Last(2), 3),
        (Persistence::EverySecond, Loss::Last(9), 0),
    ] {
        let (server, mut redis) = written(persistence).await?;
        server.crash(loss);
        assert!(redis.get("k0").await.is_err());
        server.restart();
        assert_eq!(server.keys("*").len(), kept, "{persistence:?} {loss:?}");
        redis.set("after", "v").await?;
    }
    // A write within the current second is lost.
    let (server, mut redis) = written(Persistence::EverySecond).await?;
    redis.set("late", "v").await?;
    server.crash(Loss::AsConfigured);
    server.restart();
    assert_eq!((server.keys("*").len(), server.exists("late")), (5, false));
    Ok(())
}

#[tokio::test]
async fn an_append_only_file_that_a_client_switches_on_keeps_all_data() -> Test {
    let server = Server::builder().clock(Clock::Manual).start().await?;
    let mut redis = server.connection().await?;
    redis.set("before", "v").await?;
    text(&mut redis, "CONFIG SET appendonly yes appendfsync always").await?;
    redis.set("after", "v").await?;
    server.crash(Loss::AsConfigured);
    server.restart();
    assert_eq!(server.keys("*").len(), 2);
    let mut redis = server.connection().await?;
    // The server starts again with its own settings.
    assert!(
        text(&mut redis, "CONFIG GET appendonly")
            .await?
            .contains("no")
    );
    server.crash(Loss::AsConfigured);
    server.restart();
    assert_eq!(server.keys("*").len(), 0);
    let mut redis = server.connection().await?;
    // What is switched off keeps nothing.
    redis.set("k", "v").await?;
    text(&mut redis, "CONFIG SET appendonly yes").await?;
    text(&mut redis, "CONFIG SET appendonly no").await?;
    server.crash(Loss::AsConfigured);
    server.restart();
    assert_eq!(server.keys("*").len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_crash_forgets_scripts_subscriptions_and_settings_and_spares_the_port() -> Test {
    let server = Server::builder().clock(Clock::Manual).start().await?;
    let client = redis::Client::open(server.url())?;
    let mut redis = client.get_multiplexed_async_connection().await?;
    let script = redis::Script::new("return 1");
    script.load_async(&mut redis).await?;
    text(&mut redis, "CONFIG SET maxmemory-policy allkeys-lru").await?;
    let subscriber = client.get_async_pubsub().await?;
    server.crash(Loss::Nothing);
    assert!(redis.get("k").await.is_err());
    server.restart();
    let mut redis = client.get_multiplexed_async_connection().await?;
    let sha = script.get_hash();
    let error = text(&mut redis, &format!("EVALSHA {sha} 0"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some("NOSCRIPT"));
    assert!(
        text(&mut redis, "CONFIG GET maxmemory-policy")
            .await?
            .contains("noeviction")
    );
    drop(subscriber);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_restart_can_come_later() -> Test {
    let server = Server::builder().clock(Clock::Tokio).start().await?;
    let mut redis = server.connection().await?;
    redis.set("k", "v").await?;
    server.crash(Loss::Nothing);
    server.restart_in(Duration::from_millis(2950));
    let begun = tokio::time::Instant::now();
    while redis.get("k").await.is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(begun.elapsed(), 3 * SECOND);
    server.assert_get("k", "v");
    Ok(())
}

#[tokio::test]
async fn a_master_that_comes_back_empty_empties_its_replicas() -> Test {
    let group = manual(1).await?;
    group["master"].connection().await?.set("k", "v").await?;
    group["master"].crash(Loss::Everything);
    group["replica-1"].assert_get("k", "v");
    let mut reader = group["replica-1"].connection().await?;
    let info = text(&mut reader, "INFO replication").await?;
    assert_eq!(field(&info, "master_link_status"), Some("down"), "{info}");
    group["master"].restart();
    group["replica-1"].assert_missing("k");
    Ok(())
}

#[tokio::test]
async fn a_replica_that_comes_back_follows_again() -> Test {
    let group = manual(1).await?;
    let mut redis = group["master"].connection().await?;
    group["replica-1"].crash(Loss::Everything);
    redis.set("k", "v").await?;
    assert_eq!(text(&mut redis, "WAIT 0 0").await?, "int(0)");
    group["replica-1"].restart();
    group["replica-1"].assert_get("k", "v");
    let mut reader = group["replica-1"].connection().await?;
    assert_eq!(
        reader.set("k", "w").await.unwrap_err().code(),
        Some("READONLY")
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn wait_is_answered_when_the_lag_is_over() -> Test {
    let group = Deployment::builder()
        .clock(Clock::Tokio)
        .replicated(1, 2)
        .await?;
    group.set_lag("replica-1", Lag::Time(Duration::from_millis(200)));
    group.set_lag("replica-2", Lag::Time(Duration::from_millis(300)));
    let mut redis = group["master"].connection().await?;
    redis.set("k", "v").await?;
    let begun = tokio::time::Instant::now();
    assert_eq!(text(&mut redis, "WAIT 1 400").await?, "int(1)");
    assert_eq!(begun.elapsed().as_millis(), 200);
    redis.set("k", "w").await?;
    assert_eq!(text(&mut redis, "WAIT 2 250").await?, "int(1)");
    Ok(())
}

#[tokio::test]
async fn the_same_seed_gives_the_same_history_twice() -> Test {
    let mut histories = Vec::new();
    for _ in 0..2 {
        let servers = Server::builder().seed(7).history(100);
        let builder = Deployment::builder().servers(servers).clock(Clock::Manual);
        let group = builder.replicated(1, 2).await?;
        group.set_lag("replica-2", Lag::Time(SECOND));
        let mut redis = group["master"].connection().await?;
        redis.set_ex("k", "v", 1).await?;
        text(
            &mut redis,
            "EVAL return{math.random(),redis.call('TIME')} 0",
        )
        .await?;
        group.clock().advance(3 * SECOND);
        group.fail_over_to("replica-2");
        group["replica-2"].connection().await?.set("k", "w").await?;
        let all = group
            .nodes()
            .map(|server| format!("{}{}", server.history(), server.snapshot()));
        histories.push(all.collect::<String>());
    }
    assert_eq!(histories[0], histories[1]);
    assert!(histories[0].contains("math.random"));
    Ok(())
}

#[tokio::test]
async fn a_replica_sees_that_its_master_was_shut_down() -> Test {
    let group = manual(1).await?;
    let mut master = group["master"].connection().await?;
    let mut replica = group["replica-1"].connection().await?;
    let stopped = text(&mut master, "SHUTDOWN NOSAVE");
    let _no_reply = tokio::time::timeout(Duration::from_millis(100), stopped).await;
    let info = text(&mut replica, "INFO replication").await?;
    assert_eq!(field(&info, "master_link_status"), Some("down"), "{info}");
    Ok(())
}

/// The connection ends with the process, so the master knows at once.
#[tokio::test]
async fn a_replica_that_has_ended_leaves_the_list_of_its_master() -> Test {
    let group = manual(2).await?;
    let mut master = group["master"].connection().await?;
    text(&mut master, "CONFIG SET min-replicas-to-write 2").await?;
    master.set("k", "v").await?;
    group.crash("replica-1");
    let info = text(&mut master, "INFO replication").await?;
    assert_eq!(field(&info, "connected_slaves"), Some("1"), "{info}");
    let error = master.set("k", "w").await.unwrap_err();
    assert_eq!(error.code(), Some("NOREPLICAS"));
    group.restart("replica-1");
    let info = text(&mut master, "INFO replication").await?;
    assert_eq!(field(&info, "connected_slaves"), Some("2"), "{info}");
    master.set("k", "w").await?;
    group["replica-1"].assert_get("k", "w");
    Ok(())
}

/// DEBUG SLEEP: it executes nothing meanwhile, and what its master sends waits.
#[tokio::test]
async fn a_replica_that_slept_catches_up() -> Test {
    let group = manual(1).await?;
    let mut master = group["master"].connection().await?;
    let mut sleeper = group["replica-1"].connection().await?;
    let sleeps = text(&mut sleeper, "DEBUG SLEEP 5");
    let _later = tokio::time::timeout(Duration::from_millis(100), sleeps).await;
    master.set("k", "v").await?;
    group["replica-1"].assert_missing("k");
    group.clock().advance(5 * SECOND);
    group["replica-1"].assert_get("k", "v");
    Ok(())
}
