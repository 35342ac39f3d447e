//! CLIENT REPLY within a transaction. Redis writes the head of EXEC's reply first, with the number of queued requests,
//! so a suppressed reply leaves an array that is too short. Such bytes are no frames; transcripts cannot hold them.

use redouble::Server;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

type Test = Result<(), Box<dyn std::error::Error>>;

/// Sends requests, and END behind them; returns the bytes before the reply to END.
fn replies(server: &Server, requests: &[&str]) -> Result<String, Box<dyn std::error::Error>> {
    let mut stream = TcpStream::connect(server.addr())?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.write_all(requests.join("\r\n").as_bytes())?;
    stream.write_all(b"\r\nQUIT\r\n")?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes)?)
}

#[test]
fn a_transaction_counts_the_replies_that_it_leaves_out() -> Test {
    let server = Server::start_blocking()?;
    let queued = |count| format!("+OK\r\n{}", "+QUEUED\r\n".repeat(count));
    for (requests, expected) in [
        // SKIP concerns the request behind EXEC.
        (
            &[
                "MULTI",
                "CLIENT REPLY SKIP",
                "SET a 1",
                "EXEC",
                "PING",
                "PING",
            ][..],
            queued(2) + "*2\r\n+OK\r\n+PONG\r\n+OK\r\n",
        ),
        (
            &["MULTI", "CLIENT REPLY SKIP", "EXEC", "PING", "PING"],
            queued(1) + "*1\r\n+PONG\r\n+OK\r\n",
        ),
        (
            &[
                "MULTI",
                "CLIENT REPLY SKIP",
                "CLIENT REPLY ON",
                "EXEC",
                "PING",
                "PING",
            ],
            queued(2) + "*2\r\n+OK\r\n+PONG\r\n+OK\r\n",
        ),
        // OFF concerns what follows it within the transaction.
        (
            &[
                "MULTI",
                "GET a",
                "CLIENT REPLY OFF",
                "SET a 1",
                "EXEC",
                "PING",
                "CLIENT REPLY ON",
            ],
            queued(3) + "*3\r\n$1\r\n1\r\n+OK\r\n+OK\r\n",
        ),
        (
            &[
                "MULTI",
                "CLIENT REPLY OFF",
                "GET a",
                "CLIENT REPLY ON",
                "GET a",
                "EXEC",
                "PING",
            ],
            queued(4) + "*4\r\n+OK\r\n$1\r\n1\r\n+PONG\r\n+OK\r\n",
        ),
        // ON comes too late for the head of the reply.
        (
            &[
                "CLIENT REPLY OFF",
                "MULTI",
                "GET a",
                "CLIENT REPLY ON",
                "SET a 1",
                "EXEC",
                "PING",
            ],
            "+OK\r\n+OK\r\n+PONG\r\n+OK\r\n".into(),
        ),
        (
            &["MULTI", "CLIENT REPLY OFF", "SUBSCRIBE c", "EXEC", "PING"],
            queued(2) + "*2\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
        ),
    ] {
        assert_eq!(replies(&server, requests)?, expected, "{requests:?}");
    }
    Ok(())
}
