//! Slots that move from one master to another.

use super::{Plain, Test, address, manual};
use redouble::{Clock, Deployment, Server};
use std::time::Duration;

const SLOT: u16 = 3300;

#[tokio::test]
async fn both_ends_of_a_migration_send_to_each_other() -> Test {
    let cluster = manual(3, 1).await?;
    let (mut from, mut to) = (
        Plain::to(&cluster["master-1"]).await?,
        Plain::to(&cluster["master-2"]).await?,
    );
    from.ask("MSET b 1 {b}2 2").await;
    from.ask("PEXPIRE {b}2 5000").await;
    cluster.begin_migration(SLOT, "master-2");
    assert!(cluster.migrate_key("{b}2"));
    assert!(!cluster.migrate_key("{b}2") && !cluster.migrate_key("{b}none"));
    let ask = format!("-ASK {SLOT} {}", address(&cluster["master-2"]));
    let moved = format!("-MOVED {SLOT} {}", address(&cluster["master-1"]));
    let again = "-TRYAGAIN Multiple keys request during rehashing of slot";
    for (line, expected) in [
        ("GET b", "1"),
        ("GET {b}2", &*ask),
        ("GET {b}none", &*ask),
        ("MGET {b}2 {b}none", &*ask),
        ("MGET b {b}2", again),
        ("BLPOP {b}none 0", &*ask),
    ] {
        assert_eq!(from.ask(line).await, expected, "{line}");
    }
    for (line, expected) in [
        ("GET {b}2", &*moved),
        ("ASKING", "OK"),
        ("GET {b}2", "2"),
        ("GET {b}2", &*moved),
        ("ASKING", "OK"),
        ("MGET {b}2 {b}none", again),
        // ASKING applies to one command, or to one transaction.
        ("ASKING", "OK"),
        ("PING", "PONG"),
        ("GET {b}2", &*moved),
        ("ASKING", "OK"),
        (
            "NOSUCH",
            "-ERR unknown command 'NOSUCH', with args beginning with: ",
        ),
        ("GET {b}2", &*moved),
        ("ASKING", "OK"),
        ("MULTI", "OK"),
        ("GET {b}2", "QUEUED"),
        ("INCR {b}2", "QUEUED"),
        ("EXEC", "[2 3]"),
        ("GET {b}2", &*moved),
        ("ASKING", "OK"),
        ("PTTL {b}2", "5000"),
    ] {
        let answer = to.ask(line).await;
        assert_eq!(answer.trim_end(), expected.trim_end(), "{line}");
    }
    cluster.finish_migration(SLOT);
    let moved = format!("-MOVED {SLOT} {}", address(&cluster["master-2"]));
    assert_eq!(from.ask("GET b").await, moved);
    assert_eq!(to.ask("MGET b {b}2").await, "[1 3]");
    let mut other = Plain::to(&cluster["replica-3-1"]).await?;
    assert_eq!(other.ask("GET b").await, moved);
    let mut replica = Plain::to(&cluster["replica-2-1"]).await?;
    replica.ask("READONLY").await;
    assert_eq!(replica.ask("GET b").await, "1");
    assert!(replica.ask("CLIENT INFO").await.contains(" flags=r "));
    cluster["master-1"].assert_missing("b");
    cluster["replica-1-1"].assert_missing("b");
    Ok(())
}

#[tokio::test]
async fn a_slot_moves_at_once_or_not_at_all() -> Test {
    let cluster = manual(2, 0).await?;
    let mut from = Plain::to(&cluster["master-1"]).await?;
    from.ask("SET b 1").await;
    cluster.begin_migration(SLOT, "master-2");
    cluster.migrate_key("b");
    cluster.cancel_migration(SLOT);
    assert_eq!(from.ask("MGET b {b}none").await, "[1 nil]");
    cluster.move_slot(SLOT, "master-2");
    assert_eq!(cluster.owner_of(SLOT), Some("master-2"));
    cluster["master-2"].assert_get("b", "1");
    assert!(from.ask("GET b").await.starts_with("-MOVED 3300"));
    Ok(())
}

/// A master that loses its last slot becomes a replica of the node that has it now, and so do its replicas.
#[tokio::test]
async fn a_shard_without_slots_joins_the_one_that_took_its_last_slot() -> Test {
    for (is_allowed, by_source) in [(true, true), (true, false), (false, true)] {
        let cluster = manual(2, 1).await?;
        let (mut from, mut to) = (
            Plain::to(&cluster["master-1"]).await?,
            Plain::to(&cluster["master-2"]).await?,
        );
        let mut replica = Plain::to(&cluster["replica-1-1"]).await?;
        if !is_allowed {
            for node in [&mut from, &mut replica] {
                node.ask("CONFIG SET cluster-allow-replica-migration no")
                    .await;
            }
        }
        let target = to.ask("CLUSTER MYID").await;
        if by_source {
            from.ask("CLUSTER DELSLOTSRANGE 0 4 6 8191").await;
        }
        let (by, slots) = match by_source {
            true => (&mut from, 5..=5),
            false => (&mut to, 0..=8_191),
        };
        for slot in slots {
            let assign = format!("CLUSTER SETSLOT {slot} NODE {target}");
            assert_eq!(by.ask(&assign).await, "OK");
        }
        let joined = format!("[slave 127.0.0.1 {} ", cluster["master-2"].addr().port());
        assert_eq!(from.ask("ROLE").await.starts_with(&joined), is_allowed);
        if is_allowed && !by_source {
            assert!(replica.ask("ROLE").await.starts_with(&joined));
        }
    }
    Ok(())
}

/// As `redis-cli --cluster reshard` does it, with commands only.
#[tokio::test]
async fn a_slot_moves_by_commands() -> Test {
    let cluster = manual(2, 0).await?;
    let (mut from, mut to) = (
        Plain::to(&cluster["master-1"]).await?,
        Plain::to(&cluster["master-2"]).await?,
    );
    let (source, target) = (from.ask("CLUSTER MYID").await, to.ask("CLUSTER MYID").await);
    let step = |words: &str, id: &str| format!("CLUSTER SETSLOT {SLOT} {words} {id}");
    assert_eq!(
        from.ask(&step("IMPORTING", &target)).await,
        "-ERR I'm already the owner of hash slot 3300"
    );
    assert_eq!(
        to.ask(&step("MIGRATING", &source)).await,
        "-ERR I'm not the owner of hash slot 3300"
    );
    assert_eq!(
        from.ask(&step("MIGRATING", "unknown")).await,
        "-ERR I don't know about node unknown"
    );
    assert_eq!(to.ask(&step("IMPORTING", &source)).await, "OK");
    assert_eq!(from.ask("SET b 1").await, "OK");
    assert_eq!(from.ask(&step("MIGRATING", &target)).await, "OK");
    let nodes = from.ask("CLUSTER NODES").await;
    assert!(nodes.contains(&format!(" [3300->-{target}]")), "{nodes}");
    let nodes = to.ask("CLUSTER NODES").await;
    assert!(nodes.contains(&format!(" [3300-<-{source}]")), "{nodes}");
    assert_eq!(
        from.ask(&step("NODE", &target)).await,
        "-ERR Can't assign hashslot 3300 to a different node while I still hold keys for this hash slot."
    );
    from.ask("DEL b").await;
    assert_eq!(to.ask(&step("NODE", &target)).await, "OK");
    assert_eq!(from.ask(&step("NODE", &target)).await, "OK");
    assert_eq!(cluster.owner_of(SLOT), Some("master-2"));
    assert_eq!(to.ask("SET b 2").await, "OK");
    assert!(from.ask("SET b 3").await.starts_with("-MOVED 3300"));
    assert!(!from.ask("CLUSTER NODES").await.contains('['));
    Ok(())
}

#[tokio::test]
async fn blocked_clients_and_subscribers_learn_that_the_slot_has_moved() -> Test {
    let cluster = manual(2, 0).await?;
    let moved = format!("-MOVED {SLOT} {}", address(&cluster["master-2"]));
    let mut waiter = Plain::to(&cluster["master-1"]).await?;
    let waiting = tokio::spawn(async move { waiter.ask("BLPOP b 0").await });
    while cluster["master-1"].waiting().is_empty() {
        tokio::task::yield_now().await;
    }
    let mut listener = Plain::to(&cluster["master-1"]).await?;
    let listening = listener.ask("SSUBSCRIBE b").await;
    assert!(!listening.starts_with('-'), "{listening}");
    cluster.move_slot(SLOT, "master-2");
    assert_eq!(waiting.await?, moved);
    let mut other = Plain::to(&cluster["master-1"]).await?;
    assert_eq!(other.ask("PUBSUB SHARDNUMSUB b").await, "[b 0]");
    Ok(())
}

#[tokio::test]
async fn a_key_keeps_its_time_to_live_where_clocks_differ() -> Test {
    let cluster = manual(2, 0).await?;
    cluster["master-2"].clock().jump(Duration::from_secs(60));
    let mut from = Plain::to(&cluster["master-1"]).await?;
    from.ask("SET b 1 PX 5000").await;
    cluster.move_slot(SLOT, "master-2");
    assert_eq!(cluster["master-2"].pttl("b"), Some(Duration::from_secs(5)));
    Ok(())
}

// With this clock the ports are only names, and the same in every run.
#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_history_twice() -> Test {
    let mut histories = Vec::new();
    for _ in 0..2 {
        let servers = Server::builder().seed(7).history(100);
        let builder = Deployment::builder().servers(servers).clock(Clock::Tokio);
        let cluster = builder.cluster(3, 1).await?;
        let mut redis = Plain::to(&cluster["master-1"]).await?;
        for line in ["SET b 1", "GET a", "CLUSTER NODES", "CLUSTER SHARDS"] {
            redis.ask(line).await;
        }
        cluster.begin_migration(SLOT, "master-3");
        redis.ask("GET {b}none").await;
        cluster.finish_migration(SLOT);
        cluster.fail_over_to("replica-3-1");
        redis.ask("CLUSTER SLOTS").await;
        redis.ask("GET b").await;
        let all = cluster
            .nodes()
            .map(|server| format!("{}{}", server.history(), server.snapshot()));
        histories.push(all.collect::<String>());
    }
    assert_eq!(histories[0], histories[1]);
    assert!(histories[0].contains("MOVED 3300"), "{}", histories[0]);
    Ok(())
}
