//! Replies of cluster nodes to clients that do not know the owner of a key.

use super::{FIRST, Plain, SECOND, THIRD, Test, address, manual};
use redouble::{Deployment, Server};

#[tokio::test]
async fn a_node_serves_its_slots_and_sends_others_away() -> Test {
    let cluster = manual(3, 0).await?;
    let mut first = Plain::to(&cluster["master-1"]).await?;
    assert_eq!(first.ask(&format!("SET {FIRST} v")).await, "OK");
    let slots = [FIRST, SECOND, THIRD].map(Deployment::slot_of);
    for (key, slot, owner) in [
        (SECOND, slots[1], "master-2"),
        (THIRD, slots[2], "master-3"),
    ] {
        assert_eq!(cluster.owner_of(slot), Some(owner));
        let sent = format!("-MOVED {slot} {}", address(&cluster[owner]));
        for line in [
            "GET",
            "SET {} v",
            "WATCH",
            "OBJECT ENCODING",
            "SPUBLISH {} m",
        ] {
            let line = if line.contains("{}") {
                line.replace("{}", key)
            } else {
                format!("{line} {key}")
            };
            assert_eq!(first.ask(&line).await, sent, "{line}");
        }
    }
    let crossed = "-CROSSSLOT Keys in request don't hash to the same slot";
    assert_eq!(first.ask("MGET b f").await, crossed);
    assert_eq!(first.ask("DEL b a").await, crossed);
    assert_eq!(first.ask("MGET {b}1 {b}2").await, "[nil nil]");
    for (line, expected) in [
        ("PING", "PONG"),
        ("SELECT 0", "OK"),
        ("SELECT 1", "-ERR SELECT is not allowed in cluster mode"),
        ("SWAPDB 0 1", "-ERR SWAPDB is not allowed in cluster mode"),
        ("MOVE b 1", "-ERR MOVE is not allowed in cluster mode"),
        (
            "COPY b {b}2 DB 1",
            "-ERR Copying to another database is not allowed in cluster mode",
        ),
        (
            "SORT {b}l BY w_*",
            "-ERR BY option of SORT denied in Cluster mode.",
        ),
        (
            "REPLICAOF NO ONE",
            "-ERR REPLICAOF not allowed in cluster mode.",
        ),
        ("CLUSTER KEYSLOT foo{bar}x", "5061"),
        ("CLUSTER COUNTKEYSINSLOT 3300", "1"),
        ("CLUSTER GETKEYSINSLOT 3300 10", "[b]"),
        ("CONFIG GET cluster-enabled", "[cluster-enabled yes]"),
    ] {
        assert_eq!(first.ask(line).await, expected, "{line}");
    }
    let keys = "-ERR CLUSTER RESET can't be called with master nodes containing keys";
    assert_eq!(first.ask("CLUSTER RESET").await, keys);
    // A slot without an owner keeps its keys, as on a real node.
    for (line, expected) in [
        ("CLUSTER DELSLOTS 3300", "OK"),
        ("GET b", "-CLUSTERDOWN Hash slot not served"),
        ("CLUSTER COUNTKEYSINSLOT 3300", "1"),
        ("CLUSTER ADDSLOTS 3300", "OK"),
        ("EXISTS b", "1"),
    ] {
        assert_eq!(first.ask(line).await, expected, "{line}");
    }
    Ok(())
}

#[tokio::test]
async fn transactions_keep_to_one_slot() -> Test {
    let cluster = manual(3, 0).await?;
    let mut redis = Plain::to(&cluster["master-1"]).await?;
    let moved = format!("-MOVED 15495 {}", address(&cluster["master-3"]));
    for (line, expected) in [
        ("MULTI", "OK"),
        ("SET b 1", "QUEUED"),
        ("SET a 1", &*moved),
        (
            "EXEC",
            "-EXECABORT Transaction discarded because of previous errors.",
        ),
        ("MULTI", "OK"),
        ("SET b 1", "QUEUED"),
        ("INCR f", "QUEUED"),
        (
            "EXEC",
            "-CROSSSLOT Keys in request don't hash to the same slot",
        ),
        ("EXEC", "-ERR EXEC without MULTI"),
        ("EXISTS b", "0"),
        ("MULTI", "OK"),
        ("SET b 1", "QUEUED"),
        ("INCR b", "QUEUED"),
        ("EXEC", "[OK 2]"),
    ] {
        assert_eq!(redis.ask(line).await, expected, "{line}");
    }
    Ok(())
}

#[cfg(feature = "script")]
#[tokio::test]
async fn scripts_reach_local_keys_only() -> Test {
    let cluster = manual(3, 0).await?;
    let mut redis = Plain::to(&cluster["master-1"]).await?;
    redis.ask("SET b 1").await;
    let foreign = "Script attempted to access a non local key in a cluster node script: ";
    let crossed = "Script attempted to access keys that do not hash to the same slot script: ";
    for (line, expected) in [
        ("EVAL \"return redis.call('get','b')\" 0", "1"),
        ("EVAL \"return redis.call('get','a')\" 0", foreign),
        ("EVAL \"return redis.call('mget','b','f')\" 0", foreign),
        (
            "EVAL \"return redis.call('get','b')\" 2 b f",
            "-CROSSSLOT Keys in request don't hash to the same slot",
        ),
        // A script without a shebang line may access any slot of the node.
        (
            "EVAL \"redis.call('get','b') return redis.call('exists','f')\" 0",
            "0",
        ),
        (
            "EVAL \"#!lua\nredis.call('get','b') return redis.call('exists','f')\" 0",
            crossed,
        ),
        (
            "EVAL \"#!lua\nreturn redis.call('exists','f')\" 1 b",
            crossed,
        ),
        (
            "EVAL \"#!lua flags=allow-cross-slot-keys\nreturn redis.call('exists','f')\" 1 b",
            "0",
        ),
        (
            "EVAL \"#!lua flags=no-cluster\nreturn 1\" 0",
            "-ERR Can not run script on cluster, 'no-cluster' flag is set.",
        ),
        (
            "EVAL \"return redis.call('select',1)\" 0",
            "SELECT is not allowed in cluster mode",
        ),
    ] {
        let answer = redis.ask(line).await;
        assert!(answer.contains(expected), "{line}: {answer}");
    }
    let moved = redis.ask("EVAL \"return 1\" 1 a").await;
    assert!(moved.starts_with("-MOVED 15495 "), "{moved}");
    Ok(())
}

#[tokio::test]
async fn replicas_answer_reads_after_readonly() -> Test {
    let cluster = manual(2, 1).await?;
    let mut master = Plain::to(&cluster["master-1"]).await?;
    let mut replica = Plain::to(&cluster["replica-1-1"]).await?;
    master.ask("SET b v").await;
    let moved = format!("-MOVED 3300 {}", address(&cluster["master-1"]));
    for (line, expected) in [
        ("GET b", &*moved),
        ("READONLY", "OK"),
        ("GET b", "v"),
        ("SET b w", &*moved),
        ("MULTI", "OK"),
        ("GET b", "QUEUED"),
        ("EXEC", "[v]"),
        (
            "CLUSTER SETSLOT 5 STABLE",
            "-ERR Please use SETSLOT only with masters.",
        ),
        ("READWRITE", "OK"),
        ("GET b", &*moved),
    ] {
        assert_eq!(replica.ask(line).await, expected, "{line}");
    }
    Ok(())
}

#[tokio::test]
async fn every_node_describes_the_same_cluster() -> Test {
    let cluster = manual(3, 1).await?;
    let mut ids = Vec::new();
    for name in cluster.names() {
        let mut redis = Plain::to(&cluster[name]).await?;
        ids.push((name, redis.ask("CLUSTER MYID").await));
    }
    let id = |of: &str| {
        let found = ids.iter().find(|(name, _)| *name == of);
        found.map_or("", |(_, id)| id)
    };
    let port = |of: &str| cluster[of].addr().port();
    let shares = [(0, 5460), (5461, 10922), (10923, 16383)];
    let slots: Vec<String> = shares
        .iter()
        .enumerate()
        .map(|(index, (first, last))| {
            let (master, replica) = (
                format!("master-{}", index + 1),
                format!("replica-{}-1", index + 1),
            );
            format!(
                "[{first} {last} [127.0.0.1 {} {} []] [127.0.0.1 {} {} []]]",
                port(&master),
                id(&master),
                port(&replica),
                id(&replica)
            )
        })
        .collect();
    let slots = format!("[{}]", slots.join(" "));
    for (name, own) in &ids {
        let mut redis = Plain::to(&cluster[*name]).await?;
        assert_eq!(redis.ask("CLUSTER SLOTS").await, slots, "{name}");
        let info = redis.ask("CLUSTER INFO").await;
        for field in [
            "cluster_state:ok",
            "cluster_slots_ok:16384",
            "cluster_known_nodes:6",
            "cluster_size:3",
        ] {
            assert!(info.contains(field), "{info}");
        }
        let nodes = redis.ask("CLUSTER NODES").await;
        assert_eq!(nodes.lines().count(), 6, "{nodes}");
        let myself = nodes.lines().find(|line| line.contains("myself"));
        assert!(myself.is_some_and(|line| line.starts_with(own)), "{nodes}");
        assert!(redis.ask("HELLO").await.contains("mode cluster"));
        assert!(redis.ask("INFO").await.contains("redis_mode:cluster"));
        let shards = redis.ask("CLUSTER SHARDS").await;
        assert_eq!(shards.matches(" health online").count(), 6, "{shards}");
    }
    Ok(())
}

/// The replies of redis-server 7.0.15 with the same parameters.
#[tokio::test]
async fn a_node_announces_another_place_of_itself() -> Test {
    let cluster = manual(2, 0).await?;
    let mut first = Plain::to(&cluster["master-1"]).await?;
    let mut second = Plain::to(&cluster["master-2"]).await?;
    for (name, value) in [
        ("ip", "10.1.2.3"),
        ("port", "7777"),
        ("bus-port", "8888"),
        ("hostname", "two.example"),
    ] {
        let line = format!("CONFIG SET cluster-announce-{name} {value}");
        assert_eq!(second.ask(&line).await, "OK");
    }
    let slot = Deployment::slot_of(THIRD);
    let get = format!("GET {THIRD}");
    assert_eq!(
        first.ask(&get).await,
        format!("-MOVED {slot} 10.1.2.3:7777")
    );
    for node in [&mut first, &mut second] {
        let nodes = node.ask("CLUSTER NODES").await;
        assert!(
            nodes.contains(" 10.1.2.3:7777@8888,two.example "),
            "{nodes}"
        );
        let slots = node.ask("CLUSTER SLOTS").await;
        assert!(slots.contains("[10.1.2.3 7777 "), "{slots}");
        assert!(slots.contains(" [hostname two.example]]"), "{slots}");
        let shards = node.ask("CLUSTER SHARDS").await;
        let place = "port 7777 ip 10.1.2.3 endpoint 10.1.2.3 hostname two.example role master";
        assert!(shards.contains(place), "{shards}");
    }
    let own = address(&cluster["master-1"]);
    for (kind, moved, slots) in [
        ("hostname", "two.example:7777", "[two.example 7777 "),
        ("unknown-endpoint", ":7777", "[nil 7777 "),
    ] {
        let line = format!("CONFIG SET cluster-preferred-endpoint-type {kind}");
        assert_eq!(first.ask(&line).await, "OK");
        assert_eq!(first.ask(&get).await, format!("-MOVED {slot} {moved}"));
        let reply = first.ask("CLUSTER SLOTS").await;
        assert!(reply.contains(slots), "{reply}");
        assert!(reply.contains("[ip 10.1.2.3"), "{reply}");
        // The other node has not been told to name hosts, and master-1 has no name.
        let get = second.ask(&format!("GET {FIRST}")).await;
        assert!(get.ends_with(&own), "{get}");
    }
    let refused = first.ask("CONFIG SET cluster-announce-hostname a_b").await;
    assert!(
        refused.ends_with("alphanumeric characters, hyphens or dots"),
        "{refused}"
    );
    Ok(())
}

#[tokio::test]
async fn a_message_reaches_listeners_of_all_nodes_and_a_sharded_one_those_of_its_shard() -> Test {
    let cluster = manual(2, 1).await?;
    let mut publisher = Plain::to(&cluster["master-1"]).await?;
    let sharded = Plain::to(&cluster["master-2"])
        .await?
        .ask("SSUBSCRIBE b")
        .await;
    assert!(sharded.starts_with("-MOVED 3300"), "{sharded}");
    let url = |name: &str| redis::Client::open(cluster[name].url());
    let mut listeners = Vec::new();
    for name in ["master-1", "replica-1-1", "master-2", "replica-2-1"] {
        let mut listener = url(name)?.get_async_pubsub().await?;
        listener.subscribe("news").await?;
        listeners.push(listener);
    }
    // Only the subscribers of the same node are counted.
    assert_eq!(publisher.ask("PUBLISH news hello").await, "1");
    for listener in &mut listeners {
        let message = next(listener).await;
        assert_eq!(message.get_payload::<String>()?, "hello");
    }
    assert_eq!(publisher.ask("SPUBLISH b hello").await, "0");
    Ok(())
}

async fn next(listener: &mut redis::aio::PubSub) -> redis::Msg {
    use futures_util::StreamExt as _;
    listener.on_message().next().await.expect("a message")
}

#[tokio::test]
async fn a_plain_server_says_that_it_is_none_of_a_cluster() -> Test {
    let server = Server::start().await?;
    let mut redis = Plain::to(&server).await?;
    for line in [
        "CLUSTER INFO",
        "CLUSTER RESET",
        "ASKING",
        "READONLY",
        "READWRITE",
    ] {
        assert_eq!(
            redis.ask(line).await,
            "-ERR This instance has cluster support disabled",
            "{line}"
        );
    }
    assert_eq!(redis.ask("MSET a 1 b 2").await, "OK");
    Ok(())
}
