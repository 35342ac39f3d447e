//! Unix sockets.

use super::{PATIENCE, Test, ask, check, expect};
use redouble::{Clock, Server};
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

fn dial(path: &Path) -> io::Result<UnixStream> {
    let client = UnixStream::connect(path)?;
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    Ok(client)
}

#[test]
fn a_unix_socket_serves_as_all_transports_do() -> Test {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("redis.sock");
    check(
        |builder| builder.without_tcp().unix_socket(&path),
        |_| dial(&path),
    )?;
    assert!(!path.exists());
    Ok(())
}

#[test]
fn it_stands_beside_tcp() -> Test {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("redis.sock");
    let builder = Server::builder()
        .unix_socket(&path)
        .unix_socket_permissions(0o600);
    let server = builder.start_blocking()?;
    let (mut unix, mut tcp) = (dial(&path)?, TcpStream::connect(server.addr())?);
    ask(&mut unix, b"SET k v\r\n")?;
    expect(&mut unix, b"+OK\r\n")?;
    ask(&mut tcp, b"GET k\r\n")?;
    expect(&mut tcp, b"$1\r\nv\r\n")?;
    assert_eq!(server.connections(), 2);
    let mode = std::fs::metadata(&path)?.permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let mut client =
        redis::Client::open(server.unix_url().expect("it has a Unix socket"))?.get_connection()?;
    let found: Vec<String> = redis::cmd("CONFIG")
        .arg("GET")
        .arg("unixsocket*")
        .query(&mut client)?;
    let path = path.to_str().ok_or("a path")?;
    assert_eq!(found, ["unixsocket", path, "unixsocketperm", "600"]);
    Ok(())
}

#[test]
fn without_tcp_there_is_no_address() -> Test {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("a strange%20name?#é");
    let builder = Server::builder().without_tcp().unix_socket(&path);
    let server = builder.start_blocking()?;
    assert_eq!(Some(server.url()), server.unix_url());
    let error = server.listen().err().ok_or("no address")?;
    assert!(matches!(error, redouble::StartError::NoAddress), "{error}");
    let mut client = redis::Client::open(server.url())?.get_connection()?;
    redis::cmd("SET").arg("k").arg("v").exec(&mut client)?;
    assert!(server.exists("k"));
    Ok(())
}

/// Clients know the path in advance, so the socket is served from the start, even under a paused
/// clock.
#[test]
fn it_is_served_from_the_start() -> Test {
    let folder = tempfile::tempdir()?;
    for clock in [Clock::System, Clock::Manual, Clock::Tokio] {
        let path = folder.path().join("redis.sock");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let builder = Server::builder().clock(clock).unix_socket(&path);
        let server = runtime.block_on(builder.start())?;
        let mut client = dial(&path)?;
        ask(&mut client, b"PING\r\n")?;
        expect(&mut client, b"+PONG\r\n")?;
        drop(server);
        assert!(!path.exists());
    }
    Ok(())
}

#[test]
fn a_path_that_cannot_be_had_is_named() -> Test {
    let folder = tempfile::tempdir()?;
    let check = |path: &Path, kind: io::ErrorKind| -> Test {
        let builder = Server::builder().unix_socket(path);
        let error = builder.start_blocking().err().ok_or("refused")?;
        let start = format!("cannot listen on {}: ", path.display());
        assert!(error.to_string().starts_with(&start), "{error}");
        assert_eq!(io::Error::from(error).kind(), kind);
        Ok(())
    };
    check(&folder.path().join("no/such"), io::ErrorKind::NotFound)?;
    check(
        &folder.path().join("x".repeat(200)),
        io::ErrorKind::InvalidInput,
    )?;
    let path = folder.path().join("taken");
    let _server = Server::builder().unix_socket(&path).start_blocking()?;
    check(&path, io::ErrorKind::AddrInUse)
}
