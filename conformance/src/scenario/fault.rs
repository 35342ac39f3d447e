//! Faults: in client processes, on their links, at the servers.

use crate::vocabulary::{Capability, OpId};
use serde::{Deserialize, Serialize};

/// Largest rate error of a clock that a lock has to tolerate if it promises to tolerate drift, in parts per million.
pub(crate) const DRIFT_PPM_MAX: i64 = 5_000;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    /// The client process is not scheduled; clocks, timers and the network run on.
    Pause {
        /// The client process.
        host: u8,
        /// Number of replies, of servers and of the resource, counted from the start of the fault. The pause begins when the last of them has arrived, before
        /// the process reads it, and ends with the fault. If fewer replies arrive, there is no pause.
        #[serde(default, skip_serializing_if = "is_zero")]
        after: u32,
    },
    /// The client's machine is suspended: its process does not run and its monotonic clock stands still.
    Suspend {
        /// The client process.
        host: u8,
    },
    /// Messages of one direction take longer; later ones wait behind them.
    Delay {
        /// The client whose link is slow.
        host: u8,
        /// The node at the other end; all nodes by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<u8>,
        /// Direction of the slow messages.
        direction: Direction,
        /// Additional delay, in milliseconds.
        by_ms: u64,
    },
    /// The first message during the fault breaks the connection.
    Cut {
        /// The client of the connection.
        host: u8,
        /// The node at the other end; every node by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<u8>,
        /// Message that is lost with the connection.
        lost: Lost,
    },
    /// No message arrives. Messages sent during the fault arrive at its end, as with TCP retransmission.
    Partition {
        /// The client that is cut off.
        host: u8,
        /// The node at the other end; all nodes by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<u8>,
        /// Direction without messages; both by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        direction: Option<Direction>,
    },
    /// A gate on the link: `after` messages pass, later ones wait until the fault or an operation ends. So it
    /// does not depend on timing which messages have arrived.
    Hold {
        /// The client of the link.
        host: u8,
        /// The node at the other end; every node by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<u8>,
        /// Direction of the gate.
        direction: Direction,
        /// Number of messages that pass.
        #[serde(default)]
        after: u32,
        /// Operation whose end opens the gate early.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<OpId>,
    },
    /// The client process crashes; at the end of the fault it starts again.
    Crash {
        /// The client process.
        host: u8,
    },
    /// The monotonic clock of the client process gains or loses.
    Drift {
        /// The client process.
        host: u8,
        /// Microseconds gained per second.
        ppm: i64,
    },
    /// The wall clock of the client process jumps, permanently.
    WallClock {
        /// The client process.
        host: u8,
        /// Distance of the jump in milliseconds; backwards if negative.
        by_ms: i64,
    },
    /// The node is paused; at the end of the fault it executes the requests that have arrived.
    NodePause {
        /// The node.
        node: u8,
    },
    /// The node crashes; at the end of the fault it is back.
    NodeCrash {
        /// The node.
        node: u8,
        /// True if it comes back with its data.
        keeps: bool,
    },
    /// The node replies to every request with an error and executes none.
    AnswerError {
        /// The node.
        node: u8,
        /// The error.
        error: ServerError,
    },
    /// The node loses all cached scripts.
    FlushScripts {
        /// The node.
        node: u8,
    },
    /// The clock of the node jumps, permanently.
    NodeClock {
        /// The node.
        node: u8,
        /// Distance of the jump in milliseconds; backwards if negative.
        by_ms: i64,
    },
    /// The clock of the node gains or loses.
    NodeDrift {
        /// The node.
        node: u8,
        /// Microseconds gained per second.
        ppm: i64,
    },
    /// The clock of the node stands still, and continues from there at the end of the fault.
    NodeFreeze {
        /// The node.
        node: u8,
    },
    /// The node evicts the key of the lock.
    Evict {
        /// The node.
        node: u8,
    },
    /// During the fault the replica receives no writes; then the master crashes and the replica takes over.
    FailOver,
    /// During the fault the replica serves one client as a master, and the old master serves the others; then
    /// the old master follows the new one.
    SplitBrain {
        /// The client that reaches the new master.
        host: u8,
    },
}

/// A direction on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Client to server.
    Requests,
    /// Server to client.
    Replies,
}

/// Message that is lost with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lost {
    /// The request: it never arrives.
    Request,
    /// The reply: the request was executed, but the client does not learn it.
    Reply,
    /// The request, for now: it arrives and is executed at the end of the fault.
    Late,
}

/// A transient error of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerError {
    /// The server is loading its data.
    Loading,
    /// A script has been running for too long.
    Busy,
    /// The server has become a replica.
    ReadOnly,
    /// The server has reached its memory limit.
    Oom,
    /// The server is a replica without a master.
    MasterDown,
}

impl ServerError {
    /// All of these errors.
    pub const ALL: [Self; 5] = [
        Self::Loading,
        Self::Busy,
        Self::ReadOnly,
        Self::Oom,
        Self::MasterDown,
    ];

    /// Returns the code of the error.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Loading => "LOADING",
            Self::Busy => "BUSY",
            Self::ReadOnly => "READONLY",
            Self::Oom => "OOM",
            Self::MasterDown => "MASTERDOWN",
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the form that serde asks for"
)]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Fault {
    fn host_mut(&mut self) -> Option<&mut u8> {
        match self {
            Self::Pause { host, .. }
            | Self::Suspend { host }
            | Self::Delay { host, .. }
            | Self::Hold { host, .. }
            | Self::Cut { host, .. }
            | Self::Partition { host, .. }
            | Self::Crash { host }
            | Self::Drift { host, .. }
            | Self::WallClock { host, .. }
            | Self::SplitBrain { host } => Some(host),
            Self::NodePause { .. }
            | Self::NodeCrash { .. }
            | Self::AnswerError { .. }
            | Self::FlushScripts { .. }
            | Self::NodeClock { .. }
            | Self::NodeDrift { .. }
            | Self::NodeFreeze { .. }
            | Self::Evict { .. }
            | Self::FailOver => None,
        }
    }

    fn node_mut(&mut self) -> Option<&mut u8> {
        match self {
            Self::NodePause { node }
            | Self::NodeCrash { node, .. }
            | Self::AnswerError { node, .. }
            | Self::FlushScripts { node }
            | Self::NodeClock { node, .. }
            | Self::NodeDrift { node, .. }
            | Self::NodeFreeze { node }
            | Self::Evict { node } => Some(node),
            Self::Delay { node, .. }
            | Self::Hold { node, .. }
            | Self::Cut { node, .. }
            | Self::Partition { node, .. } => node.as_mut(),
            Self::Pause { .. }
            | Self::Suspend { .. }
            | Self::Crash { .. }
            | Self::Drift { .. }
            | Self::WallClock { .. }
            | Self::FailOver
            | Self::SplitBrain { .. } => None,
        }
    }

    /// Returns the client process that the fault strikes, if any.
    #[must_use]
    pub fn host(mut self) -> Option<u8> {
        self.host_mut().copied()
    }

    /// Returns the node that the fault concerns, if it is a single one.
    #[must_use]
    pub fn node(mut self) -> Option<u8> {
        self.node_mut().copied()
    }

    /// Returns the same fault with another client process.
    #[must_use]
    pub fn with_host(mut self, to: impl FnOnce(u8) -> u8) -> Self {
        if let Some(host) = self.host_mut() {
            *host = to(*host);
        }
        self
    }

    /// Returns the same fault with another node.
    #[must_use]
    pub fn with_node(mut self, to: impl FnOnce(u8) -> u8) -> Self {
        if let Some(node) = self.node_mut() {
            *node = to(*node);
        }
        self
    }

    /// Returns the same fault on all links, if it is a network fault.
    #[must_use]
    pub fn on_all_links(mut self) -> Self {
        if let Self::Delay { node, .. }
        | Self::Hold { node, .. }
        | Self::Cut { node, .. }
        | Self::Partition { node, .. } = &mut self
        {
            *node = None;
        }
        self
    }

    /// Returns the same fault with mapped durations. Its own duration belongs to the event.
    #[must_use]
    pub fn map_ms(mut self, map: impl Fn(u64) -> u64) -> Self {
        match &mut self {
            Self::Delay { by_ms, .. } => *by_ms = map(*by_ms),
            Self::WallClock { by_ms, .. } | Self::NodeClock { by_ms, .. } => {
                let size = i64::try_from(map(by_ms.unsigned_abs())).unwrap_or(i64::MAX);
                *by_ms = size * by_ms.signum();
            }
            Self::Pause { .. }
            | Self::Suspend { .. }
            | Self::Hold { .. }
            | Self::Cut { .. }
            | Self::Partition { .. }
            | Self::Crash { .. }
            | Self::Drift { .. }
            | Self::NodePause { .. }
            | Self::NodeCrash { .. }
            | Self::AnswerError { .. }
            | Self::FlushScripts { .. }
            | Self::NodeDrift { .. }
            | Self::NodeFreeze { .. }
            | Self::Evict { .. }
            | Self::FailOver
            | Self::SplitBrain { .. } => {}
        }
        self
    }

    /// Returns the same fault, half as strong. A pause that waits for replies becomes one that begins at once.
    #[must_use]
    pub fn weaker(mut self) -> Self {
        if let Self::Pause { after, .. } = &mut self {
            *after = 0;
        }
        if let Self::Drift { ppm, .. } | Self::NodeDrift { ppm, .. } = &mut self {
            *ppm /= 2;
        }
        self.map_ms(|ms| ms / 2)
    }

    /// Returns true if the fault has no duration.
    #[must_use]
    pub const fn is_instant(self) -> bool {
        matches!(
            self,
            Self::WallClock { .. }
                | Self::FlushScripts { .. }
                | Self::NodeClock { .. }
                | Self::Evict { .. }
        )
    }

    /// Returns true if a server loses what a client stored on it.
    #[must_use]
    pub const fn loses_data(self) -> bool {
        matches!(
            self,
            Self::NodeCrash { keeps: false, .. }
                | Self::Evict { .. }
                | Self::FailOver
                | Self::SplitBrain { .. }
        )
    }

    /// Returns how long the fault lasts, in milliseconds, if a scenario draws it for this time. A server that crashes is away for a
    /// millisecond at least: what it stores before and after that has different times, as on a real server.
    #[must_use]
    pub const fn lasts_ms(self, for_ms: u64) -> u64 {
        if for_ms == 0 && matches!(self, Self::NodeCrash { .. }) {
            1
        } else {
            for_ms
        }
    }

    /// Returns the capability that a backend needs for it.
    #[must_use]
    pub const fn needs(self) -> Option<Capability> {
        match self {
            Self::Delay { .. }
            | Self::Hold { .. }
            | Self::Cut { .. }
            | Self::Partition { .. }
            | Self::Crash { .. }
            | Self::NodePause { .. } => None,
            Self::Pause { .. } => Some(Capability::ClientPause),
            Self::Suspend { .. } | Self::Drift { .. } => Some(Capability::ClientClock),
            Self::WallClock { .. } => Some(Capability::ClientWallClock),
            Self::NodeCrash { .. } => Some(Capability::NodeCrash),
            Self::AnswerError { .. } => Some(Capability::ErrorReplies),
            Self::FlushScripts { .. } | Self::Evict { .. } => Some(Capability::Forgetting),
            Self::NodeClock { .. } | Self::NodeDrift { .. } | Self::NodeFreeze { .. } => {
                Some(Capability::NodeClock)
            }
            Self::FailOver | Self::SplitBrain { .. } => Some(Capability::Replicas),
        }
    }

    /// Returns the nemesis for a lock that tolerates such a difference in rate between two clocks. Each clock takes half of it;
    /// a clock that is off by more is beyond the promise, and one that is off by less within it, whatever the usual bound.
    #[must_use]
    pub fn nemesis_for(self, drift_ppm: u32) -> &'static str {
        let within = |ppm: i64| ppm.unsigned_abs() <= u64::from(drift_ppm / 2);
        if drift_ppm == 0 {
            return self.nemesis();
        }
        if let Self::Drift { ppm, .. } = self {
            return if within(ppm) { "drift" } else { "drift-beyond" };
        }
        let Self::NodeDrift { ppm, .. } = self else {
            return self.nemesis();
        };
        if within(ppm) {
            "node-drift"
        } else if ppm > 0 {
            "node-fast"
        } else {
            "node-slow"
        }
    }

    /// Scales a drift within the usual bound down to what such a lock tolerates, if it tolerates less.
    pub(super) fn within_drift(self, drift_ppm: u32) -> Self {
        let tolerated = i64::from(drift_ppm).min(2 * DRIFT_PPM_MAX);
        let scaled = |ppm: i64| match ppm.abs() <= DRIFT_PPM_MAX && tolerated > 0 {
            true => ppm * tolerated / (2 * DRIFT_PPM_MAX),
            false => ppm,
        };
        let mut fault = self;
        if let Self::Drift { ppm, .. } | Self::NodeDrift { ppm, .. } = &mut fault {
            *ppm = scaled(*ppm);
        }
        fault
    }

    /// Returns the name of the nemesis that generates such faults.
    #[must_use]
    pub const fn nemesis(self) -> &'static str {
        match self {
            Self::Pause { .. } => "pause",
            Self::Suspend { .. } => "suspend",
            Self::Delay { .. } | Self::Hold { .. } => "delay",
            Self::Cut { .. } => "cut",
            Self::Partition { .. } => "partition",
            Self::Crash { .. } => "crash",
            Self::Drift { ppm, .. } if ppm.abs() > DRIFT_PPM_MAX => "drift-beyond",
            Self::Drift { .. } => "drift",
            Self::WallClock { .. } => "wall-clock",
            Self::NodePause { .. } => "node-pause",
            Self::NodeCrash { keeps: true, .. } => "node-crash",
            Self::NodeCrash { keeps: false, .. } => "node-amnesia",
            Self::AnswerError { .. } => "answer-error",
            Self::FlushScripts { .. } => "script-flush",
            Self::NodeClock { by_ms, .. } if by_ms > 0 => "node-clock-forward",
            Self::NodeClock { .. } => "node-clock-back",
            Self::NodeDrift { ppm, .. } if ppm > DRIFT_PPM_MAX => "node-fast",
            Self::NodeDrift { ppm, .. } if ppm < -DRIFT_PPM_MAX => "node-slow",
            Self::NodeDrift { .. } => "node-drift",
            Self::NodeFreeze { .. } => "node-freeze",
            Self::Evict { .. } => "eviction",
            Self::FailOver => "failover",
            Self::SplitBrain { .. } => "split-brain",
        }
    }
}
