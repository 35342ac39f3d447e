//! Which policy holds for a long script depends on its caller alone, not on the thread that happens to start it.
//!
//! The script of a caller in process is given up after a number of instructions, because it keeps the caller's
//! thread. The script of a caller over a socket runs until it ends. Each script here is finite and runs for longer
//! than the number of instructions, so its reply shows which policy held.

use super::Test;
use super::starts::{BUSY, Stream, Transport, ask, line, open, send, tcp, until};
use redouble::fault::{Gate, Hold};
use redouble::{Clock, Server, TimeSource};
use std::io::{BufRead, BufReader, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const INSTRUCTIONS_MAX: u64 = 200_000;
/// Runs for several times `INSTRUCTIONS_MAX`.
const SCRIPT: &str = "local t = 0 for i = 1, 1000000 do t = t + 1 end return t";

/// The thread that starts the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Starter {
    /// The thread of the sockets, when a pause of all clients ends.
    Sockets,
    /// A thread of the test, which opens a gate.
    Gate,
    /// A thread of the test, which lets time pass on a manual clock.
    Advance,
    /// A thread of the test, which resumes the node.
    Resume,
}

const STARTERS: [Starter; 4] = [
    Starter::Sockets,
    Starter::Gate,
    Starter::Advance,
    Starter::Resume,
];

/// Has the script of the caller started by this thread.
fn start(starter: Starter, server: &Server, caller: &mut dyn Stream) -> Test {
    let eval = ["EVAL", SCRIPT, "0"];
    // A connection that the node has not met is in no diagnosis.
    assert_eq!(ask(&mut &mut *caller, &["PING"])?, "+PONG");
    match starter {
        Starter::Sockets => {
            let mut admin = tcp(server)?;
            let pause = ["CLIENT", "PAUSE", "100", "WRITE"];
            assert_eq!(ask(&mut admin, &pause)?, "+OK");
            send(&mut &mut *caller, &eval)?;
        }
        Starter::Gate => {
            let gate = Gate::new();
            let rule = server.inject(Hold::request(&gate).command("EVAL"));
            send(&mut &mut *caller, &eval)?;
            until("the request is held", || gate.waiting() == 1);
            gate.open();
            drop(rule);
        }
        Starter::Advance => {
            let mut admin = tcp(server)?;
            let pause = ["CLIENT", "PAUSE", "50000", "WRITE"];
            assert_eq!(ask(&mut admin, &pause)?, "+OK");
            send(&mut &mut *caller, &eval)?;
            until("the request is postponed", || {
                let history = server.history();
                let mut requests = history.entries().map(|entry| entry.request.to_string());
                requests.any(|request| request.starts_with("EVAL"))
            });
            server.clock().advance(Duration::from_secs(60));
        }
        Starter::Resume => {
            let pause = server.pause();
            send(&mut &mut *caller, &eval)?;
            until("the request waits", || {
                !server.diagnosis().unserved.is_empty()
            });
            drop(pause);
        }
    }
    Ok(())
}

fn check(transport: Transport, starter: Starter) -> Test {
    let clock = if starter == Starter::Advance {
        Clock::Manual
    } else {
        Clock::System
    };
    let server = Server::builder()
        .history(100)
        .clock(clock)
        .configure(|config| {
            // After it gave up a script, the node sleeps for so long before it answers -BUSY.
            config.busy_reply_threshold = Duration::from_millis(100);
            config.script_instructions_max = INSTRUCTIONS_MAX;
        })
        .start_blocking()?;
    let mut caller = open(&server, transport)?;
    start(starter, &server, &mut *caller)?;
    let mut other = tcp(&server)?;
    if transport == Transport::InProcess {
        until(
            "the script is given up",
            || matches!(ask(&mut other, &["GET", "k"]), Ok(reply) if reply == BUSY),
        );
        assert_eq!(ask(&mut other, &["SCRIPT", "KILL"])?, "+OK");
        let killed = line(&mut caller)?;
        assert!(killed.starts_with("-ERR Script killed by user"), "{killed}");
    } else {
        assert_eq!(line(&mut caller)?, ":1000000");
    }
    assert_eq!(ask(&mut other, &["GET", "k"])?, "$-1", "no longer busy");
    assert_eq!(
        ask(&mut other, &["SCRIPT", "KILL"])?,
        "-NOTBUSY No scripts in execution right now."
    );
    Ok(())
}

#[test]
fn a_script_of_a_socket_runs_to_its_end_on_any_thread() -> Test {
    for starter in STARTERS {
        check(Transport::Tcp, starter).map_err(|error| format!("{starter:?}: {error}"))?;
    }
    Ok(())
}

#[test]
fn a_script_of_a_caller_in_process_is_given_up_on_any_thread() -> Test {
    for starter in STARTERS {
        check(Transport::InProcess, starter).map_err(|error| format!("{starter:?}: {error}"))?;
    }
    Ok(())
}

/// A clock that moves by a second each time it is read.
#[derive(Debug, Default)]
struct Readings(AtomicU64);

impl TimeSource for Readings {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn sleep_until(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}

/// Deadlines of two keys, set by one write with this script between them.
fn deadlines_around(script: &str) -> Result<(String, String), Box<dyn std::error::Error>> {
    let clock = Clock::External(Arc::new(Readings::default()));
    let server = Server::builder().clock(clock).start_blocking()?;
    let mut stream = std::net::TcpStream::connect(server.addr())?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let all = format!(
        "SET a v EX 100\r\nPEXPIRETIME a\r\nEVAL \"{script}\" 0\r\nSET b v EX 100\r\nPEXPIRETIME b\r\n"
    );
    stream.write_all(all.as_bytes())?;
    let mut lines = BufReader::new(stream).lines();
    let mut line = || {
        lines
            .next()
            .ok_or("no reply")?
            .map_err(Box::<dyn std::error::Error>::from)
    };
    line()?;
    let before = line()?;
    line()?;
    line()?;
    Ok((before, line()?))
}

/// Requests behind a long script in one write see the time at which they run.
#[test]
fn the_clock_is_read_again_behind_a_long_script() -> Test {
    let (before, after) = deadlines_around("return 1")?;
    assert_eq!(before, after);
    let (before, after) = deadlines_around(SCRIPT)?;
    assert!(before < after, "{before} and {after}");
    Ok(())
}
