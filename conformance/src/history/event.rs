//! The entries of a history: calls of clients with their ends, faults, and what the servers store.

use crate::{
    scenario::{Fault, Lost},
    vocabulary::{Actor, Holder, Mode, OpId, Refusal, Token},
};
use std::time::Duration;

/// The request of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Acquire the lock if it is free.
    Try {
        /// Whether the grant is shared or exclusive.
        mode: Mode,
    },
    /// Acquire the lock, and wait for it if another client holds it.
    Acquire {
        /// Whether the grant is shared or exclusive.
        mode: Mode,
        /// Longest time that the call may wait.
        wait: Duration,
    },
    /// Extend a grant.
    Renew {
        /// The grant to extend.
        grant: OpId,
    },
    /// Release a grant and receive the result.
    Release {
        /// The grant to release.
        grant: OpId,
    },
    /// Release a grant by dropping its guard.
    Drop {
        /// The grant whose guard is dropped.
        grant: OpId,
    },
    /// Read the counter of the resource that the lock protects, and write that value plus one.
    Access {
        /// The grant that permits the access.
        grant: OpId,
    },
    /// Set up a latch or a counter of admissions.
    SetUp,
    /// Ask for one of the N places of a counter, under a new name.
    Admit,
    /// Ask for a place under the name of an earlier call.
    AdmitAgain {
        /// The first call under this name.
        of: OpId,
    },
    /// Count a latch down by one.
    CountDown,
    /// Wait until the count of a latch is 0.
    Await {
        /// Longest time that the call may wait.
        wait: Duration,
    },
}

impl Call {
    /// Returns the mode of an acquisition, `None` for any other call.
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

    /// Returns true if the call can be granted the lock.
    #[must_use]
    pub const fn acquires(self) -> bool {
        self.mode().is_some()
    }

    /// Returns the meaning of a negative reply.
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

    /// Returns the grant that the call extends or releases.
    #[must_use]
    pub const fn of_grant(self) -> Option<OpId> {
        if let Self::Renew { grant } = self {
            return Some(grant);
        }
        self.gives_back()
    }

    /// Returns the same call with what is left of its wait after some time.
    pub(crate) const fn after(mut self, spent: Duration) -> Self {
        if let Self::Acquire { wait, .. } | Self::Await { wait } = &mut self {
            *wait = wait.saturating_sub(spent);
        }
        self
    }

    /// Returns for how long the call may wait for other clients: zero if it does not wait for them, `None` if it asks no server
    /// of the lock.
    #[must_use]
    pub const fn longest_wait(self) -> Option<Duration> {
        match self {
            Self::Acquire { wait, .. } | Self::Await { wait } => Some(wait),
            Self::Try { .. }
            | Self::Renew { .. }
            | Self::Release { .. }
            | Self::SetUp
            | Self::Admit
            | Self::AdmitAgain { .. }
            | Self::CountDown => Some(Duration::ZERO),
            // Dropping does not take time, and the resource is not the lock's.
            Self::Drop { .. } | Self::Access { .. } => None,
        }
    }

    /// Returns the grant that the call releases, by a release or by dropping the guard.
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

/// Error of an operation that its caller drops before its end.
pub const CANCELLED: &str = "cancelled";

/// The cause of a change at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A request of this client arrived.
    Client(u8),
    /// The server itself: a key expired, or a master replicated a change.
    Server,
    /// A fault: the server lost data, or its clock was moved.
    Fault,
}

/// An access to the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The client reads the counter.
    Read,
    /// The client sets the counter.
    Write,
}

/// An entry of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// An operation begins.
    Invoke {
        /// Its id.
        op: OpId,
        /// The calling task.
        actor: Actor,
        /// The request.
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
        /// For grants and renewals: the deadline of the holder, in true time.
        deadline: Option<Duration>,
        /// For grants: the fencing token, if the lock has fencing tokens.
        fence: Option<u64>,
        /// For counts: the number of this count, from 1, if the lock reports it.
        number: Option<u32>,
        /// For grants: the token that the servers store for it, if the subject names it.
        token: Option<Token>,
    },
    /// An operation has definitely not happened.
    Fail {
        /// The operation.
        op: OpId,
        /// The reason. For releases, [`Refusal::Lost`] means that the grant had ended before.
        why: Refusal,
    },
    /// The outcome of an operation is unknown.
    Info {
        /// The operation.
        op: OpId,
        /// The error that the caller received.
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
    /// A client process is paused.
    Pause {
        /// The process.
        host: u8,
    },
    /// A paused client process runs again.
    Resume {
        /// The process.
        host: u8,
    },
    /// A client process dies.
    Crash {
        /// The process.
        host: u8,
    },
    /// A dead client process starts again.
    Restart {
        /// The process.
        host: u8,
    },
    /// The code under test panicked. Its process is dead from now on.
    Panic {
        /// The process.
        host: u8,
        /// The panic message.
        message: String,
    },
    /// A fault cut a connection.
    Cut {
        /// The client process.
        host: u8,
        /// The node.
        node: u8,
        /// The message that was lost with it.
        lost: Lost,
    },
    /// A fault of a node, a clock or the network begins. Faults of processes and cuts have entries of their own.
    Strikes {
        /// The fault.
        fault: Fault,
    },
    /// A fault of a node, a clock or the network ends.
    Heals {
        /// The fault.
        fault: Fault,
    },
    /// A replica became the master.
    Promoted {
        /// The node.
        node: u8,
    },
    /// The state that a node stores for the lock changed (double only).
    Server {
        /// The node.
        node: u8,
        /// The cause of the change.
        cause: Cause,
        /// The holders whose tokens are known, after the change.
        stored: Vec<Holder>,
        /// Number of holders that the node counts without a token.
        anonymous: u32,
    },
    /// The queue of a node changed: its waiters, or their order (double only).
    Queue {
        /// The node.
        node: u8,
        /// The cause of the change.
        cause: Cause,
        /// The tokens of the waiters, the next waiter first. Of a counter: the names of the admitted clients.
        waiting: Vec<Vec<u8>>,
    },
    /// A node reserves the lock for other waiters than before: a release woke them, and other clients cannot acquire the lock
    /// until they have asked or the reservation ends (double only).
    Reserved {
        /// The node.
        node: u8,
        /// The cause of the change.
        cause: Cause,
        /// The tokens of the waiters.
        waiters: Vec<Vec<u8>>,
    },
    /// All calls have returned, no client holds a grant, and no request is under way: what exists now was left behind (double
    /// only). It is recorded again when it changes.
    Remains {
        /// Keys of all nodes, without the keys that may stay.
        keys: Vec<Vec<u8>>,
        /// Those of these keys that have no time to live although the lock gives one to each key.
        endless: Vec<Vec<u8>>,
        /// Number of subscriptions to channels and patterns.
        subscriptions: usize,
        /// Number of tasks of client processes that still run, without the drivers of open connections.
        tasks: usize,
    },
    /// A request of an access arrived at the resource.
    Resource {
        /// The grant that the message names.
        grant: OpId,
        /// The fencing token that the message carries.
        fence: Option<u64>,
        /// Whether it reads or writes.
        access: Access,
        /// The value that was read or written. For a refused request: the value that it would have read or written.
        value: u64,
        /// True if the resource refused it because of its fencing token.
        refused: bool,
    },
}
