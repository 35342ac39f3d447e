//! `redouble serve`.

use super::{PATIENCE, Program, Test, ask, port, program, serve, start, stderr};
use std::io::{Read, Write};
use std::net::TcpStream;

#[cfg(unix)]
#[test]
fn it_says_when_it_is_ready_and_leaves_nothing_on_signals() -> Test {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).to_str().map(str::to_owned);
    for name in ["TERM", "INT"] {
        let (file, socket) = (
            path("port").ok_or("a path")?,
            path("socket").ok_or("a path")?,
        );
        let (mut child, line) = start(program(&[
            "serve",
            "--port-file",
            &file,
            "--unix-socket",
            &socket,
            "--unix-socket-perm",
            "700",
        ]))?;
        let port = port(&line)?;
        assert_eq!(
            line,
            format!("ready redis://127.0.0.1:{port} unix://{socket}")
        );
        assert_eq!(std::fs::read_to_string(&file)?, format!("{port}\n"));
        ask(port, "SET k v\r\nGET k\r\n", "+OK\r\n$1\r\nv\r\n")?;
        let mut unix = std::os::unix::net::UnixStream::connect(&socket)?;
        unix.write_all(b"GET k\r\n")?;
        let mut found = [0; 7];
        unix.read_exact(&mut found)?;
        assert_eq!(&found, b"$1\r\nv\r\n");
        let _open = TcpStream::connect(("127.0.0.1", port))?; // the server ends although this is open
        super::signal(name, child.0.id())?;
        assert_eq!(child.0.wait()?.code(), Some(0));
        assert_eq!(
            std::fs::read_dir(folder.path())?.count(),
            0,
            "files are left"
        );
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    }
    Ok(())
}

#[test]
fn it_ends_on_shutdown() -> Test {
    let (mut child, port) = serve(&[])?;
    TcpStream::connect(("127.0.0.1", port))?.write_all(b"SHUTDOWN NOSAVE\r\n")?;
    assert!(child.0.wait()?.success());
    Ok(())
}

/// With a folder and points of saving, a signal saves the data. A server that cannot save goes on until the next signal.
#[cfg(unix)]
#[test]
fn a_signal_saves_the_data() -> Test {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    std::fs::create_dir(&data)?;
    let dir = data.to_str().ok_or("a path")?;
    let save = "SET k v\r\nCONFIG SET save \"900 1\"\r\n";
    let (mut child, port) = serve(&["--dir", dir])?;
    ask(port, save, "+OK\r\n+OK\r\n")?;
    super::signal("TERM", child.0.id())?;
    assert_eq!(child.0.wait()?.code(), Some(0));
    assert!(data.join("dump.rdb").exists());
    let (mut child, port) = serve(&["--dir", dir])?;
    ask(port, "GET k\r\n", "$1\r\nv\r\n")?;
    ask(port, save, "+OK\r\n+OK\r\n")?;
    std::fs::remove_dir_all(&data)?;
    std::fs::write(&data, "no folder")?;
    super::signal("INT", child.0.id())?;
    ask(port, "GET k\r\n", "$1\r\nv\r\n")?;
    super::signal("INT", child.0.id())?;
    assert_eq!(child.0.wait()?.code(), Some(0));
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
        "--maxclients",
        "77",
        "--protected-mode",
        "no",
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
    std::thread::sleep(std::time::Duration::from_millis(5));
    ask(port, "AUTH s3cret\r\nPTTL k\r\n", "+OK\r\n:1\r\n")?;
    ask(
        port,
        "AUTH s3cret\r\nCONFIG GET maxclients\r\nCONFIG GET protected-mode\r\n",
        "+OK\r\n*2\r\n$10\r\nmaxclients\r\n$2\r\n77\r\n*2\r\n$14\r\nprotected-mode\r\n$2\r\nno\r\n",
    )
}

#[test]
fn a_manual_clock_starts_where_it_is_told_to() -> Test {
    let time = |args: &[&str], seconds: &str| -> Test {
        let (_child, port) = serve(args)?;
        let reply = format!("*2\r\n$10\r\n{seconds}\r\n$1\r\n0\r\n");
        ask(port, "TIME\r\n", &reply)
    };
    time(&["--clock", "manual"], "1704067200")?;
    time(
        &["--clock", "manual", "--clock-start", "1234567890000"],
        "1234567890",
    )?;
    let (_child, port) = serve(&["--clock", "manual", "--clock-start", "now"])?;
    let past = "EVAL \"return tonumber(redis.call('TIME')[1]) > 1704067200\" 0\r\n";
    ask(port, past, ":1\r\n")
}

/// An error message and an exit code for every mistake.
#[test]
fn every_mistake_has_a_message_and_an_exit_code() -> Test {
    let (_child, port) = serve(&[])?;
    let port = port.to_string();
    let nowhere = std::env::temp_dir().join("no/such/file");
    let nowhere = nowhere.to_str().ok_or("a path")?;
    let check = |args: &[&str], code: i32, words: &str| -> Test {
        let output = program(&[&["serve"], args].concat()).output()?;
        assert!(
            stderr(&output).contains(words),
            "{args:?}: {}",
            stderr(&output)
        );
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}: it was never ready");
        Ok(())
    };
    let taken = format!("redouble: cannot listen on 127.0.0.1:{port}: ");
    check(&["--port", &port], 1, &taken)?;
    check(
        &["--bind", "192.0.2.1", "--port", "1"],
        1,
        "cannot listen on 192.0.2.1:1: ",
    )?;
    check(&["--port-file", nowhere], 1, "cannot write ")?;
    check(&["--compat", "99"], 2, "expected one of 7.0, 7.2")?;
    check(&["--databases", "0"], 2, "--databases")?;
    check(&["--no-tcp"], 2, "--tls-port")?;
    check(&["--tls-port", "0"], 2, "--tls-write-ca")?;
    check(&["--tls-cert-file", "x"], 2, "--tls-key-file")?;
    #[cfg(unix)]
    {
        check(&["--unix-socket", nowhere], 1, "cannot listen on ")?;
        check(
            &["--unix-socket", nowhere, "--unix-socket-perm", "8"],
            2,
            "octal",
        )?;
        check(&["--unix-socket-perm", "7"], 2, "--unix-socket")?;
    }
    let files = [
        "--tls-port",
        "0",
        "--tls-cert-file",
        nowhere,
        "--tls-key-file",
        nowhere,
    ];
    if cfg!(feature = "tls") {
        check(&files, 1, "cannot read ")?;
    } else {
        check(&files, 1, "built without TLS")?;
    }
    Ok(())
}

#[test]
fn help_shows_examples_and_exit_codes() -> Test {
    for command in ["serve", "run", "proxy"] {
        let help = program(&[command, "--help"]).output()?;
        let text = String::from_utf8_lossy(&help.stdout).into_owned();
        assert!(
            help.status.success() && text.contains("Examples:") && text.contains("Exit codes:")
        );
    }
    let help = program(&["--help"]).output()?;
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.status.success() && text.contains("serve") && text.contains("run"));
    Ok(())
}

/// A temporary certificate for clients of other languages, and a CA file that is removed with the
/// server.
#[cfg(all(feature = "tls", unix))]
#[test]
fn tls_needs_no_files() -> Test {
    let folder = tempfile::tempdir()?;
    let ca = folder.path().join("ca.pem");
    let (mut child, line) = start(program(&[
        "serve",
        "--no-tcp",
        "--tls-port",
        "0",
        "--tls-write-ca",
        ca.to_str().ok_or("a path")?,
    ]))?;
    let url = line.strip_prefix("ready ").ok_or_else(|| line.clone())?;
    assert!(url.starts_with("rediss://127.0.0.1:"), "{url}");
    let certificates = redis::TlsCertificates {
        client_tls: None,
        root_cert: Some(std::fs::read(&ca)?),
    };
    let client = redis::Client::build_with_tls(url, certificates)?;
    redis::cmd("PING").exec(&mut client.get_connection()?)?;
    super::signal("TERM", child.0.id())?;
    assert!(child.0.wait()?.success() && !ca.exists());
    Ok(())
}

/// A shell lowers the limits of open files and then becomes the program.
#[cfg(unix)]
fn serve_limited(limits: &str) -> Result<(Program, u16), super::Error> {
    let mut shell = std::process::Command::new("sh");
    let script = format!("{limits} && exec \"$0\" serve --log error");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_redouble")]);
    let (child, line) = start(super::piped(shell))?;
    let port = port(&line)?;
    Ok((child, port))
}

/// Ten thousand sockets, as far as the machine allows one process to open them, although the
/// program starts with the usual low limit.
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
    let (_child, port) = serve_limited("ulimit -S -n 256")?;
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

/// If the limit cannot be raised, `maxclients` is lowered to what it allows, as in Redis, and
/// further clients get an error.
#[cfg(unix)]
#[test]
fn a_hard_limit_of_descriptors_lowers_maxclients() -> Test {
    let (_child, port) = serve_limited("ulimit -n 100")?;
    let wanted = "*2\r\n$10\r\nmaxclients\r\n$2\r\n68\r\n";
    ask(port, "CONFIG GET maxclients\r\n", wanted)?;
    let mut streams = Vec::new();
    let mut refused = String::new();
    while refused.is_empty() && streams.len() <= 100 {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"PING\r\n")?;
        let mut reply = [0; 7];
        stream.read_exact(&mut reply)?;
        if reply == *b"+PONG\r\n" {
            streams.push(stream);
        } else {
            refused.push_str(std::str::from_utf8(&reply)?);
            let _reset = stream.read_to_string(&mut refused);
        }
    }
    assert_eq!(refused, "-ERR max number of clients reached\r\n");
    // The connection of the check may still be open when the first one was accepted.
    assert!((67..=68).contains(&streams.len()), "{}", streams.len());
    Ok(())
}
