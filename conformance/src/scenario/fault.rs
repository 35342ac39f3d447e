//! What can go wrong: in client processes, on their links, at the servers.

use super::nemesis::DRIFT_PPM_MAX;
use crate::history::OpId;
use serde::{Deserialize, Serialize};

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    /// The client process is not scheduled; clocks, timers and the network run on.
    Pause {
        /// Which process.
        host: u8,
    },
    /// The client's machine is suspended: its process does not run and its monotonic clock stands
    /// still.
    Suspend {
        /// Which process.
        host: u8,
    },
    /// Messages of one direction take longer; later ones wait behind them.
    Delay {
        /// Whose link.
        host: u8,
        /// To which node; to all if not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<u8>,
        /// Which way.
        direction: Direction,
        /// How much longer, in milliseconds.
        by_ms: u64,
    },
    /// The first message of the span ends the connection.
    Cut {
        /// Whose connection.
        host: u8,
        /// To which node; to each if not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<u8>,
        /// What is lost with it.
        lost: Lost,
    },
    /// Nothing passes; what is sent arrives after the span, as TCP sends it again.
    Partition {
        /// Whose link.
        host: u8,
        /// To which node; to all if not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<u8>,
        /// Which way; both if not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        direction: Option<Direction>,
    },
    /// A gate on the link: from its beginning on so many messages pass, later ones wait for the end of
    /// the span, or of an operation. What a client has then heard and what it has not is no matter of
    /// time.
    Hold {
        /// Whose link.
        host: u8,
        /// To which node; to each if not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<u8>,
        /// Which way.
        direction: Direction,
        /// How many messages pass.
        #[serde(default)]
        after: u32,
        /// The operation whose end opens the gate early.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<OpId>,
    },
    /// The client process dies; after the span it starts anew.
    Crash {
        /// Which process.
        host: u8,
    },
    /// The monotonic clock of the client process gains or loses.
    Drift {
        /// Which process.
        host: u8,
        /// Microseconds gained per second.
        ppm: i64,
    },
    /// The wall clock of the client process is set, for good.
    WallClock {
        /// Which process.
        host: u8,
        /// How far forward, in milliseconds; back if negative.
        by_ms: i64,
    },
    /// The node serves nobody; what it was sent is executed after the span.
    NodePause {
        /// Which node.
        node: u8,
    },
    /// The node dies; after the span it is back.
    NodeCrash {
        /// Which node.
        node: u8,
        /// Whether it has its data then.
        keeps: bool,
    },
    /// The node answers every request with an error and executes none.
    AnswerError {
        /// Which node.
        node: u8,
        /// Which error.
        error: ServerError,
    },
    /// The node forgets all scripts.
    FlushScripts {
        /// Which node.
        node: u8,
    },
    /// The clock of the node is set, for good.
    NodeClock {
        /// Which node.
        node: u8,
        /// How far forward, in milliseconds; back if negative.
        by_ms: i64,
    },
    /// The clock of the node gains or loses.
    NodeDrift {
        /// Which node.
        node: u8,
        /// Microseconds gained per second.
        ppm: i64,
    },
    /// The clock of the node stands still, and goes on from there after the span.
    NodeFreeze {
        /// Which node.
        node: u8,
    },
    /// The node evicts the key of the lock.
    Evict {
        /// Which node.
        node: u8,
    },
    /// During the span nothing reaches the replica; then the master dies and the replica takes over.
    FailOver,
    /// During the span the replica serves one client as a master and the old master the others; then
    /// the old master follows the new one.
    SplitBrain {
        /// The client that sees the new master.
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

/// What a cut connection takes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lost {
    /// The request: it never arrives.
    Request,
    /// The reply: the request was executed, nobody hears of it.
    Reply,
    /// The request for now: it arrives and is executed at the end of the span.
    Late,
}

/// An error that a server answers in a state that passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerError {
    /// It reads its data after a start.
    Loading,
    /// A script has been running for too long.
    Busy,
    /// It has become a replica.
    ReadOnly,
    /// Its memory is full.
    Oom,
    /// It is a replica without a master.
    MasterDown,
}

impl ServerError {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Loading,
        Self::Busy,
        Self::ReadOnly,
        Self::Oom,
        Self::MasterDown,
    ];

    /// The code of the error.
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

/// What a backend must be able to do for a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// To offer several servers that know nothing of each other.
    SeveralNodes,
    /// To offer a master with replicas, and to fail over.
    Replicas,
    /// To kill a server and to start it again.
    NodeCrash,
    /// To answer errors in a server's name.
    ErrorReplies,
    /// To make a server forget its scripts, or a key.
    Forgetting,
    /// To set and to bend the clock of a server.
    NodeClock,
    /// To pause a client.
    ClientPause,
    /// To bend the clock of a client, and to stop it.
    ClientClock,
    /// To set the wall clock of a client.
    ClientWallClock,
}

impl Capability {
    /// The capability in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SeveralNodes => "several nodes",
            Self::Replicas => "replicas",
            Self::NodeCrash => "killing a node",
            Self::ErrorReplies => "error replies",
            Self::Forgetting => "forgetting",
            Self::NodeClock => "moving a node's clock",
            Self::ClientPause => "pausing a client",
            Self::ClientClock => "moving a client's clock",
            Self::ClientWallClock => "setting a client's wall clock",
        }
    }
}

impl Fault {
    fn host_mut(&mut self) -> Option<&mut u8> {
        match self {
            Self::Pause { host }
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

    /// The client process that it strikes, if it strikes one.
    #[must_use]
    pub fn host(mut self) -> Option<u8> {
        self.host_mut().copied()
    }

    /// The node that it concerns, if it is one.
    #[must_use]
    pub fn node(mut self) -> Option<u8> {
        self.node_mut().copied()
    }

    /// The same with another client process, if it strikes one.
    #[must_use]
    pub fn with_host(mut self, to: impl FnOnce(u8) -> u8) -> Self {
        if let Some(host) = self.host_mut() {
            *host = to(*host);
        }
        self
    }

    /// The same with another node, if it concerns one.
    #[must_use]
    pub fn with_node(mut self, to: impl FnOnce(u8) -> u8) -> Self {
        if let Some(node) = self.node_mut() {
            *node = to(*node);
        }
        self
    }

    /// The same on all links, if it is one of the network.
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

    /// The same with other durations, those of its own; its span is the event's.
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

    /// The same, half as strong.
    #[must_use]
    pub fn weaker(mut self) -> Self {
        if let Self::Drift { ppm, .. } | Self::NodeDrift { ppm, .. } = &mut self {
            *ppm /= 2;
        }
        self.map_ms(|ms| ms / 2)
    }

    /// Whether it is over as soon as it has struck, so that its span means nothing.
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

    /// What a backend must be able to do for it.
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

    /// The nemesis that makes such faults.
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
