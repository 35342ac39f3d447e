//! The reasons why a test hangs: clients that wait, and what keeps the server from serving them.

use crate::client_connection::ClientConnection;
use crate::engine::{NodeApi, UnixMicros, UnixMillis, Waiting};
use crate::node::{Node, SharedNode};
use crate::node_handle::{ClockKind, TrueTime};
use crate::resp::{OwnedRequest, quoted};
use crate::server::Server;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Number of tries to lock a node that another thread has, a millisecond apart.
const TRIES: u32 = 250;

/// The state of a server for a test that hangs: [`Server::diagnosis`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Diagnosis {
    /// Which clock the server is on.
    pub clock: ClockKind,
    /// Time that the clock shows.
    pub now: UnixMicros,
    /// How far it is ahead of true time, in microseconds.
    pub offset_us: i64,
    /// Microseconds that the clock gains in a second of true time.
    pub drift_ppm: i32,
    /// Whether it was frozen.
    pub is_frozen: bool,
    /// How much of true time passes until the server has something to do; `None` for never, or when
    /// that is unknown.
    pub next_due: Option<Duration>,
    /// Reasons why the server serves no client; empty if it serves them.
    pub held: Vec<Held>,
    /// Requests that wait, in the order in which they began.
    pub waiting: Vec<Waiting>,
    /// Connections with a request that has no reply and waits for no key; oldest first.
    pub unserved: Vec<Unserved>,
}

/// A reason why a server serves no client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Held {
    /// [`Server::pause`].
    Paused,
    /// DEBUG SLEEP, or a script that was given up, until this instant of the server's clock.
    Asleep(UnixMicros),
    /// CLIENT PAUSE, until this instant of the server's clock; perhaps of writes alone.
    ClientsPaused(UnixMillis),
    /// A script runs, or was given up; SCRIPT KILL ends it.
    InScript,
    /// SHUTDOWN, or the server was dropped.
    Down,
}

/// A connection with a request that has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unserved {
    /// Its number among the clients.
    pub client_id: u64,
    /// The name it gave itself; empty if none.
    pub client_name: Vec<u8>,
    /// Where it comes from.
    pub addr: String,
    /// The request that is held up, if it was looked at.
    pub request: Option<OwnedRequest>,
    /// Bytes that have come and were not looked at.
    pub input_bytes: usize,
    /// Why.
    pub reason: Reason,
}

/// Why a connection is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It has sent more behind a request that waits.
    BehindItsOwn,
    /// The server serves no client: [`Held`] has the reason.
    Held,
    /// A fault delays its request until this point of true time.
    Delayed(UnixMicros),
    /// A fault holds its request until a gate opens, or a partition heals.
    AtGate,
    /// A fault has dropped a request, and drops all that follows.
    Dropped,
    /// It does not read its replies.
    DoesNotRead,
    /// Its request is not complete.
    Incomplete,
}

impl Server {
    /// The state of the server, for a test that hangs. Waits for a moment when the
    /// server is in a script, and then says so.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// use redis::AsyncTypedCommands;
    /// use redouble::{Clock, Server};
    ///
    /// let server = Server::builder().clock(Clock::Manual).start().await?;
    /// let mut redis = server.connection().await?;
    /// let waiter = tokio::spawn(async move { redis.blpop("jobs", 5.0).await });
    /// while server.waiting().is_empty() {
    ///     tokio::task::yield_now().await;
    /// }
    /// let diagnosis = server.diagnosis();
    /// assert_eq!(diagnosis.waiting[0].keys, [b"jobs"]);
    /// assert!(diagnosis.to_string().contains("BLPOP jobs 5"), "{diagnosis}");
    /// server.clock().advance(diagnosis.next_due.expect("a timeout"));
    /// assert_eq!(waiter.await??, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn diagnosis(&self) -> Diagnosis {
        Diagnosis::of(&self.handle.shared, &self.handle.time)
    }
}

impl Diagnosis {
    pub(super) fn of(shared: &SharedNode, time: &TrueTime) -> Self {
        let (now, map) = (time.source.now(), shared.clock.map());
        let mut diagnosis = Self {
            clock: time.source.kind(),
            now: shared.node_time(now),
            offset_us: shared.node_time(now).0.saturating_sub(now.0),
            drift_ppm: map.drift_ppm(),
            is_frozen: map.is_frozen(),
            next_due: None,
            held: Vec::new(),
            waiting: Vec::new(),
            unserved: Vec::new(),
        };
        diagnosis
            .held
            .extend(shared.is_down().then_some(Held::Down));
        let node = (0..TRIES).find_map(|_| {
            let node = shared.try_node();
            if node.is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            node
        });
        match node {
            Some(node) => diagnosis.look_into(&node, shared, now),
            None => diagnosis.held.push(Held::InScript),
        }
        diagnosis
    }

    fn look_into(&mut self, node: &Node, shared: &SharedNode, now: UnixMicros) {
        let due = node.poll_timeout(shared);
        self.next_due = due.map(|due| {
            let micros = due.0.saturating_sub(now.0).max(0);
            Duration::from_micros(micros.unsigned_abs())
        });
        let held = [
            node.is_paused().then_some(Held::Paused),
            node.stalled_until().map(Held::Asleep),
            node.engine.paused_until().map(Held::ClientsPaused),
            node.engine.is_busy().then_some(Held::InScript),
        ];
        self.held.extend(held.into_iter().flatten());
        self.waiting = node.engine.waiting();
        let connections = shared.connections();
        let unserved = connections
            .iter()
            .filter_map(|connection| self.unserved(node, connection));
        self.unserved = unserved.collect();
    }

    fn unserved(&self, node: &Node, connection: &Arc<ClientConnection>) -> Option<Unserved> {
        let conn = *connection.conn.get()?;
        let input = connection.input();
        let input_bytes = input.requests.buffered_bytes();
        let is_waiting = self.waiting.iter().any(|waiting| waiting.conn == conn);
        let is_full = connection.output().is_full();
        let (reason, request) = match (input.requests.postponed(), &input.parked) {
            (Some(postponed), _) => {
                let at_gate = postponed.wait.is_at_gate().then_some(Reason::AtGate);
                let due = postponed.wait.until.unwrap_or_default();
                (
                    at_gate.unwrap_or(Reason::Delayed(due)),
                    Some(&postponed.request),
                )
            }
            _ if input.requests.is_silenced() => (Reason::Dropped, None),
            (None, Some(_)) if is_waiting && input_bytes > 0 => (Reason::BehindItsOwn, None),
            (None, Some(_)) if is_waiting => return None,
            (None, Some(request)) => (Reason::Held, Some(request)),
            (None, None) if input_bytes == 0 => return None,
            (None, None) if input.is_queued => (Reason::Held, None),
            (None, None) if is_full => (Reason::DoesNotRead, None),
            (None, None) => (Reason::Incomplete, None),
        };
        Some(Unserved {
            client_id: conn.client_id(),
            client_name: node.engine.name(conn).to_vec(),
            addr: connection.addr.clone(),
            request: request.cloned(),
            input_bytes,
            reason,
        })
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the {} clock shows {} ms",
            self.clock,
            self.now.millis().0
        )?;
        if self.offset_us != 0 {
            write!(f, ", {:+} us from true time", self.offset_us)?;
        }
        if self.drift_ppm != 0 {
            write!(f, ", drifts {:+} ppm", self.drift_ppm)?;
        }
        f.write_str(if self.is_frozen { ", frozen\n" } else { "\n" })?;
        match self.next_due {
            Some(due) => writeln!(f, "the next deadline is {due:?} ahead")?,
            None => writeln!(f, "no deadline is ahead")?,
        }
        self.held
            .iter()
            .try_for_each(|held| writeln!(f, "{held}"))?;
        if self.waiting.is_empty() {
            writeln!(f, "no client waits for a key")?;
        }
        let mut waiting = self.waiting.iter();
        waiting.try_for_each(|waiting| writeln!(f, "{waiting}"))?;
        let mut unserved = self.unserved.iter();
        unserved.try_for_each(|unserved| writeln!(f, "{unserved}"))
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused => write!(f, "the server is paused: Server::resume"),
            Self::Asleep(until) => write!(f, "the server sleeps until {} ms", until.millis().0),
            Self::ClientsPaused(until) => {
                write!(f, "CLIENT PAUSE holds clients until {} ms", until.0)
            }
            Self::InScript => write!(f, "a script has the server: SCRIPT KILL"),
            Self::Down => write!(f, "the server has ended"),
        }
    }
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {} ", self.client_id)?;
        if !self.client_name.is_empty() {
            write!(f, "{} ", quoted(&self.client_name))?;
        }
        write!(f, "({}) is not served, {}", self.addr, self.reason)?;
        if self.input_bytes > 0 {
            write!(f, ", {} bytes", self.input_bytes)?;
        }
        match &self.request {
            Some(request) => write!(f, ": {request}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BehindItsOwn => write!(f, "behind its own request that waits"),
            Self::Held => write!(f, "because the server serves no client"),
            Self::Delayed(until) => write!(f, "delayed until {} ms", until.millis().0),
            Self::AtGate => f.write_str("held at a gate"),
            Self::Dropped => write!(f, "because a fault drops its requests"),
            Self::DoesNotRead => write!(f, "because it does not read its replies"),
            Self::Incomplete => write!(f, "because its request is not complete"),
        }
    }
}
