//! The `redouble` program, as a script or a test of another language uses it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

type Test = Result<(), Box<dyn std::error::Error>>;

/// A running program; killed when a test fails.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redouble"));
    command
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Starts `redouble serve` and waits for its line; gives the port.
fn serve(args: &[&str]) -> Result<(Program, u16), Box<dyn std::error::Error>> {
    let mut child = Program(program(&[&["serve"], args].concat()).spawn()?);
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
    let port = line
        .trim_end()
        .strip_prefix("ready redis://127.0.0.1:")
        .ok_or_else(|| line.clone())?
        .parse()?;
    Ok((child, port))
}

fn ask(port: u16, request: &str, answer: &str) -> Test {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(request.as_bytes())?;
    let mut found = vec![0; answer.len()];
    stream.read_exact(&mut found)?;
    assert_eq!(String::from_utf8_lossy(&found), answer);
    Ok(())
}

#[test]
fn it_says_when_it_is_ready_and_ends_on_sigterm() -> Test {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("port");
    let (mut child, port) = serve(&["--port-file", file.to_str().ok_or("a path")?])?;
    assert_eq!(std::fs::read_to_string(&file)?, format!("{port}\n"));
    ask(port, "SET k v\r\nGET k\r\n", "+OK\r\n$1\r\nv\r\n")?;
    let _open = TcpStream::connect(("127.0.0.1", port))?; // nobody has to leave first
    assert!(
        Command::new("kill")
            .arg(child.0.id().to_string())
            .status()?
            .success()
    );
    assert!(child.0.wait()?.success());
    assert!(!file.exists() && TcpStream::connect(("127.0.0.1", port)).is_err());
    Ok(())
}

#[test]
fn it_ends_on_shutdown() -> Test {
    let (mut child, port) = serve(&[])?;
    TcpStream::connect(("127.0.0.1", port))?.write_all(b"SHUTDOWN NOSAVE\r\n")?;
    assert!(child.0.wait()?.success());
    Ok(())
}

#[test]
fn its_options_reach_the_server() -> Test {
    let (_child, port) = serve(&[
        "--requirepass",
        "s3cret",
        "--databases",
        "3",
        "--clock",
        "manual",
        "--compat",
        "7.0.15",
    ])?;
    ask(port, "GET k\r\n", "-NOAUTH Authentication required.\r\n")?;
    ask(
        port,
        "AUTH s3cret\r\nSELECT 2\r\nSELECT 3\r\n",
        "+OK\r\n+OK\r\n-ERR DB index is out of range\r\n",
    )?;
    // A manual clock stands still.
    ask(
        port,
        "AUTH s3cret\r\nPSETEX k 1 v\r\nPTTL k\r\n",
        "+OK\r\n+OK\r\n:1\r\n",
    )?;
    std::thread::sleep(Duration::from_millis(5));
    ask(port, "AUTH s3cret\r\nPTTL k\r\n", "+OK\r\n:1\r\n")
}

#[test]
fn what_cannot_be_done_is_said() -> Test {
    let (_child, port) = serve(&[])?;
    let taken = program(&["serve", "--port", &port.to_string()]).output()?;
    let error = String::from_utf8_lossy(&taken.stderr).into_owned();
    assert!(
        !taken.status.success()
            && error.starts_with(&format!("redouble: cannot listen on 127.0.0.1:{port}: ")),
        "{error}"
    );
    let usage = program(&["serve", "--compat", "99"]).output()?;
    assert_eq!(usage.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&usage.stderr).contains("7.0.15"));
    let help = program(&["--help"]).output()?;
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("serve"));
    Ok(())
}

/// Ten thousand sockets, as far as this machine lets one process open them.
#[cfg(unix)]
#[test]
fn ten_thousand_connections_are_served_at_once() -> Test {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let allowed = limit.maximum.unwrap_or(20_000).min(20_000);
    limit.current = Some(allowed);
    setrlimit(Resource::Nofile, limit)?;
    let count = usize::try_from(allowed)?.saturating_sub(500).min(9_999);
    assert!(
        count > 3_000,
        "a limit of {allowed} descriptors shows nothing"
    );
    let (_child, port) = serve(&[])?;
    let mut streams = Vec::new();
    for _ in 0..count {
        streams.push(TcpStream::connect(("127.0.0.1", port))?);
    }
    for stream in &mut streams {
        stream.write_all(b"PING\r\n")?;
    }
    for stream in &mut streams {
        let mut pong = [0; 7];
        stream.read_exact(&mut pong)?;
        assert_eq!(&pong, b"+PONG\r\n");
    }
    ask(port, "PING\r\n", "+PONG\r\n") // the ten-thousandth
}
