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

#[test]
fn a_client_that_never_reads_is_not_served_for_ever() -> Test {
    let server = Server::start_blocking()?;
    let mut stream = open(&server)?;
    let value = "x".repeat(1 << 20);
    stream.write_all(
        format!(
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n",
            value.len()
        )
        .as_bytes(),
    )?;
    stream.set_write_timeout(Some(Duration::from_millis(200)))?;
    // The kernel buffers several megabytes of requests. A server that kept reading would accept all
    // of these, and buffer a reply of one MiB for each.
    let requests = b"GET k\r\n".repeat(10_000);
    let taken = (0..400).take_while(|_| stream.write_all(&requests).is_ok());
    let taken = taken.count();
    assert!(taken < 400, "the server took {taken} x 70 kB of requests");
    lives(&server)
}

#[tokio::test]
async fn an_in_process_client_that_never_reads_is_held_up() -> Test {
    let server = Server::builder().clock(Clock::Manual).start().await?;
    let mut stream = server.connect();
    stream
        .write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n")
        .await?;
    stream.write_all(&[b'v'; 100_000]).await?;
    stream.write_all(b"\r\n").await?;
    let mut written = 0;
    while written < 10_000 {
        let write =
            tokio::time::timeout(Duration::from_millis(20), stream.write_all(b"GET k\r\n")).await;
        if write.is_err() {
            break;
        }
        written += 1;
    }
    assert!(
        (5..100).contains(&written),
        "{written} answers of 100 kB were kept"
    );
    // A client that starts to read gets all replies.
    let mut answers = vec![0; 5 + written * (100_000 + 11)];
    stream.read_exact(&mut answers).await?;
    assert!(answers.ends_with(b"v\r\n"));
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
