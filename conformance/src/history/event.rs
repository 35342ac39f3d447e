//! Events of a run: which client called which operation, how the call ended, which faults struck, what the servers
//! stored.

use crate::{
    scenario::{Fault, Lost},
    vocabulary::{Actor, Holder, Mode, OpId, Refusal, Token},
};
use std::time::Duration;

/// Operation that a client calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Take the lock if it is free.
    Try {
        /// Mode in which the call takes the lock.
        mode: Mode,
    },
    /// Take the lock, and wait for it up to a limit.
    Acquire {
        /// Mode in which the call takes the lock.
        mode: Mode,
        /// Longest wait of the caller.
        wait: Duration,
    },
    /// Extend a grant.
    Renew {
        /// The grant to extend.
        grant: OpId,
    },
    /// Release a grant and report the result.
    Release {
        /// The grant to release.
        grant: OpId,
    },
    /// Release a grant by dropping its guard.
    Drop {
        /// The grant whose guard is dropped.
        grant: OpId,
    },
    /// Read the counter of the resource that the lock protects, and write this value plus one.
    Access {
        /// The grant under which the client accesses the resource.
        grant: OpId,
    },
    /// Set up a latch, or the stock of an admission counter.
    SetUp,
    /// Ask an admission counter to be among the first N, under a new name.
    Admit,
    /// Ask an admission counter again, under the name of an earlier call.
    AdmitAgain {
        /// The first call under this name.
        of: OpId,
    },
    /// Count a latch down by one.
    CountDown,
    /// Wait until the count of a latch is 0.
    Await {
        /// Longest wait of the caller.
        wait: Duration,
    },
}

impl Call {
    /// Mode in which the call takes the lock; `None` if the call cannot win a grant.
    #[must_use]
    pub const fn mode(self) -> Option<Mode> {
        match self {
            Self::Try { mode } | Self::Acquire { mode, .. } => Some(mode),
            Self::Renew { .. }
            | Self::Release { .. }
            | Self::Drop { .. }
            | Self::Access { .. }
            | Self::SetUp
            | Self::Admit
            | Self::AdmitAgain { .. }
            | Self::CountDown
            | Self::Await { .. } => None,
        }
    }

    /// True if the call can win a grant.
    #[must_use]
    pub const fn acquires(self) -> bool {
        self.mode().is_some()
    }

    /// Refusal that the call means when the lock answers "no".
    #[must_use]
    pub const fn refusal(self) -> Refusal {
        match self {
            Self::Try { .. }
            | Self::SetUp
            | Self::Admit
            | Self::AdmitAgain { .. }
            | Self::CountDown => Refusal::Contended,
            Self::Acquire { .. } | Self::Await { .. } => Refusal::TimedOut,
            Self::Renew { .. } | Self::Release { .. } | Self::Drop { .. } => Refusal::Lost,
            Self::Access { .. } => Refusal::Fenced,
        }
    }

    /// The grant that the call extends or releases.
    #[must_use]
    pub const fn of_grant(self) -> Option<OpId> {
        if let Self::Renew { grant } = self {
            return Some(grant);
        }
        self.gives_back()
    }

    /// The grant that the call releases, by a release or by dropping the guard.
    #[must_use]
    pub const fn gives_back(self) -> Option<OpId> {
        match self {
            Self::Release { grant } | Self::Drop { grant } => Some(grant),
            Self::Try { .. }
            | Self::Acquire { .. }
            | Self::Renew { .. }
            | Self::Access { .. }
            | Self::SetUp
            | Self::Admit
            | Self::AdmitAgain { .. }
            | Self::CountDown
            | Self::Await { .. } => None,
        }
    }
}

/// Error text of an operation whose future the caller dropped before the operation ended.
pub const CANCELLED: &str = "cancelled";

/// Cause of a change at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A request of this client arrived.
    Client(u8),
    /// No client: a key expired, or a master replicated a write to its replica.
    Server,
    /// A fault: the server lost data, or its clock was moved.
    Fault,
}

/// Kind of access to the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The client reads the counter.
    Read,
    /// The client sets the counter.
    Write,
}

/// One event of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// An operation begins.
    Invoke {
        /// Its id.
        op: OpId,
        /// The calling client.
        actor: Actor,
        /// The operation that the client calls.
        call: Call,
    },
    /// A waiting operation that the suite drives as a loop of tries sends its next try.
    Attempt {
        /// The waiting operation.
        op: OpId,
    },
    /// An operation has definitely happened.
    Ok {
        /// The operation.
        op: OpId,
        /// For grants and renewals: true time until which the holder may rely on the grant.
        deadline: Option<Duration>,
        /// For grants: the fencing token, if the lock has fencing tokens.
        fence: Option<u64>,
        /// For a call that was counted: its place, from 1, if the lock reports places.
        number: Option<u32>,
        /// For grants: the token that the servers store for the grant, if the subject names it.
        token: Option<Token>,
    },
    /// An operation has definitely not happened.
    Fail {
        /// The operation.
        op: OpId,
        /// Reason. For releases, [`Refusal::Lost`] says that the grant was gone already.
        why: Refusal,
    },
    /// The outcome of an operation is unknown.
    Info {
        /// The operation.
        op: OpId,
        /// Error that the caller got.
        error: String,
    },
    /// The deadline of a held grant changed without a call, for instance because its watchdog renewed the lease.
    Deadline {
        /// The grant.
        grant: OpId,
        /// The new deadline in true time; `None` if the guard says that the grant is lost.
        deadline: Option<Duration>,
    },
    /// The lock reported to the holder that its grant is lost.
    Lost {
        /// The grant.
        grant: OpId,
    },
    /// A client process stops being scheduled.
    Pause {
        /// The client process.
        host: u8,
    },
    /// A paused client process is scheduled again.
    Resume {
        /// The client process.
        host: u8,
    },
    /// A client process dies.
    Crash {
        /// The client process.
        host: u8,
    },
    /// A dead client process starts again.
    Restart {
        /// The client process.
        host: u8,
    },
    /// The code under test panicked. Its process is dead from now on.
    Panic {
        /// The client process.
        host: u8,
        /// The panic message.
        message: String,
    },
    /// A fault cut a connection.
    Cut {
        /// The client process of the connection.
        host: u8,
        /// The node of the connection.
        node: u8,
        /// Message that was lost with the connection.
        lost: Lost,
    },
    /// A fault of a node, of a clock or of the network begins: one that has no event of its own.
    Strikes {
        /// The fault.
        fault: Fault,
    },
    /// A fault that a [`What::Strikes`] began ends.
    Heals {
        /// The fault.
        fault: Fault,
    },
    /// A replica has become the master.
    Promoted {
        /// The node.
        node: u8,
    },
    /// The holders that a node stores for the lock change (double only).
    Server {
        /// The node.
        node: u8,
        /// Cause of the change.
        cause: Cause,
        /// Stored holders whose tokens are known.
        stored: Vec<Holder>,
        /// Number of holders that the node counts without storing their tokens.
        anonymous: u32,
    },
    /// The queue of waiters that a node stores changes (double only).
    Queue {
        /// The node.
        node: u8,
        /// Cause of the change.
        cause: Cause,
        /// Tokens of the waiters, in queue order. For an admission counter: names of the admitted clients.
        waiting: Vec<Vec<u8>>,
    },
    /// Data, subscriptions and tasks that are left when all calls have returned, no client holds the lock and no
    /// message is in flight (double only). The suite records the event again when they change.
    Remains {
        /// Keys of all nodes, without the keys that may stay.
        keys: Vec<Vec<u8>>,
        /// Keys among them that have no expiry although the lock gives each key an expiry.
        endless: Vec<Vec<u8>>,
        /// Number of channels and patterns to which connections are still subscribed.
        subscriptions: usize,
        /// Number of tasks of client processes that still run, without the drivers of open connections.
        tasks: usize,
    },
    /// A message of an access arrived at the resource.
    Resource {
        /// The grant that the message names.
        grant: OpId,
        /// The fencing token that the message carries.
        fence: Option<u64>,
        /// Kind of access.
        access: Access,
        /// Value that was read or written, or would have been.
        value: u64,
        /// True if the resource refused the message because of its fencing token.
        refused: bool,
    },
}
