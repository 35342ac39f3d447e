//! Clients that send bad input get Redis's error or a bounded refusal, and other clients are not
//! affected.

use redouble::resp::{Decoder, Limits, OwnedRequest};
use redouble::{Clock, Server};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

type Test = Result<(), Box<dyn std::error::Error>>;

fn open(server: &Server) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(server.addr())?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    Ok(stream)
}

/// Everything that the server sends until it closes the connection.
fn farewell(mut stream: TcpStream) -> std::io::Result<String> {
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        // The server may reset the connection while the rest of the bad input is still on its way.
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => Err(error),
        _ => Ok(String::from_utf8_lossy(&said).into_owned()),
    }
}

fn lives(server: &Server) -> Test {
    let mut stream = open(server)?;
    stream.write_all(b"PING\r\n")?;
    let mut pong = [0; 7];
    stream.read_exact(&mut pong)?;
    assert_eq!(&pong, b"+PONG\r\n");
    Ok(())
}

#[test]
fn malformed_protocol_is_answered_and_ends_the_connection() -> Test {
    let server = Server::start_blocking()?;
    for (input, error) in [
        (&b"*1\r\n!3\r\n"[..], "expected '$', got '!'"),
        (b"*abc\r\n", "invalid multibulk length"),
        (b"*3\r\n$-5\r\n", "invalid bulk length"),
        (b"*1\r\n$999999999999\r\n", "invalid bulk length"),
        (b"SET k \"v\r\n", "unbalanced quotes in request"),
    ] {
        let mut stream = open(&server)?;
        stream.write_all(b"PING\r\n")?;
        stream.write_all(input)?;
        assert_eq!(
            farewell(stream)?,
            format!("+PONG\r\n-ERR Protocol error: {error}\r\n")
        );
    }
    lives(&server)
}

#[test]
fn a_request_that_never_ends_is_cut_off() -> Test {
    let server = Server::builder()
        .configure(|config| {
            config.client_query_buffer_limit = 1 << 20;
        })
        .start_blocking()?;
    let mut stream = open(&server)?;
    stream.write_all(b"*1000000\r\n")?;
    let piece = b"$1000\r\n"
        .iter()
        .copied()
        .chain([b'x'; 1000])
        .chain(*b"\r\n")
        .collect::<Vec<u8>>();
    let written = (0..10_000)
        .take_while(|_| stream.write_all(&piece).is_ok())
        .count();
    assert!(
        written < 10_000,
        "the server took {written} KB of one request"
    );
    lives(&server)
}

#[test]
fn a_half_closed_socket_gets_its_answers() -> Test {
    let server = Server::start_blocking()?;
    let mut stream = open(&server)?;
    stream.write_all(b"PING\r\n*2\r\n$3\r\nGET\r\n$1\r\n")?;
    stream.shutdown(Shutdown::Write)?;
    assert_eq!(farewell(stream)?, "+PONG\r\n");
    lives(&server)
}

/// Replies are buffered up to `client-output-buffer-limit`, and then the connection ends.
#[test]
fn a_client_that_never_reads_is_closed_at_the_limit() -> Test {
    let server = Server::start_blocking()?;
    let mut stream = open(&server)?;
    let limit = "*4\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$26\r\nclient-output-buffer-limit\r\n$15\r\nnormal 30mb 0 0\r\n";
    let value = "x".repeat(1 << 20);
    let set = format!(
        "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n",
        value.len()
    );
    stream.write_all([limit, &set].concat().as_bytes())?;
    stream.read_exact(&mut [0; 10])?;
    // The kernel's buffers hold some megabytes of replies, and the server thirty.
    let requests = b"GET k\r\n".repeat(10_000);
    let _closed = stream.write_all(&requests);
    let mut read = 0;
    let mut buf = vec![0; 1 << 20];
    let ended = loop {
        match stream.read(&mut buf) {
            Ok(0) => break true,
            Ok(count) => read += count,
            Err(error) => break error.kind() != std::io::ErrorKind::WouldBlock,
        }
    };
    assert!(ended && read < 100 << 20, "{read} bytes, ended: {ended}");
    lives(&server)
}

#[tokio::test]
async fn an_in_process_client_that_never_reads_is_closed_at_the_limit() -> Test {
    let server = Server::builder().clock(Clock::Manual).start().await?;
    let mut stream = server.connect();
    let limit = b"CONFIG SET client-output-buffer-limit \"normal 1mb 0 0\"\r\n";
    stream.write_all(limit).await?;
    stream
        .write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n")
        .await?;
    stream.write_all(&[b'v'; 100_000]).await?;
    stream.write_all(b"\r\n").await?;
    let mut written = 0;
    while written < 10_000 && stream.write_all(b"GET k\r\n").await.is_ok() {
        written += 1;
    }
    assert!((10..20).contains(&written), "{written} replies of 100 kB");
    assert!(stream.is_closed());
    Ok(())
}

#[tokio::test]
async fn ten_thousand_connections_in_process_and_no_more() -> Test {
    let server = Server::start().await?;
    let mut streams: Vec<_> = (0..10_000).map(|_| server.connect()).collect();
    assert_eq!(server.connections(), 10_000);
    let mut refused = server.connect();
    let mut said = String::new();
    refused.read_to_string(&mut said).await?;
    assert_eq!(said, "-ERR max number of clients reached\r\n");
    for stream in streams.iter_mut().step_by(999) {
        stream.write_all(b"PING\r\n").await?;
        let mut pong = [0; 7];
        stream.read_exact(&mut pong).await?;
        assert_eq!(&pong, b"+PONG\r\n");
    }
    streams.truncate(10);
    assert_eq!(server.connections(), 10);
    Ok(())
}

/// Runs scripts that exceed a limit. Expects an error that names it, and a server that still works.
#[test]
fn scripts_that_recurse_or_allocate_without_end_are_refused() -> Test {
    let server = Server::start_blocking()?;
    let mut redis = redis::Client::open(server.url())?.get_connection()?;
    for (script, error) in [
        (
            "local function f() return 1 + f() end return f()",
            "stack overflow",
        ),
        (
            "local t = {} while true do t[#t + 1] = ('x'):rep(100000) .. #t end",
            "not enough memory",
        ),
        (
            "return unpack({0}, -2147483648, 2147483647)",
            "too many results to unpack",
        ),
    ] {
        let result = redis::cmd("EVAL")
            .arg(script)
            .arg(0)
            .query::<redis::Value>(&mut redis);
        match result {
            Ok(value) => panic!("{script} gave {value:?}"),
            Err(found) => assert!(found.to_string().contains(error), "{script}: {found}"),
        }
        lives(&server)?;
    }
    Ok(())
}

#[test]
fn a_dropped_server_leaves_nothing_behind() -> Test {
    let server = Server::start_blocking()?;
    let addr = server.addr();
    let client = open(&server)?;
    lives(&server)?;
    drop(server);
    assert_eq!(farewell(client)?, "");
    assert!(TcpStream::connect(addr).is_err(), "the port is free");
    Ok(())
}

#[test]
fn two_servers_of_a_process_share_nothing() -> Test {
    let (one, two) = (Server::start_blocking()?, Server::start_blocking()?);
    open(&one)?.write_all(b"SET k v\r\n")?;
    while !one.exists("k") {
        std::thread::yield_now();
    }
    assert!(!two.exists("k") && one.addr() != two.addr());
    Ok(())
}

#[test]
fn requests_survive_any_cut() {
    let wire = b"*3\r\n$3\r\nSET\r\n$2\r\nk1\r\n$12\r\nhello\r\nworld\r\n";
    for cut in 0..wire.len() {
        let mut decoder = Decoder::default();
        decoder.feed(&wire[..cut]);
        assert!(
            decoder
                .next(&Limits::default())
                .expect("well formed")
                .is_none(),
            "cut at {cut}"
        );
        decoder.feed(&wire[cut..]);
        let request = decoder
            .next(&Limits::default())
            .expect("well formed")
            .expect("complete");
        let expected = OwnedRequest::new([&b"SET"[..], b"k1", b"hello\r\nworld"]);
        assert_eq!(
            format!("{request:?}"),
            format!("{:?}", expected.as_request().expect("not empty"))
        );
    }
}
