//! Wire control: what clients of other languages do with `REDOUBLE.*`.

use super::{Error, PATIENCE, Program, Test, ask, program, serve, start};
use redis::{Connection, Value};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// The lines that the program prints when it is ready: the names of its nodes with their
/// connections, and the control port.
pub(super) struct Group {
    _program: Program,
    nodes: Vec<(String, u16)>,
    pub(super) control: Option<u16>,
}

impl Group {
    pub(super) fn start(args: &[&str], lines: usize) -> Result<Self, Error> {
        let mut child = Program(program(&[&["serve"], args].concat()).spawn()?);
        let stdout = child.0.stdout.take().ok_or("no stdout")?;
        let (mut nodes, mut control) = (Vec::new(), None);
        for line in BufReader::new(stdout).lines().take(lines) {
            let line = line?;
            let words: Vec<_> = line.split(' ').collect();
            let port = |url: &str| -> Result<u16, Error> {
                let port = url.strip_prefix("redis://127.0.0.1:");
                Ok(port.ok_or_else(|| url.to_owned())?.parse()?)
            };
            match words[..] {
                ["ready", name, url] => nodes.push((name.to_owned(), port(url)?)),
                ["ready", url] => nodes.push(("node-1".to_owned(), port(url)?)),
                ["control", url] => control = Some(port(url)?),
                _ => return Err(line.into()),
            }
        }
        Ok(Self {
            _program: child,
            nodes,
            control,
        })
    }

    pub(super) fn port(&self, name: &str) -> Result<u16, Error> {
        let mut nodes = self.nodes.iter();
        let (_, port) = nodes.find(|(of, _)| of == name).ok_or("such a node")?;
        Ok(*port)
    }

    fn node(&self, name: &str) -> Result<Connection, Error> {
        connect(self.port(name)?)
    }

    fn control(&self) -> Result<Connection, Error> {
        connect(self.control.ok_or("a control port")?)
    }
}

fn connect(port: u16) -> Result<Connection, Error> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
    let connection = client.get_connection()?;
    connection.set_read_timeout(Some(PATIENCE))?;
    Ok(connection)
}

fn say(redis: &mut Connection, line: &str) -> redis::RedisResult<Value> {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap_or_default());
    for word in words {
        command.arg(word);
    }
    command.query(redis)
}

/// The reply as text.
fn text(redis: &mut Connection, line: &str) -> String {
    match say(redis, line) {
        Ok(value) => format!("{value:?}"),
        Err(error) => error.to_string(),
    }
}

fn int(redis: &mut Connection, line: &str) -> Result<i64, Error> {
    Ok(redis::from_redis_value(say(redis, line)?)?)
}

#[track_caller]
fn check(redis: &mut Connection, line: &str, answer: &str) {
    let found = text(redis, line);
    assert!(found.contains(answer), "{line}: {found}, not {answer}");
}

#[test]
fn without_control_the_commands_are_unknown_and_unlisted() -> Test {
    let off = "-ERR REDOUBLE.* is not enabled on this port: start the server with --control, or use its control port\r\n";
    let (_child, port) = serve(&[])?;
    ask(port, "REDOUBLE.CLOCK NOW\r\n", off)?;
    ask(port, "redouble.nonsense\r\n", off)?;
    ask(port, "COMMAND INFO redouble.clock\r\n", "*1\r\n$-1\r\n")?;
    let count = int(&mut connect(port)?, "COMMAND COUNT")?;
    let (_child, port) = serve(&["--control"])?;
    assert_eq!(int(&mut connect(port)?, "COMMAND COUNT")?, count);
    ask(port, "COMMAND INFO redouble.clock\r\n", "*1\r\n$-1\r\n")?;
    let mut redis = connect(port)?;
    check(
        &mut redis,
        "REDOUBLE.TIME",
        "unknown command REDOUBLE.TIME, expected one of CLOCK, FAULT",
    );
    let listed = text(&mut redis, "COMMAND LIST");
    assert!(!listed.to_lowercase().contains("redouble."), "{listed}");
    let documented = text(&mut redis, "COMMAND DOCS");
    assert!(!documented.to_lowercase().contains("redouble."));
    let names = redouble::command_names();
    assert!(!names.iter().any(|name| name.contains("redouble")));
    Ok(())
}

#[test]
fn unauthenticated_clients_control_nothing() -> Test {
    let (_child, port) = serve(&["--control", "--requirepass", "secret"])?;
    let denied = "-NOAUTH Authentication required.\r\n";
    ask(port, "REDOUBLE.RESET\r\n", denied)?;
    ask(port, "AUTH secret\r\nREDOUBLE.RESET\r\n", "+OK\r\n+OK\r\n")?;
    let group = Group::start(&["--control-port", "0", "--requirepass", "secret"], 2)?;
    ask(group.control.ok_or("a port")?, "REDOUBLE.RESET\r\n", denied)
}

#[test]
fn every_command_has_help() -> Test {
    let (_child, port) = serve(&["--control"])?;
    let mut redis = connect(port)?;
    for family in ["CLOCK", "FAULT", "NODE", "HISTORY", "RESET"] {
        check(
            &mut redis,
            &format!("REDOUBLE.{family} HELP"),
            "Prints this.",
        );
        if family != "RESET" && family != "HISTORY" {
            check(
                &mut redis,
                &format!("redouble.{family} nonsense"),
                &format!("see REDOUBLE.{family} HELP"),
            );
        }
    }
    let help = text(&mut redis, "REDOUBLE.FAULT HELP");
    for fault in redouble::fault::FAULTS {
        let words = text(&mut redis, &format!("REDOUBLE.FAULT HELP {}", fault.name));
        assert!(words.contains(fault.summary), "{words}");
        let is_rule = fault.placement != redouble::fault::Placement::Node;
        assert_eq!(help.contains(fault.name), is_rule, "{}: {help}", fault.name);
    }
    Ok(())
}

#[test]
fn the_clock_is_moved_and_bent() -> Test {
    let (_child, port) = serve(&["--control", "--clock", "manual"])?;
    let mut redis = connect(port)?;
    let begun = int(&mut redis, "REDOUBLE.CLOCK NOW")?;
    say(&mut redis, "SET lease mine PX 30000")?;
    assert_eq!(
        int(&mut redis, "REDOUBLE.CLOCK ADVANCE 30000")?,
        begun + 30_000
    );
    assert_eq!(int(&mut redis, "EXISTS lease")?, 1);
    say(&mut redis, "REDOUBLE.CLOCK ADVANCE 1")?;
    assert_eq!(int(&mut redis, "EXISTS lease")?, 0);
    say(&mut redis, "SET lease mine PX 30000")?;
    assert_eq!(
        int(&mut redis, "REDOUBLE.CLOCK JUMP -10000")?,
        begun + 20_001
    );
    assert_eq!(int(&mut redis, "PTTL lease")?, 40_000);
    say(&mut redis, "REDOUBLE.CLOCK DRIFT 100000")?;
    say(&mut redis, "REDOUBLE.CLOCK ADVANCE 10000")?;
    assert_eq!(int(&mut redis, "PTTL lease")?, 29_000);
    say(&mut redis, "REDOUBLE.CLOCK FREEZE")?;
    say(&mut redis, "REDOUBLE.CLOCK ADVANCE 10000")?;
    assert_eq!(int(&mut redis, "PTTL lease")?, 29_000);
    let state = text(&mut redis, "REDOUBLE.CLOCK STATE");
    for part in ["manual", "int(-19000000)", "int(100000)", "int(1)"] {
        assert!(state.contains(part), "{part}: {state}");
    }
    say(&mut redis, "REDOUBLE.CLOCK THAW")?;
    assert_eq!(
        int(&mut redis, &format!("REDOUBLE.CLOCK SET {begun}"))?,
        begun
    );
    for (line, why) in [
        (
            "REDOUBLE.CLOCK ADVANCE",
            "expected milliseconds, found the end",
        ),
        (
            "REDOUBLE.CLOCK ADVANCE -1",
            "expected milliseconds, found '-1'",
        ),
        ("REDOUBLE.CLOCK ADVANCE 1 2", "expected the end, found '2'"),
        ("REDOUBLE.CLOCK JUMP 9999999999999", "more than a century"),
        (
            "REDOUBLE.CLOCK ON node-9 NOW",
            "unknown node 'node-9', expected one of node-1",
        ),
    ] {
        check(&mut redis, line, why);
    }
    let (_child, port) = serve(&["--control"])?;
    check(
        &mut connect(port)?,
        "REDOUBLE.CLOCK ADVANCE 1",
        "--clock manual",
    );
    Ok(())
}

/// A lost reply, written as words. Removing the rule leaves no effect behind.
#[test]
fn faults_are_added_counted_and_removed() -> Test {
    let (_child, port) = serve(&["--control"])?;
    let mut redis = connect(port)?;
    let id = int(
        &mut redis,
        "REDOUBLE.FAULT ADD disconnect DIRECTION reply COMMAND SET KEY coupon:* NTH 1",
    )?;
    let mut other = connect(port)?;
    assert!(
        say(&mut other, "SET coupon:7 me")
            .unwrap_err()
            .is_connection_dropped()
    );
    assert_eq!(text(&mut redis, "GET coupon:7"), "bulk-string('\"me\"')");
    assert_eq!(int(&mut redis, &format!("REDOUBLE.FAULT FIRED {id}"))?, 1);
    let listed = text(&mut redis, "REDOUBLE.FAULT LIST");
    assert!(
        listed.contains("disconnect DIRECTION reply COMMAND SET KEY coupon:* NTH 1"),
        "{listed}"
    );
    // No rule applies to control requests.
    let all = int(&mut redis, "REDOUBLE.FAULT ADD half_open")?;
    assert_eq!(
        int(&mut redis, &format!("REDOUBLE.FAULT DEL {all} {id} 99"))?,
        2
    );
    assert_eq!(text(&mut redis, "REDOUBLE.FAULT LIST"), "array([])");
    assert_eq!(int(&mut redis, "DBSIZE")?, 1);
    say(
        &mut redis,
        "REDOUBLE.FAULT ADD delay 60000 DIRECTION request",
    )?;
    assert_eq!(int(&mut redis, "REDOUBLE.FAULT CLEAR")?, 1);
    assert_eq!(int(&mut redis, "DBSIZE")?, 1);
    for (line, why) in [
        ("REDOUBLE.FAULT ADD flood", "there is no fault 'flood'"),
        ("REDOUBLE.FAULT ADD pause", "a fault of the node"),
        (
            "REDOUBLE.FAULT ADD delay soon",
            "expected milliseconds, found 'soon'",
        ),
        ("REDOUBLE.FAULT FIRED 99", "there is no fault 99"),
        ("REDOUBLE.FAULT DEL x", "expected an id, found 'x'"),
    ] {
        check(&mut redis, line, why);
    }
    Ok(())
}

#[test]
fn a_paused_node_still_accepts_control_requests_in_order() -> Test {
    let (_child, port) = serve(&["--control"])?;
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // One batch: the ordinary request waits for the control request before it, and so do those
    // behind it.
    stream.write_all(
        b"PING\r\nREDOUBLE.NODE PAUSE node-1\r\nREDOUBLE.CLOCK JUMP x\r\nECHO held\r\n",
    )?;
    let expected =
        "+PONG\r\n+OK\r\n-ERR expected milliseconds, found 'x'; see REDOUBLE.CLOCK HELP\r\n";
    let mut found = vec![0; expected.len()];
    stream.read_exact(&mut found)?;
    assert_eq!(String::from_utf8_lossy(&found), expected);
    stream.set_read_timeout(Some(std::time::Duration::from_millis(50)))?;
    assert!(stream.read(&mut [0]).is_err(), "it is paused");
    ask(
        port,
        "REDOUBLE.NODE RESUME node-1\r\nPING\r\n",
        "+OK\r\n+PONG\r\n",
    )?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut held = [0; 10];
    stream.read_exact(&mut held)?;
    assert_eq!(&held, b"$4\r\nheld\r\n");
    Ok(())
}

#[test]
fn a_node_crashes_and_comes_back() -> Test {
    let (_child, port) = serve(&["--control", "--persistence", "always"])?;
    let mut redis = connect(port)?;
    say(&mut redis, "SET a 1")?;
    say(&mut redis, "SET b 2")?;
    check(
        &mut redis,
        "REDOUBLE.NODE CRASH node-1",
        "no other node could receive the RESTART",
    );
    check(
        &mut redis,
        "REDOUBLE.NODE CRASH node-1 LAST 1 RESTART 0",
        "ok",
    );
    assert!(say(&mut redis, "PING").is_err(), "connections end with it");
    let mut redis = connect(port)?;
    assert_eq!(text(&mut redis, "KEYS *"), "array([bulk-string('\"a\"')])");

    let group = Group::start(&["--control-port", "0"], 2)?;
    let (mut redis, mut control) = (group.node("node-1")?, group.control()?);
    check(
        &mut redis,
        "REDOUBLE.CLOCK NOW",
        "REDOUBLE.* is not enabled on this port",
    );
    check(
        &mut control,
        "SET k v",
        "this is a control port: it holds no data",
    );
    check(&mut control, "PING", "PONG");
    say(&mut redis, "SET k v")?;
    check(
        &mut control,
        "REDOUBLE.NODE CRASH node-1 LAST 1",
        "--persistence",
    );
    say(&mut control, "REDOUBLE.NODE CRASH node-1")?;
    check(&mut control, "REDOUBLE.NODE LIST", "crashed");
    check(
        &mut control,
        "REDOUBLE.NODE PAUSE node-1",
        "node-1 has crashed: RESTART it first",
    );
    assert!(say(&mut redis, "PING").is_err());
    say(&mut control, "REDOUBLE.NODE RESTART node-1")?;
    assert_eq!(int(&mut group.node("node-1")?, "DBSIZE")?, 0);
    Ok(())
}

#[test]
fn keys_are_evicted_and_scripts_forgotten() -> Test {
    let (_child, port) = serve(&["--control"])?;
    let mut redis = connect(port)?;
    say(&mut redis, "SET k v")?;
    assert_eq!(int(&mut redis, "REDOUBLE.NODE EVICT node-1 k")?, 1);
    assert_eq!(int(&mut redis, "REDOUBLE.NODE EVICT node-1 k DB 15")?, 0);
    check(
        &mut redis,
        "REDOUBLE.NODE EVICT node-1 k DB 16",
        "there is no database 16",
    );
    assert_eq!(int(&mut redis, "EXISTS k")?, 0);
    let sha: String = redis::cmd("SCRIPT")
        .arg("LOAD")
        .arg("return 1")
        .query(&mut redis)?;
    say(&mut redis, "REDOUBLE.NODE FLUSHSCRIPTS node-1")?;
    check(&mut redis, &format!("EVALSHA {sha} 0"), "NoScript");
    check(
        &mut redis,
        "REDOUBLE.NODE PROMOTE node-1",
        "this server is not part of a deployment",
    );
    Ok(())
}

#[test]
fn the_history_contains_commands_and_no_control_requests() -> Test {
    let (_child, port) = serve(&["--control"])?;
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"SET k v\r\nREDOUBLE.CLOCK NOW\r\nLPUSH k v\r\nBLPOP empty 0\r\n")?;
    let mut redis = connect(port)?;
    let entries: Vec<(i64, i64, Vec<String>, Option<String>)> = loop {
        let all = redis::cmd("REDOUBLE.HISTORY").query(&mut redis)?;
        let all: Vec<(i64, i64, Vec<String>, Option<String>)> = all;
        if all.iter().any(|(_, _, command, _)| command[0] == "BLPOP") {
            break all;
        }
    };
    let told: Vec<_> = entries
        .iter()
        .filter(|(_, _, command, _)| command[0] != "CLIENT")
        .map(|(_, _, command, reply)| (command.join(" "), reply.clone()))
        .collect();
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    assert_eq!(
        told,
        [
            ("SET k v".to_owned(), Some("+OK\r\n".to_owned())),
            ("LPUSH k v".to_owned(), Some(wrong.to_owned())),
            ("BLPOP empty 0".to_owned(), None),
        ]
    );
    assert!(entries[0].0 > 1_600_000_000_000_000 && entries[0].1 > 0);
    let latest: Vec<Value> = redis::cmd("REDOUBLE.HISTORY").arg(1).query(&mut redis)?;
    assert_eq!(latest.len(), 1);
    Ok(())
}

#[test]
fn a_reset_leaves_nothing_but_connections() -> Test {
    let (_child, port) = serve(&["--control", "--clock", "manual", "--persistence", "always"])?;
    let (mut redis, mut other) = (connect(port)?, connect(port)?);
    let begun = int(&mut redis, "REDOUBLE.CLOCK NOW")?;
    let fresh = text(&mut redis, "INFO commandstats");
    for line in [
        "SET k v",
        "CONFIG SET notify-keyspace-events KEA",
        "SCRIPT LOAD return",
        "REDOUBLE.CLOCK JUMP 5000",
        "REDOUBLE.CLOCK FREEZE",
        "REDOUBLE.NODE LAZYEXPIRY node-1 ON",
        "REDOUBLE.FAULT ADD half_open COMMAND GET",
        "REDOUBLE.NODE PAUSE node-1",
        "REDOUBLE.RESET",
    ] {
        say(&mut redis, line)?;
    }
    assert_eq!(text(&mut redis, "REDOUBLE.HISTORY"), "array([])");
    assert_eq!(text(&mut redis, "REDOUBLE.FAULT LIST"), "array([])");
    assert_eq!(int(&mut redis, "REDOUBLE.CLOCK NOW")?, begun);
    check(&mut redis, "REDOUBLE.NODE LIST", "up");
    assert_eq!(text(&mut redis, "GET k"), "nil");
    check(
        &mut redis,
        "CONFIG GET notify-keyspace-events",
        "bulk-string('\"\"')",
    );
    assert!(fresh.len() < 200, "{fresh}");
    say(&mut other, "SET after reset")?;
    say(&mut redis, "REDOUBLE.NODE CRASH node-1 RESTART 0")?;
    assert_eq!(
        text(&mut connect(port)?, "KEYS *"),
        "array([bulk-string('\"after\"')])"
    );
    Ok(())
}

/// A failover that loses a lock, over the wire.
#[test]
fn a_topology_is_named_and_controlled() -> Test {
    let args = [
        "--topology",
        "replicated:1+2",
        "--control",
        "--clock",
        "manual",
    ];
    let group = Group::start(&args, 3)?;
    let names: Vec<_> = group.nodes.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["master", "replica-1", "replica-2"]);
    let (mut master, mut replica) = (group.node("master")?, group.node("replica-1")?);
    say(&mut master, "SET old 1")?;
    assert_eq!(int(&mut replica, "EXISTS old")?, 1);
    say(&mut master, "REDOUBLE.NODE LAG replica-1 1000")?;
    say(&mut master, "SET lock first NX")?;
    assert_eq!(int(&mut replica, "EXISTS lock")?, 0);
    let listed = text(&mut master, "REDOUBLE.NODE LIST");
    for part in ["lag_ms", "int(1000)", "follows", "replica-2"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    say(&mut master, "REDOUBLE.NODE CUT replica-2")?;
    check(
        &mut master,
        "REDOUBLE.NODE CUT master",
        "master is no replica",
    );
    say(&mut master, "REDOUBLE.NODE PROMOTE replica-1")?;
    check(&mut replica, "SET lock second NX", "ok");
    say(&mut replica, "REDOUBLE.CLOCK ON replica-2 JUMP 7000")?;
    let mut second = group.node("replica-2")?;
    let ahead = int(&mut second, "REDOUBLE.CLOCK NOW")? - int(&mut master, "REDOUBLE.CLOCK NOW")?;
    assert_eq!(ahead, 7_000);
    // Any node accepts the reset: all nodes restart, and follow their original masters.
    say(&mut replica, "REDOUBLE.RESET")?;
    assert_eq!(int(&mut replica, "DBSIZE")?, 0);
    say(&mut master, "SET new 1")?;
    for name in ["replica-1", "replica-2"] {
        let mut replica = group.node(name)?;
        assert_eq!(
            text(&mut replica, "KEYS *"),
            "array([bulk-string('\"new\"')])"
        );
        check(&mut replica, "SET x y", "ReadOnly");
    }
    // A node that receives CRASH for itself replies first. Another node restarts it.
    say(&mut master, "REDOUBLE.NODE CRASH master")?;
    say(&mut replica, "REDOUBLE.NODE FAILOVER replica-1")?;
    say(&mut replica, "REDOUBLE.NODE RESTART master")?;
    check(&mut group.node("master")?, "ROLE", "slave");
    Ok(())
}

#[test]
fn a_control_port_of_several_nodes_needs_the_name_of_one() -> Test {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("ports");
    let path = file.to_str().ok_or("a path")?;
    let args = [
        "--topology",
        "independent:3",
        "--control-port",
        "0",
        "--port-file",
        path,
    ];
    let group = Group::start(&args, 4)?;
    let ports = group
        .nodes
        .iter()
        .map(|(name, port)| format!("{name} {port}\n"));
    assert_eq!(std::fs::read_to_string(&file)?, ports.collect::<String>());
    let mut control = group.control()?;
    check(
        &mut control,
        "REDOUBLE.CLOCK JUMP 1",
        "name one with ON, of node-1, node-2, node-3",
    );
    say(
        &mut control,
        "REDOUBLE.FAULT ON node-2 ADD answer_error LOADING DIRECTION request",
    )?;
    check(&mut group.node("node-2")?, "GET k", "BusyLoading");
    check(&mut group.node("node-3")?, "GET k", "nil");
    TcpStream::connect(("127.0.0.1", group.nodes[0].1))?.write_all(b"SHUTDOWN NOSAVE\r\n")?;
    while !text(&mut control, "REDOUBLE.NODE LIST").contains("down") {}
    check(
        &mut control,
        "REDOUBLE.CLOCK ON node-1 NOW",
        "node-1 was shut down",
    );
    Ok(())
}

/// A topology ends in the same way as one server.
#[cfg(unix)]
#[test]
fn a_topology_ends_on_signals_and_leaves_nothing() -> Test {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("ports");
    let path = file.to_str().ok_or("a path")?;
    let (mut child, line) = start(program(&[
        "serve",
        "--topology",
        "replicated:2+2",
        "--port-file",
        path,
    ]))?;
    assert!(
        line.starts_with("ready master-1 redis://127.0.0.1:"),
        "{line}"
    );
    super::signal("TERM", child.0.id())?;
    assert_eq!(child.0.wait()?.code(), Some(0));
    assert_eq!(std::fs::read_dir(folder.path())?.count(), 0);
    for (args, code, words) in [
        (&["--topology", "ring:3"][..], 2, "unknown topology 'ring'"),
        (
            &["--topology", "independent:2", "--unix-socket", path],
            1,
            "supports only plain TCP",
        ),
        (
            &["--control", "--control-port", "0"],
            2,
            "cannot be used with",
        ),
    ] {
        let output = program(&[&["serve"], args].concat()).output()?;
        assert!(
            super::stderr(&output).contains(words),
            "{args:?}: {}",
            super::stderr(&output)
        );
        assert_eq!(output.status.code(), Some(code), "{args:?}");
    }
    Ok(())
}
