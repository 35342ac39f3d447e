//! Nodes that become a cluster by themselves. The expected replies are those of redis-server 7.0.15 in cluster mode.

use super::{Test, address};
use crate::line_client::Plain;
use redouble::{Clock, Deployment};

/// Nodes that have not met, and a connection to each.
async fn strangers(count: usize) -> Result<(Deployment, Vec<Plain>), Box<dyn std::error::Error>> {
    let builder = Deployment::builder().clock(Clock::Manual);
    let nodes = builder.cluster_nodes(count).await?;
    let mut connections = Vec::new();
    for node in nodes.nodes() {
        connections.push(Plain::to(node).await?);
    }
    Ok((nodes, connections))
}

fn port(nodes: &Deployment, index: usize) -> String {
    let address = address(&nodes[index]);
    address.replace(':', " ")
}

/// Lines of CLUSTER NODES.
async fn nodes_of(redis: &mut Plain) -> Vec<String> {
    let text = redis.ask("CLUSTER NODES").await;
    text.trim_end().lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_node_alone_knows_itself_and_serves_nothing() -> Test {
    let (nodes, mut redis) = strangers(2).await?;
    let first = &mut redis[0];
    let id = first.ask("CLUSTER MYID").await;
    let (_, port) = address(&nodes[0])
        .rsplit_once(':')
        .map(|(host, port)| (host.to_owned(), port.to_owned()))
        .ok_or("a port")?;
    let bus_port = port.parse::<u32>()? + 10_000;
    let lines = nodes_of(first).await;
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].starts_with(&format!("{id} :{port}@{bus_port} myself,master - 0 ")),
        "{lines:?}"
    );
    let info = first.ask("CLUSTER INFO").await;
    for part in [
        "cluster_state:fail",
        "cluster_known_nodes:1",
        "cluster_current_epoch:0",
        "cluster_slots_assigned:0",
    ] {
        assert!(info.contains(part), "{info}");
    }
    for (line, expected) in [
        ("CLUSTER SLOTS", "[]"),
        ("CLUSTER LINKS", "[]"),
        ("GET b", "-CLUSTERDOWN Hash slot not served"),
        (
            "CLUSTER MEET foo 1",
            "-ERR Invalid node address specified: foo:1",
        ),
        (
            "CLUSTER MEET 127.0.0.1 x",
            "-ERR Invalid TCP base port specified: x",
        ),
        (
            "CLUSTER MEET 127.0.0.1 7000 y",
            "-ERR Invalid TCP bus port specified: y",
        ),
        (
            "CLUSTER MEET 127.0.0.1 60000",
            "-ERR Invalid node address specified: 127.0.0.1:60000",
        ),
        ("CLUSTER FORGET x", "-ERR Unknown node x"),
        (
            &format!("CLUSTER FORGET {id}"),
            "-ERR I tried hard but I can't forget myself...",
        ),
        ("CLUSTER RESET foo", "-ERR syntax error"),
        (
            "CLUSTER SET-CONFIG-EPOCH x",
            "-ERR value is not an integer or out of range",
        ),
        (
            "CLUSTER SET-CONFIG-EPOCH -1",
            "-ERR Invalid config epoch specified: -1",
        ),
        ("CLUSTER SET-CONFIG-EPOCH 5", "OK"),
        (
            "CLUSTER SET-CONFIG-EPOCH 6",
            "-ERR Node config epoch is already non-zero",
        ),
        ("CLUSTER BUMPEPOCH", "STILL 5"),
        ("CLUSTER ADDSLOTS 1 2", "OK"),
        ("CLUSTER FLUSHSLOTS", "OK"),
        ("CLUSTER SAVECONFIG", "OK"),
        (
            "CLUSTER RESET HARD SOFT",
            "-ERR unknown subcommand or wrong number of arguments for 'RESET'. Try CLUSTER HELP.",
        ),
        ("CLUSTER RESET HARD", "OK"),
        ("CLUSTER BUMPEPOCH", "BUMPED 1"),
    ] {
        assert_eq!(first.ask(line).await, expected, "{line}");
    }
    assert_ne!(first.ask("CLUSTER MYID").await, id);
    Ok(())
}

/// A stranger at an address without a node stays in the list until the handshake times out.
#[tokio::test]
async fn a_handshake_without_an_answer_is_given_up() -> Test {
    let (nodes, mut redis) = strangers(1).await?;
    let first = &mut redis[0];
    assert_eq!(first.ask("CLUSTER MEET 127.0.0.1 1").await, "OK");
    let lines = nodes_of(first).await;
    assert_eq!(lines.len(), 2);
    assert!(
        lines[1].ends_with(" 127.0.0.1:1@10001 handshake - 0 0 0 disconnected"),
        "{lines:?}"
    );
    assert!(
        first
            .ask("CLUSTER INFO")
            .await
            .contains("cluster_known_nodes:2")
    );
    nodes.clock().advance(std::time::Duration::from_secs(16));
    assert_eq!(nodes_of(first).await.len(), 1);
    Ok(())
}

#[tokio::test]
async fn nodes_that_meet_know_each_other_and_share_what_they_own() -> Test {
    let (nodes, mut redis) = strangers(3).await?;
    assert_eq!(redis[0].ask("CLUSTER ADDSLOTSRANGE 0 8191").await, "OK");
    assert_eq!(redis[1].ask("CLUSTER ADDSLOTSRANGE 8192 16383").await, "OK");
    let meet = format!("CLUSTER MEET {}", port(&nodes, 1));
    assert_eq!(redis[0].ask(&meet).await, "OK");
    // The third node meets one of them, and so both.
    let meet = format!("CLUSTER MEET {}", port(&nodes, 1));
    assert_eq!(redis[2].ask(&meet).await, "OK");
    let id = redis[1].ask("CLUSTER MYID").await;
    for client in &mut redis {
        assert_eq!(nodes_of(client).await.len(), 3);
        let info = client.ask("CLUSTER INFO").await;
        assert!(
            info.contains("cluster_state:ok") && info.contains("cluster_size:2"),
            "{info}"
        );
    }
    let moved = format!("-MOVED 15495 {}", address(&nodes[1]));
    assert_eq!(redis[0].ask("SET a 1").await, moved);
    assert_eq!(redis[0].ask("SET b 1").await, "OK");
    assert_eq!(redis[2].ask(&format!("CLUSTER REPLICATE {id}")).await, "OK");
    assert_eq!(redis[1].ask("SET a 1").await, "OK");
    assert_eq!(redis[2].ask("READONLY").await, "OK");
    assert_eq!(redis[2].ask("GET a").await, "1");
    let forget = format!("CLUSTER FORGET {id}");
    assert_eq!(redis[2].ask(&forget).await, "-ERR Can't forget my master!");
    Ok(())
}

/// What `redis-cli --cluster del-node` does.
#[tokio::test]
async fn a_forgotten_and_reset_node_is_alone_again() -> Test {
    let (nodes, mut redis) = strangers(3).await?;
    assert_eq!(redis[0].ask("CLUSTER ADDSLOTSRANGE 0 16383").await, "OK");
    for other in 1..3 {
        let meet = format!("CLUSTER MEET {}", port(&nodes, other));
        assert_eq!(redis[0].ask(&meet).await, "OK");
    }
    let owner = redis[0].ask("CLUSTER MYID").await;
    assert_eq!(
        redis[2].ask(&format!("CLUSTER REPLICATE {owner}")).await,
        "OK"
    );
    assert_eq!(redis[0].ask("SET k v").await, "OK");
    let id = redis[2].ask("CLUSTER MYID").await;
    assert_eq!(redis[0].ask(&format!("CLUSTER FORGET {id}")).await, "OK");
    assert_eq!(nodes_of(&mut redis[0]).await.len(), 2);
    assert_eq!(nodes_of(&mut redis[1]).await.len(), 3);
    assert_eq!(redis[1].ask(&format!("CLUSTER FORGET {id}")).await, "OK");
    assert_eq!(nodes_of(&mut redis[1]).await.len(), 2);
    assert_eq!(redis[2].ask("CLUSTER RESET SOFT").await, "OK");
    assert_eq!(nodes_of(&mut redis[2]).await.len(), 1);
    assert_eq!(redis[2].ask("CLUSTER MYID").await, id);
    assert!(redis[2].ask("ROLE").await.starts_with("[master"));
    assert_eq!(redis[2].ask("DBSIZE").await, "0");
    // It can come back.
    let meet = format!("CLUSTER MEET {}", port(&nodes, 0));
    assert_eq!(redis[2].ask(&meet).await, "OK");
    assert_eq!(nodes_of(&mut redis[1]).await.len(), 3);
    let moved = format!("-MOVED 7629 {}", address(&nodes[0]));
    assert_eq!(redis[2].ask("GET k").await, moved);
    Ok(())
}

/// Nodes that were reset can meet again.
#[tokio::test]
async fn a_reset_of_all_nodes_brings_strangers_back() -> Test {
    let (nodes, mut redis) = strangers(2).await?;
    let meet = format!("CLUSTER MEET {}", port(&nodes, 1));
    assert_eq!(redis[0].ask(&meet).await, "OK");
    for client in &mut redis {
        assert_eq!(nodes_of(client).await.len(), 2);
    }
    for client in &mut redis {
        assert_eq!(client.ask("CLUSTER RESET HARD").await, "OK");
        assert_eq!(nodes_of(client).await.len(), 1);
    }
    assert_eq!(redis[0].ask(&meet).await, "OK");
    assert_eq!(nodes_of(&mut redis[1]).await.len(), 2);
    Ok(())
}
