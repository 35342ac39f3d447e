//! A panic in a request takes the node down, and every client sees it.

use super::Test;
use redouble::FaultGuard;
use redouble::fault::{MessageRule, RuleEnv, Verdict};
use redouble::resp::{Reply, Request};
use redouble::{Clock, InProcess, Server};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

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

    /// A blocked client has waited for as long as it may.
    fn on_reply(&mut self, request: Request<'_>, _: &Reply, _: &mut RuleEnv<'_>) -> Verdict {
        assert!(
            !request.name().eq_ignore_ascii_case(b"BLPOP"),
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

/// A server with a rule that panics when its blocked client gives up, and a server that shares its time.
struct Pair {
    first: Server,
    second: Server,
    /// It reads from the first server, and has nothing to read before the end.
    reader: JoinHandle<std::io::Result<u8>>,
    _blocked: InProcess,
    _rule: FaultGuard,
}

impl Pair {
    async fn start(clock: Clock) -> Result<Self, Box<dyn std::error::Error>> {
        let first = Server::builder().clock(clock).start().await?;
        let second = Server::builder().beside(&first).start().await?;
        let rule = first.inject_rule(Box::new(Panics) as Box<dyn MessageRule>);
        let mut blocked = first.connect();
        blocked.write_all(b"BLPOP l 0.05\r\n").await?;
        let mut idle = first.connect();
        let reader = tokio::spawn(async move { idle.read_u8().await });
        tokio::task::yield_now().await; // it waits now
        Ok(Self {
            first,
            second,
            reader,
            _blocked: blocked,
            _rule: rule,
        })
    }

    /// The first server is down, its clients know, and the second server goes on.
    async fn ends_alone(self) -> Test {
        let reader = tokio::time::timeout(Duration::from_secs(60), self.reader).await??;
        assert!(reader.is_err(), "{reader:?}");
        assert!(self.first.is_shut_down() && !self.second.is_shut_down());
        let mut other = self.second.connect();
        other.write_all(b"PING\r\n").await?;
        let mut reply = [0; 7];
        other.read_exact(&mut reply).await?;
        assert_eq!(&reply, b"+PONG\r\n");
        Ok(())
    }
}

#[tokio::test]
async fn a_panic_of_the_thread_of_the_sockets_reaches_readers_in_process() -> Test {
    let server = Server::start().await?;
    let _rule = server.inject_rule(Box::new(Panics) as Box<dyn MessageRule>);
    let mut idle = server.connect();
    let reader = tokio::spawn(async move { idle.read_u8().await });
    tokio::task::yield_now().await; // it waits now
    open(&server)?.write_all(b"PANIC\r\n")?;
    let reader = tokio::time::timeout(Duration::from_secs(60), reader).await??;
    assert!(reader.is_err(), "{reader:?}");
    Ok(())
}

#[tokio::test]
async fn a_panic_of_the_timer_of_the_sockets_takes_one_node_down() -> Test {
    let pair = Pair::start(Clock::System).await?;
    let _sockets = open(&pair.first)?;
    pair.ends_alone().await
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_timer_on_tokio_takes_one_node_down() -> Test {
    let pair = Pair::start(Clock::Tokio).await?;
    pair.ends_alone().await?;
    Ok(())
}

#[tokio::test]
async fn a_panic_while_a_test_moves_the_clock_takes_one_node_down() -> Test {
    let pair = Pair::start(Clock::Manual).await?;
    let advance = AssertUnwindSafe(|| pair.first.clock().advance(Duration::from_secs(1)));
    assert!(catch_unwind(advance).is_err());
    pair.ends_alone().await
}
