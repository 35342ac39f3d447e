//! An example: an adapter in Rust. `conformance/ADAPTER.md` describes what it speaks. Locks in Rust can be judged without
//! one as well: `tests/in_process.rs` does so with the same two.

use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    io::{self, BufRead, Write},
    process,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

/// The first line: which lock it is, and what it promises.
#[derive(Debug, Serialize)]
pub struct Hello {
    /// How reports call it.
    pub name: String,
    /// How many independent servers it wants.
    pub nodes: usize,
    /// Its grants carry a deadline.
    pub deadline: bool,
    /// How far clocks may run apart, in millionths.
    pub drift_ppm: u32,
}

/// What came of a request.
#[derive(Debug, Serialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// It happened.
    Ok {
        /// Until when a grant may be relied on, on CLOCK_MONOTONIC.
        #[serde(skip_serializing_if = "Option::is_none")]
        deadline_ns: Option<u64>,
    },
    /// It did not happen.
    Refused,
    /// The outcome is unknown.
    Unknown {
        /// The client's error.
        error: String,
    },
    /// There is no such operation.
    Unsupported,
}

/// A lock as an adapter uses it: blocking, from a thread for each task.
pub trait Lock: Send + Sync + 'static {
    /// Makes the lock object of this process.
    fn open(nodes: &[String], key: &str, lease: Duration) -> Self;
    /// Takes the lock if it is free; the grant is named `id` from then on.
    fn try_lock(&self, id: u64) -> Answer;
    /// Extends a grant by the lease.
    fn renew(&self, grant: u64) -> Answer {
        let _ = grant;
        Answer::Unsupported
    }
    /// Gives a grant back.
    fn release(&self, grant: u64) -> Answer;
}

#[derive(Debug, Deserialize)]
struct Request {
    id: u64,
    task: u32,
    #[serde(flatten)]
    op: Op,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Op {
    Open {
        nodes: Vec<String>,
        key: String,
        lease_ms: u64,
    },
    Try,
    Renew {
        grant: u64,
    },
    Release {
        grant: u64,
    },
    Crash,
    #[serde(other)]
    Unsupported,
}

#[derive(Debug, Serialize)]
struct Reply {
    id: u64,
    #[serde(flatten)]
    answer: Answer,
}

/// Serves a lock until the standard input ends.
///
/// # Errors
/// If what comes is no request.
pub fn serve<L: Lock>(hello: &Hello) -> io::Result<()> {
    say(hello)?;
    let mut lock: Option<Arc<L>> = None;
    let mut tasks: HashMap<u32, mpsc::Sender<(u64, Op)>> = HashMap::new();
    for line in io::stdin().lock().lines() {
        let Request { id, task, op } = serde_json::from_str(&line?)?;
        match (op, &lock) {
            (Op::Crash, _) => break,
            (
                Op::Open {
                    nodes,
                    key,
                    lease_ms,
                },
                _,
            ) => {
                lock = Some(Arc::new(L::open(
                    &nodes,
                    &key,
                    Duration::from_millis(lease_ms),
                )));
                let answer = Answer::Ok { deadline_ns: None };
                say(&Reply { id, answer })?;
            }
            (op, Some(lock)) => {
                let requests = tasks.entry(task).or_insert_with(|| {
                    let (sender, requests) = mpsc::channel();
                    let lock = Arc::clone(lock);
                    thread::spawn(move || work(&*lock, &requests));
                    sender
                });
                // A task whose output is gone has ended; so will this loop.
                let _ = requests.send((id, op));
            }
            (_, None) => {
                let answer = Answer::Unsupported;
                say(&Reply { id, answer })?;
            }
        }
    }
    process::exit(0) // at once: nothing is given back
}

fn work<L: Lock>(lock: &L, requests: &mpsc::Receiver<(u64, Op)>) {
    while let Ok((id, op)) = requests.recv() {
        let answer = match op {
            Op::Try => lock.try_lock(id),
            Op::Renew { grant } => lock.renew(grant),
            Op::Release { grant } => lock.release(grant),
            Op::Open { .. } | Op::Crash | Op::Unsupported => Answer::Unsupported,
        };
        if say(&Reply { id, answer }).is_err() {
            return;
        }
    }
}

fn say(line: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, line)?;
    writeln!(out)?;
    out.flush()
}

/// CLOCK_MONOTONIC after so many milliseconds more.
#[must_use]
pub fn monotonic_ns_in(millis: usize) -> Option<u64> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).ok()?;
    let nanos = u64::try_from(now.tv_nsec).ok()?;
    let more = u64::try_from(millis).ok()?.saturating_mul(1_000_000);
    let now = seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
    Some(now.saturating_add(more))
}

/// How many servers the command line asks for.
#[must_use]
pub fn nodes_wanted() -> usize {
    let first = std::env::args().nth(1);
    first.and_then(|count| count.parse().ok()).unwrap_or(1)
}
