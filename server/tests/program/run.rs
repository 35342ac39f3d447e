//! `redouble run`.

use super::{Error, Test, ask, program, signal, start, stderr};
use std::io::{Read, Write};
use std::process::{Output, Stdio};

fn run(args: &[&str]) -> Result<Output, Error> {
    // Environment variables of another Redis must not reach the command.
    let mut command = program(&[&["run"], args].concat());
    command
        .env("REDIS_PASSWORD", "of another")
        .env("REDIS_TLS_URL", "of another");
    Ok(command.output()?)
}

/// Runs a shell script; returns its output.
fn say(options: &[&str], script: &str) -> Result<String, Error> {
    let output = run(&[options, &["--", "sh", "-c", script]].concat())?;
    assert!(output.status.success(), "{}", stderr(&output));
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn the_command_finds_its_server() -> Test {
    let script = "echo $REDIS_URL; echo $REDIS_HOST; echo $REDIS_PORT; echo ${REDIS_PASSWORD-none} ${REDIS_TLS_URL-none}";
    let said = say(&[], script)?;
    let lines: Vec<_> = said.lines().collect();
    let [url, "127.0.0.1", port, "none none"] = lines[..] else {
        return Err(said.into());
    };
    assert_eq!(url, format!("redis://127.0.0.1:{port}"));

    let said = say(&["--requirepass", "p@ss word", "--bind", "::1"], script)?;
    let lines: Vec<_> = said.lines().collect();
    let [url, "::1", port, "p@ss word none"] = lines[..] else {
        return Err(said.into());
    };
    assert_eq!(url, format!("redis://:p%40ss%20word@[::1]:{port}"));

    let folder = tempfile::tempdir()?;
    let path = folder.path().join("s");
    let path = path.to_str().ok_or("a path")?;
    let script =
        "echo $REDIS_URL $REDIS_UNIX_URL ${REDIS_HOST-none} ${REDIS_PORT-none}; test -S $0";
    let output = run(&[
        "--no-tcp",
        "--unix-socket",
        path,
        "--",
        "sh",
        "-c",
        script,
        path,
    ])?;
    assert_eq!(
        String::from_utf8(output.stdout)?,
        format!("unix://{path} unix://{path} none none\n")
    );
    assert!(output.status.success(), "the socket was there");
    assert!(!std::fs::exists(path)?, "the socket has gone");
    Ok(())
}

/// The test connects to the command's server while the command waits for the end of its standard
/// input.
#[test]
fn the_server_lives_as_long_as_the_command() -> Test {
    let mut command = program(&["run", "--", "sh", "-c", "echo $REDIS_PORT; exec cat"]);
    command.stdin(Stdio::piped());
    let (mut child, line) = start(command)?;
    let port = line.parse()?;
    ask(port, "SET k v\r\nGET k\r\n", "+OK\r\n$1\r\nv\r\n")?;
    drop(child.0.stdin.take());
    assert!(child.0.wait()?.success());
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    Ok(())
}

#[test]
fn streams_are_the_commands() -> Test {
    let mut child = program(&["run", "--", "sh", "-c", "cat; echo to stderr >&2"])
        .stdin(Stdio::piped())
        .spawn()?;
    child
        .stdin
        .take()
        .ok_or("no stdin")?
        .write_all(b"from stdin\n\0")?;
    let output = child.wait_with_output()?;
    assert_eq!(output.stdout, b"from stdin\n\0");
    assert_eq!(stderr(&output), "to stderr\n");
    Ok(())
}

#[test]
fn exit_codes_are_the_commands_or_a_shells() -> Test {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("no program");
    std::fs::write(&file, "text")?;
    let file = file.to_str().ok_or("a path")?;
    let check = |args: &[&str], code: i32, words: &str| -> Test {
        let output = run(args)?;
        assert_eq!(
            output.status.code(),
            Some(code),
            "{args:?}: {}",
            stderr(&output)
        );
        assert_eq!(
            stderr(&output).lines().next().unwrap_or_default(),
            words,
            "{args:?}"
        );
        Ok(())
    };
    check(&["--", "true"], 0, "")?;
    check(&["--", "sh", "-c", "exit 7"], 7, "")?;
    check(&["--", "sh", "-c", "kill -KILL $$"], 137, "")?;
    check(&["--", "sh", "-c", "kill -TERM $$"], 143, "")?;
    check(
        &["--", "no-such-command"],
        127,
        "redouble: cannot find the command no-such-command",
    )?;
    let denied = format!("redouble: cannot execute {file}: Permission denied (os error 13)");
    check(&["--", file], 126, &denied)?;
    let nowhere = format!("{file}/port");
    let reason = format!("redouble: cannot write {nowhere}: Not a directory (os error 20)");
    check(&["--port-file", &nowhere, "--", "true"], 125, &reason)?;
    let usage = run(&["--databases", "0", "--", "true"])?;
    assert_eq!(usage.status.code(), Some(2));
    assert_eq!(run(&[])?.status.code(), Some(2));
    Ok(())
}

#[test]
fn signals_are_passed_on() -> Test {
    for (name, code) in [("TERM", 21), ("INT", 22)] {
        let script = "trap 'exit 21' TERM; trap 'exit 22' INT; echo $REDIS_PORT; for _ in $(seq 600); do sleep 0.05; done";
        let (mut child, line) = start(program(&["run", "--", "sh", "-c", script]))?;
        ask(line.parse()?, "PING\r\n", "+PONG\r\n")?;
        signal(name, child.0.id())?;
        assert_eq!(child.0.wait()?.code(), Some(code), "{name}");
    }
    // A command that a signal ended gives the exit code of a shell.
    let (mut child, _line) = start(program(&["run", "--", "sh", "-c", "echo; exec sleep 60"]))?;
    signal("TERM", child.0.id())?;
    assert_eq!(child.0.wait()?.code(), Some(143));
    Ok(())
}

/// The command is not ended together with its server.
#[test]
fn the_command_may_shut_its_server_down() -> Test {
    let script = "echo $REDIS_PORT; read -r _; echo still here";
    let mut child = program(&["run", "--", "sh", "-c", script]);
    child.stdin(Stdio::piped());
    let mut child = super::Program(child.spawn()?);
    let mut stdout = child.0.stdout.take().ok_or("no stdout")?;
    let mut line = String::new();
    while !line.ends_with('\n') {
        let mut byte = [0];
        stdout.read_exact(&mut byte)?;
        line.push(char::from(byte[0]));
    }
    let mut client = std::net::TcpStream::connect(("127.0.0.1", line.trim_end().parse()?))?;
    client.write_all(b"SHUTDOWN NOSAVE\r\n")?;
    assert_eq!(client.read(&mut [0])?, 0);
    child
        .0
        .stdin
        .take()
        .ok_or("no stdin")?
        .write_all(b"go on\n")?;
    let mut rest = String::new();
    stdout.read_to_string(&mut rest)?;
    assert_eq!(rest, "still here\n");
    assert!(child.0.wait()?.success());
    Ok(())
}
