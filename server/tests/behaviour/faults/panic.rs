//! A panic in a request takes the node down, and every client sees it.

use super::Test;
use redouble::Server;
use redouble::fault::{MessageRule, RuleEnv, Verdict};
use redouble::resp::Request;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A rule with a bug.
#[derive(Debug)]
struct Panics;

impl MessageRule for Panics {
    fn on_request(&mut self, request: Request<'_>, _: &mut RuleEnv<'_>) -> Verdict {
        assert!(
            !request.name().eq_ignore_ascii_case(b"panic"),
            "a bug in a rule"
        );
        Verdict::Pass
    }
}

fn open(server: &Server) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(server.addr())?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    Ok(stream)
}

fn has_ended(stream: &mut TcpStream) -> bool {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => !matches!(error.kind(), TimedOut | WouldBlock),
    }
}

#[test]
fn over_sockets_every_client_sees_the_end() -> Test {
    let server = Server::start_blocking()?;
    let _rule = server.inject_rule(Box::new(Panics) as Box<dyn MessageRule>);
    let (mut first, mut second) = (open(&server)?, open(&server)?);
    for client in [&mut first, &mut second] {
        client.write_all(b"SET k v\r\n")?;
        client.read_exact(&mut [0; 5])?;
    }
    first.write_all(b"PANIC\r\n")?;
    assert!(has_ended(&mut first) && has_ended(&mut second));
    assert!(server.is_shut_down());
    let refused = TcpStream::connect(server.addr());
    assert!(refused.is_err() || has_ended(&mut open(&server)?));
    server.assert_get("k", "v");
    Ok(())
}

#[test]
fn beside_a_script_every_client_sees_the_end() -> Test {
    let builder = Server::builder()
        .configure(|config| config.busy_reply_threshold = Duration::from_millis(20));
    let server = builder.start_blocking()?;
    let _rule = server.inject_rule(Box::new(Panics) as Box<dyn MessageRule>);
    let (mut caller, mut other) = (open(&server)?, open(&server)?);
    caller.write_all(b"SET k v\r\nEVAL \"while true do end\" 0\r\n")?;
    caller.read_exact(&mut [0; 5])?;
    let mut reply = [0; 1];
    while reply != *b"-" {
        other.write_all(b"PING\r\n")?;
        let mut rest = [0; 1];
        other.read_exact(&mut reply)?;
        while rest != *b"\n" {
            other.read_exact(&mut rest)?;
        }
    }
    other.write_all(b"PANIC\r\n")?;
    assert!(has_ended(&mut other) && has_ended(&mut caller));
    // The script has given back what it had.
    server.assert_get("k", "v");
    assert!(server.is_shut_down());
    Ok(())
}

#[tokio::test]
async fn in_process_every_client_sees_the_end() -> Test {
    let server = Server::start().await?;
    let _rule = server.inject_rule(Box::new(Panics) as Box<dyn MessageRule>);
    let (mut first, mut second) = (server.connect(), server.connect());
    let panicked = tokio::spawn(async move { first.write_all(b"PANIC\r\n").await });
    assert!(panicked.await.is_err_and(|error| error.is_panic()));
    assert!(second.read_u8().await.is_err());
    let error = second.write_all(b"PING\r\n").await.unwrap_err();
    assert!(error.to_string().contains("the node is down"), "{error}");
    assert!(server.connection().await.is_err());
    Ok(())
}
