//! What can happen in a run: who, what was asked for, how it ended.

use crate::{
    scenario::{Fault, Lost},
    vocabulary::{Actor, Holder, Mode, OpId, Refusal, Token},
};
use std::time::Duration;

/// What an operation asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Take the lock if it is free.
    Try {
        /// How.
        mode: Mode,
    },
    /// Take the lock, waiting for it at most so long.
    Acquire {
        /// How.
        mode: Mode,
        /// The most that the caller is willing to wait.
        wait: Duration,
    },
    /// Extend a grant.
    Renew {
        /// The grant to extend.
        grant: OpId,
    },
    /// Give a grant back and learn what came of it.
    Release {
        /// The grant to give back.
        grant: OpId,
    },
    /// Give a grant back by dropping its guard.
    Drop {
        /// The grant that is dropped.
        grant: OpId,
    },
    /// Read the resource that the lock protects, and write what was read plus one.
    Access {
        /// The grant under which it is done.
        grant: OpId,
    },
    /// Set a latch or a stock up.
    SetUp,
    /// Ask to be among the first N, under a name of its own.
    Admit,
    /// Ask for the same under the name of an earlier call.
    AdmitAgain {
        /// The call that was the first under this name.
        of: OpId,
    },
    /// Count a latch down by one.
    CountDown,
    /// Wait until a latch stands at 0.
    Await {
        /// The most that the caller is willing to wait.
        wait: Duration,
    },
}

impl Call {
    /// The mode in which it takes the lock, if it can win a grant.
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

    /// Whether the operation can win a grant.
    #[must_use]
    pub const fn acquires(self) -> bool {
        self.mode().is_some()
    }

    /// What it means when its caller is told no.
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

    /// The grant that it extends, or gives back.
    #[must_use]
    pub const fn of_grant(self) -> Option<OpId> {
        if let Self::Renew { grant } = self {
            return Some(grant);
        }
        self.gives_back()
    }

    /// The grant that it gives back, however.
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

/// What the caller of an operation is told that is dropped before its end.
pub const CANCELLED: &str = "cancelled";

/// Whose doing a change at a server was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A request of this client arrived.
    Client(u8),
    /// Nobody's: expiry, or what a master sent to its replica.
    Server,
    /// A fault: the server lost it, or its clock was moved.
    Fault,
}

/// How the resource is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Its counter is read.
    Read,
    /// Its counter is set.
    Write,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// An operation begins.
    Invoke {
        /// Its id.
        op: OpId,
        /// Who calls.
        actor: Actor,
        /// What is asked for.
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
        /// For grants and renewals: until when the holder may rely on it, in true time.
        deadline: Option<Duration>,
        /// For grants: their fencing token, where the lock has them.
        fence: Option<u64>,
        /// For what was counted: which one it was, from 1, where callers are told.
        number: Option<u32>,
        /// For grants: the token that stands for it at the servers, if the subject names it.
        token: Option<Token>,
    },
    /// An operation has definitely not happened.
    Fail {
        /// The operation.
        op: OpId,
        /// Why not. For releases, [`Refusal::Lost`] says that the grant was gone already.
        why: Refusal,
    },
    /// The outcome of an operation is unknown.
    Info {
        /// The operation.
        op: OpId,
        /// What the caller was told.
        error: String,
    },
    /// A held grant changed its deadline by itself, for instance through its watchdog.
    Deadline {
        /// The grant.
        grant: OpId,
        /// The new deadline in true time.
        deadline: Option<Duration>,
    },
    /// The holder was told that its grant is lost.
    Lost {
        /// The grant.
        grant: OpId,
    },
    /// A client process stops being scheduled.
    Pause {
        /// Which one.
        host: u8,
    },
    /// A paused client process is scheduled again.
    Resume {
        /// Which one.
        host: u8,
    },
    /// A client process dies.
    Crash {
        /// Which one.
        host: u8,
    },
    /// A dead client process starts anew.
    Restart {
        /// Which one.
        host: u8,
    },
    /// The code under test panicked; its process is dead from here on.
    Panic {
        /// Which process.
        host: u8,
        /// The panic message.
        message: String,
    },
    /// A connection was cut by a fault.
    Cut {
        /// Whose connection.
        host: u8,
        /// To which node.
        node: u8,
        /// What was lost with it.
        lost: Lost,
    },
    /// A fault begins that has no entry of its own: of a node, of a clock, of the network.
    Strikes {
        /// Which fault.
        fault: Fault,
    },
    /// Such a fault ends.
    Heals {
        /// Which fault.
        fault: Fault,
    },
    /// A replica has become the master.
    Promoted {
        /// Which node.
        node: u8,
    },
    /// A node stores something else for the lock than before (double only).
    Server {
        /// Which node.
        node: u8,
        /// Who caused the change.
        cause: Cause,
        /// What is stored now: the holders whose tokens are known.
        stored: Vec<Holder>,
        /// Number of holders that are only counted.
        anonymous: u32,
    },
    /// Others wait for the lock at a node than before, or in another order (double only).
    Queue {
        /// Which node.
        node: u8,
        /// Who caused the change.
        cause: Cause,
        /// The tokens of those who wait, the next one first; of a counter, the names of those who are in.
        waiting: Vec<Vec<u8>>,
    },
    /// All calls have returned, nobody holds anything, nothing is under way: what there is now is
    /// left behind (double only). Recorded again when it changes.
    Remains {
        /// Keys of any node, those left out that may stay.
        keys: Vec<Vec<u8>>,
        /// Those of them that have no end although the lock gives each key one.
        endless: Vec<Vec<u8>>,
        /// Channels and patterns that are still listened to.
        subscriptions: usize,
        /// Tasks of client processes that still run, the drivers of open connections left out.
        tasks: usize,
    },
    /// A message of an access arrived at the resource.
    Resource {
        /// The grant that it names.
        grant: OpId,
        /// The fencing token that it carries.
        fence: Option<u64>,
        /// What it wants.
        access: Access,
        /// The value that was read or written, or would have been.
        value: u64,
        /// Whether it was refused for its fence.
        refused: bool,
    },
}
