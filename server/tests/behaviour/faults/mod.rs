//! Every fault as clients see it, and that it is gone after its removal.

mod condition;
mod connection;
mod determinism;
mod message;
mod node;
mod panic;
mod socket;

use redouble::fault::{self, FAULTS, MessageRule, Placement};
use redouble::{Clock, Connection, InProcess, Server};
use std::fmt::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

type Test = Result<(), Box<dyn std::error::Error>>;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A server on tokio's paused clock, with a client of the `redis` crate.
async fn served() -> Result<(Server, Connection), Box<dyn std::error::Error>> {
    let server = Server::builder()
        .clock(Clock::Tokio)
        .history(100)
        .start()
        .await?;
    let connection = server.connection().await?;
    Ok((server, connection))
}

/// A server with a manual clock.
async fn still(seed: u64) -> Result<Server, redouble::StartError> {
    let builder = Server::builder().clock(Clock::Manual).seed(seed);
    builder.history(10_000).start().await
}

/// A client that writes and reads bytes and never waits. In process, all effects of a write have
/// happened when the write returns.
struct Raw(InProcess);

impl Raw {
    fn of(server: &Server) -> Self {
        Self(server.connect())
    }

    fn say(&mut self, line: &str) -> &mut Self {
        assert!(self.offer(format!("{line}\r\n").as_bytes()), "{line}");
        self
    }

    /// False if the connection has ended or does not accept bytes now.
    fn offer(&mut self, bytes: &[u8]) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let written = Pin::new(&mut self.0).poll_write(&mut cx, bytes);
        matches!(written, Poll::Ready(Ok(count)) if count == bytes.len())
    }

    /// The replies that have arrived since, and how the connection ended, if it did.
    fn hear(&mut self) -> String {
        let mut text = String::new();
        loop {
            let mut buf = [0; 4096];
            let mut buf = ReadBuf::new(&mut buf);
            let mut cx = Context::from_waker(Waker::noop());
            match Pin::new(&mut self.0).poll_read(&mut cx, &mut buf) {
                Poll::Pending => return text,
                Poll::Ready(Ok(())) if buf.filled().is_empty() => return text + "(end)",
                Poll::Ready(Ok(())) => {
                    let said = String::from_utf8_lossy(buf.filled()).replace("\r\n", " ");
                    text += &said;
                }
                Poll::Ready(Err(error)) => return text + &format!("({:?})", error.kind()),
            }
        }
    }

    fn ask(&mut self, line: &str) -> String {
        self.say(line).hear()
    }
}

/// What a client and a second one see of a short conversation, and the data afterwards.
fn converse(server: &Server) -> String {
    let mut seen = String::new();
    let (mut client, mut bystander) = (Raw::of(server), Raw::of(server));
    for line in ["SET k v PX 1000", "INCR n", "SUBSCRIBE c"] {
        let sent = client.offer(format!("{line}\r\n").as_bytes());
        let _infallible = writeln!(seen, "{line}: {sent} {}", client.hear());
    }
    let published = bystander.offer(b"PUBLISH c m\r\nECHO done\r\n");
    let heard = (client.hear(), bystander.hear());
    let _infallible = write!(seen, "{published} {heard:?}");
    server.clock().advance(ms(100));
    let heard = (client.hear(), bystander.hear());
    let _infallible = write!(seen, "later {heard:?}\n{}", server.snapshot());
    server.clock().advance(ms(1000));
    seen
}

/// Words that make a rule of each message fault.
fn arguments(name: &str) -> &'static [&'static [&'static str]] {
    match name {
        "delay" => &[
            &["50"],
            &["50", "DIRECTION", "request"],
            &["50", "DIRECTION", "reply"],
        ],
        "cut" => &[&["3", "DIRECTION", "request"], &["3", "DIRECTION", "reply"]],
        "disconnect" => &[
            &["DIRECTION", "request"],
            &["DIRECTION", "reply"],
            &["RESET", "DIRECTION", "request"],
            &["RESET", "DIRECTION", "reply"],
        ],
        "answer_error" => &[
            &["LOADING", "DIRECTION", "request"],
            &["ERR x", "DIRECTION", "reply"],
        ],
        "hold" | "half_open" | "stall" | "partition" => {
            &[&[], &["DIRECTION", "request"], &["DIRECTION", "reply"]]
        }
        "drop_request" | "drop_reply" => &[&[]],
        other => panic!("how to make a rule of {other}?"),
    }
}

/// Every variant of every fault changes what clients see, in a different way, and leaves no effect
/// behind.
#[tokio::test]
async fn every_message_fault_has_an_effect_and_leaves_no_trace() -> Test {
    let undisturbed = still(1).await?;
    let plain = converse(&undisturbed);
    Raw::of(&undisturbed).ask("FLUSHALL");
    let plain_again = converse(&undisturbed);
    assert!(
        plain.contains("message") && plain.contains("done"),
        "{plain}"
    );
    let mut rules = 0;
    for spec in FAULTS {
        if spec.placement == Placement::Node {
            continue;
        }
        let mut seen_before: Vec<String> = Vec::new();
        for words in arguments(spec.name) {
            let what = format!("{} {words:?}", spec.name);
            let server = still(1).await?;
            let rule =
                fault::parse(spec.name, *words).map_err(|error| format!("{what}: {error}"))?;
            let injected = server.inject_rule(rule);
            let seen = converse(&server);
            assert_ne!(seen, plain, "{what} changes nothing");
            assert!(injected.fired() > 0, "{what}");
            // Without a direction both are affected, and one of the two may be all that shows.
            if spec.placement == Placement::Either {
                assert!(!seen_before.contains(&seen), "{what} is as another: {seen}");
            }
            seen_before.push(seen);
            injected.remove();
            Raw::of(&server).ask("FLUSHALL");
            assert_eq!(converse(&server), plain_again, "{what} leaves a trace");
            assert_eq!(server.connections(), 0, "{what} keeps a connection");
            rules += 1;
        }
    }
    assert!(rules >= 20, "{rules}");
    Ok(())
}

#[test]
fn every_fault_of_a_node_has_a_test() {
    let tested = node::TESTS.map(|(name, _)| name);
    let nodes = FAULTS
        .iter()
        .filter(|spec| spec.placement == Placement::Node);
    let listed: Vec<_> = nodes.map(|spec| spec.name).collect();
    assert_eq!(listed, tested);
}

#[test]
fn faults_have_names_of_their_own_and_say_what_they_do() {
    let mut names: Vec<_> = FAULTS.iter().map(|spec| spec.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), FAULTS.len());
    for spec in FAULTS {
        assert!(spec.summary.len() > 20, "{}", spec.name);
        assert!(spec.help().len() > 1);
    }
}

/// A custom rule.
#[derive(Debug)]
struct SecondThoughts;

impl MessageRule for SecondThoughts {
    fn on_reply(
        &mut self,
        _: redouble::resp::Request<'_>,
        reply: &redouble::resp::Reply,
        _: &mut fault::RuleEnv<'_>,
    ) -> fault::Verdict {
        if reply.is_error() {
            fault::Verdict::Close
        } else {
            fault::Verdict::Pass
        }
    }
}

#[tokio::test]
async fn a_rule_may_be_of_the_callers_own() -> Test {
    let server = still(0).await?;
    let rule = server.inject_rule(SecondThoughts);
    let mut client = Raw::of(&server);
    assert_eq!(client.ask("PING"), "+PONG ");
    assert_eq!(client.ask("NONSENSE"), "(end)");
    rule.assert_fired(1);
    assert_eq!(format!("{rule:?}"), "SecondThoughts (fired 1 times)");
    Ok(())
}
