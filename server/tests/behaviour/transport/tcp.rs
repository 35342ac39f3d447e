//! TCP.

use super::{PATIENCE, Test, ask, check, expect, has_ended};
use redouble::Server;
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv6Addr, TcpStream};

fn dial(server: &Server) -> io::Result<TcpStream> {
    let client = TcpStream::connect(server.addr())?;
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    Ok(client)
}

/// Reads a line with its end.
fn line(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        line.extend(byte);
    }
    Ok(line)
}

#[test]
fn tcp_serves_as_all_transports_do() -> Test {
    check(|builder| builder, dial)
}

#[test]
fn ipv6_serves_as_all_transports_do() -> Test {
    check(|builder| builder.bind(Ipv6Addr::LOCALHOST.into()), dial)
}

#[test]
fn the_port_is_free_again() -> Test {
    let server = Server::start_blocking()?;
    let addr = server.addr();
    let builder = || Server::builder().port(addr.port());
    let taken = builder().start_blocking().err().ok_or("taken")?;
    assert!(
        taken
            .to_string()
            .starts_with(&format!("cannot listen on {addr}: ")),
        "{taken}"
    );
    assert_eq!(io::Error::from(taken).kind(), io::ErrorKind::AddrInUse);
    drop(server);
    assert!(TcpStream::connect(addr).is_err());
    assert_eq!(builder().start_blocking()?.addr(), addr);
    Ok(())
}

/// SHUTDOWN closes the listening socket first: a client that reads the end of its stream cannot connect again.
#[test]
fn a_server_that_is_shut_down_refuses_connections() -> Test {
    let server = Server::start_blocking()?;
    let mut client = dial(&server)?;
    ask(&mut client, b"SHUTDOWN NOSAVE\r\n")?;
    assert!(has_ended(&mut client));
    let refused = TcpStream::connect(server.addr()).err();
    let kind = refused.ok_or("connected")?.kind();
    assert_eq!(kind, io::ErrorKind::ConnectionRefused);
    Ok(())
}

/// The same while a script runs: the thread that runs the script serves the sockets then.
#[test]
fn a_server_that_is_shut_down_beside_a_script_refuses_connections() -> Test {
    let server = Server::start_blocking()?;
    let (mut client, mut caller) = (dial(&server)?, dial(&server)?);
    ask(&mut client, b"CONFIG SET lua-time-limit 1\r\n")?;
    expect(&mut client, b"+OK\r\n")?;
    ask(&mut caller, b"EVAL \"while true do end\" 0\r\n")?;
    // Until the script has run for so long that the server says so.
    let is_busy = |client: &mut TcpStream| -> Result<bool, Box<dyn std::error::Error>> {
        ask(client, b"PING\r\n")?;
        Ok(line(client)?.starts_with(b"-BUSY"))
    };
    while !is_busy(&mut client)? {}
    ask(&mut client, b"SHUTDOWN NOSAVE\r\n")?;
    assert!(has_ended(&mut client));
    let refused = TcpStream::connect(server.addr()).err();
    let kind = refused.ok_or("connected")?.kind();
    assert_eq!(kind, io::ErrorKind::ConnectionRefused);
    Ok(())
}

/// INFO counts what the server has read and written, with the request that asks for it.
#[test]
fn bytes_of_the_network_are_counted() -> Test {
    let server = Server::start_blocking()?;
    let figure = |client: &mut TcpStream, name: &str| -> Result<u64, Box<dyn std::error::Error>> {
        ask(client, b"INFO stats\r\n")?;
        let head = String::from_utf8(line(client)?)?;
        let size: usize = head.trim_start_matches('$').trim_end().parse()?;
        let mut text = vec![0; size + 2];
        client.read_exact(&mut text)?;
        let text = String::from_utf8(text)?;
        let line = text
            .lines()
            .find_map(|it| it.strip_prefix(name)?.strip_prefix(':'));
        Ok(line.ok_or("no figure")?.parse()?)
    };
    let mut client = dial(&server)?;
    ask(&mut client, b"PING\r\n")?;
    expect(&mut client, b"+PONG\r\n")?;
    assert_eq!(figure(&mut client, "total_net_input_bytes")?, 6 + 12);
    let first = figure(&mut client, "total_net_output_bytes")?;
    assert!(first > 7, "{first}");
    assert_eq!(figure(&mut client, "total_reads_processed")?, 4);
    assert_eq!(figure(&mut client, "total_writes_processed")?, 4);
    ask(&mut client, b"CONFIG RESETSTAT\r\n")?;
    expect(&mut client, b"+OK\r\n")?;
    assert_eq!(figure(&mut client, "total_net_output_bytes")?, 5);
    drop(client);
    let mut client = dial(&server)?;
    assert!(figure(&mut client, "total_net_output_bytes")? > 5);
    Ok(())
}

/// A server with a chosen port serves without a call of `addr`.
#[test]
fn a_chosen_port_is_served_from_the_start() -> Test {
    let addr = Server::start_blocking()?.addr();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let builder = Server::builder().port(addr.port());
    let _server = runtime.block_on(builder.start())?;
    let mut client = TcpStream::connect(addr)?;
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    ask(&mut client, b"PING\r\n")?;
    expect(&mut client, b"+PONG\r\n")
}

#[test]
fn a_server_of_all_addresses_is_found_on_loopback() -> Test {
    for (bind, url) in [("0.0.0.0", "redis://127.0.0.1:"), ("::", "redis://[::1]:")] {
        let builder = Server::builder().bind(bind.parse::<IpAddr>()?);
        let server = builder.start_blocking()?;
        assert_eq!(server.url(), format!("{url}{}", server.addr().port()));
        let mut client = redis::Client::open(server.url())?.get_connection()?;
        let found: Vec<String> = redis::cmd("CONFIG")
            .arg("GET")
            .arg("bind")
            .query(&mut client)?;
        assert_eq!(found, ["bind", bind]);
        // A client that connects by IPv4 to a socket of both versions is a local client too.
        let mut client = TcpStream::connect(("127.0.0.1", server.addr().port()))?;
        ask(&mut client, b"PING\r\n")?;
        expect(&mut client, b"+PONG\r\n")?;
    }
    Ok(())
}

/// Redis treats only 127.0.0.1 and ::1 as local, so other addresses of the loopback network serve
/// as remote ones.
#[cfg(target_os = "linux")]
#[test]
fn protected_mode_refuses_other_addresses() -> Test {
    let elsewhere = |server: &Server| -> io::Result<TcpStream> {
        let kind = (socket2::Domain::IPV4, socket2::Type::STREAM);
        let socket = socket2::Socket::new(kind.0, kind.1, None)?;
        socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 2], 0)).into())?;
        socket.connect(&server.addr().into())?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(socket.into())
    };
    let start = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is \
                 set for the default user. ";
    let server = Server::start_blocking()?;
    let mut admin = dial(&server)?;
    let mut denied = elsewhere(&server)?;
    expect(&mut denied, start.as_bytes())?;
    let mut rest = String::new();
    io::Read::read_to_string(&mut denied, &mut rest)?;
    assert!(
        rest.ends_with("\r\n") && !rest.trim_end().contains(['\r', '\n']),
        "one line: {rest:?}"
    );
    assert!(has_ended(&mut denied));

    let mut served = |setting: &str, reply: &str| -> Test {
        ask(&mut admin, setting.as_bytes())?;
        expect(&mut admin, b"+OK\r\n")?;
        let mut client = elsewhere(&server)?;
        ask(&mut client, b"PING\r\n")?;
        expect(&mut client, reply.as_bytes())
    };
    served("CONFIG SET protected-mode no\r\n", "+PONG\r\n")?;
    served("CONFIG SET protected-mode yes\r\n", start)?;
    served(
        "CONFIG SET requirepass secret\r\n",
        "-NOAUTH Authentication required.\r\n",
    )?;

    let builder = Server::builder().protected_mode(false);
    let open = builder.start_blocking()?;
    let mut client = elsewhere(&open)?;
    ask(&mut client, b"CONFIG GET protected-mode\r\n")?;
    expect(&mut client, b"*2\r\n$14\r\nprotected-mode\r\n$2\r\nno\r\n")
}
