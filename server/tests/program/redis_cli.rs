//! `redis-cli --cluster`, which makes, checks and changes a cluster of nodes that have not met.

use super::control::Group;
use super::languages::is_there;
use super::{Error, Test};
use std::process::Command;

/// Runs `redis-cli`; its output, if it succeeds.
fn cli(args: &[&str]) -> Result<String, Error> {
    let output = Command::new("redis-cli").args(args).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}{errors}");
    Ok(said.trim_end().to_owned())
}

/// Number of lines with this word in what `redis-cli --cluster check` says of a sound cluster.
fn checked(node: &str, word: &str) -> Result<usize, Error> {
    let said = cli(&["--cluster", "check", node])?;
    assert!(said.contains("All 16384 slots covered"), "{said}");
    assert!(said.contains("agree about slots configuration"), "{said}");
    Ok(said.lines().filter(|line| line.contains(word)).count())
}

#[test]
fn redis_cli_makes_and_changes_a_cluster() -> Test {
    if !is_there("redis-cli", true)? {
        return Ok(());
    }
    let group = Group::start(&["--topology", "cluster-nodes:7"], 7)?;
    let ports = (1..=7).map(|number| group.port(&format!("node-{number}")));
    let ports = ports.collect::<Result<Vec<u16>, Error>>()?;
    let nodes: Vec<String> = ports
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    let id = |index: usize| cli(&["-p", &ports[index].to_string(), "CLUSTER", "MYID"]);
    let mut create = vec!["--cluster", "create"];
    create.extend(nodes[..6].iter().map(String::as_str));
    create.extend(["--cluster-replicas", "1", "--cluster-yes"]);
    let said = cli(&create)?;
    assert!(said.contains("All 16384 slots covered"), "{said}");
    assert_eq!(checked(&nodes[5], "replicates")?, 3);
    let port = ports[0].to_string();
    for key in ["a", "b", "c"] {
        assert_eq!(cli(&["-c", "-p", &port, "SET", key, key])?, "OK");
    }
    let (from, to) = (id(0)?, id(1)?);
    cli(&[
        "--cluster",
        "reshard",
        &nodes[0],
        "--cluster-from",
        &from,
        "--cluster-to",
        &to,
        "--cluster-slots",
        "200",
        "--cluster-yes",
    ])?;
    assert_eq!(checked(&nodes[0], "(5662 slots) master")?, 1);
    cli(&["--cluster", "add-node", &nodes[6], &nodes[0]])?;
    cli(&[
        "--cluster",
        "rebalance",
        &nodes[0],
        "--cluster-use-empty-masters",
    ])?;
    assert_eq!(checked(&nodes[6], "(4096 slots) master")?, 4);
    let removed = id(5)?;
    cli(&["--cluster", "del-node", &nodes[0], &removed])?;
    assert_eq!(checked(&nodes[0], "replicates")?, 2);
    cli(&[
        "--cluster",
        "add-node",
        &nodes[5],
        &nodes[0],
        "--cluster-slave",
    ])?;
    assert_eq!(checked(&nodes[5], "replicates")?, 3);
    for key in ["a", "b", "c"] {
        assert_eq!(cli(&["-c", "-p", &port, "GET", key])?, key);
    }
    Ok(())
}
