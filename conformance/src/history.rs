//! What happened in a run, in order: the only thing that a checker sees.
//!
//! The vocabulary is that of Jepsen: an operation is *invoked* and then ends *ok* (it happened),
//! *fail* (it did not happen) or *info* (it may have happened, then or later). To that come the
//! things that end a holder's belief without an operation (a delivered loss, a crash) and, on the
//! double, what the server stored after each of its steps. Times are true times since the start
//! of the run; clocks of hosts have been converted before anything is recorded here.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, time::Duration};

/// One task of one client process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Actor {
    /// The client process; tasks of one process share its lock object, clock and fate.
    pub host: u8,
    /// The task within the process.
    #[serde(default)]
    pub task: u8,
}

impl Actor {
    /// Task 0 of a host.
    #[must_use]
    pub const fn on(host: u8) -> Self {
        Self { host, task: 0 }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.host, self.task) {
            (PROBE_HOST, _) => f.write_str("probe"),
            (host, 0) => write!(f, "c{}", u32::from(host) + 1),
            (host, task) => write!(f, "c{}.{}", u32::from(host) + 1, u32::from(task) + 1),
        }
    }
}

/// The host of the probe that asks for the lock after everybody else has died.
pub const PROBE_HOST: u8 = u8::MAX;

/// Identifies an operation within a history; a grant has the id of the operation that won it.
pub type OpId = u32;

/// What an operation asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Take the lock if it is free.
    Try,
    /// Take the lock, waiting for it at most so long.
    Acquire {
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
}

impl Call {
    /// Whether the operation can win a grant.
    #[must_use]
    pub const fn acquires(self) -> bool {
        matches!(self, Self::Try | Self::Acquire { .. })
    }
}

/// What a server stores under the lock's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The stored value: the owner's token, for the locks that we know.
    pub token: Vec<u8>,
    /// The true time at which the key expires; `None` if it never does.
    pub expires: Option<Duration>,
}

impl Stored {
    /// Whether it is unexpired at a true time: a key is expired when now > deadline, and the
    /// server counts whole milliseconds.
    #[must_use]
    pub fn lives(&self, at: Duration) -> bool {
        self.gone_at().is_none_or(|gone| at < gone)
    }

    /// The first true time at which it is expired.
    #[must_use]
    pub fn gone_at(&self) -> Option<Duration> {
        self.expires
            .map(|expires| expires + Duration::from_millis(1))
    }
}

/// Whose doing a change at the server was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A request of this client arrived.
    Client(u8),
    /// Nobody's: expiry.
    Server,
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
    },
    /// An operation has definitely not happened.
    Fail {
        /// The operation.
        op: OpId,
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
        /// What was lost with it.
        lost: crate::scenario::Lost,
    },
    /// The server stores something else than before (double only).
    Server {
        /// Who caused the change.
        cause: Cause,
        /// What is stored now.
        stored: Option<Stored>,
    },
}

/// An entry of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// True time since the start of the run.
    pub at: Duration,
    /// What happened.
    pub what: What,
}

/// A point of the total order of a run: true time first, then the place in the history.
///
/// A deadline is not an event; it counts as earlier than every event of its instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// True time.
    pub at: Duration,
    /// 1 + index of the entry, 0 for what lies before all entries of this instant.
    pub place: usize,
}

impl Moment {
    /// The moment just before all entries of an instant.
    #[must_use]
    pub const fn at(at: Duration) -> Self {
        Self { at, place: 0 }
    }

    /// After everything.
    pub const NEVER: Self = Self {
        at: Duration::MAX,
        place: usize::MAX,
    };
}

/// Why a holder stopped believing that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It began to give the grant back.
    Released,
    /// It was told of the loss.
    Lost,
    /// Its process died.
    Crashed,
    /// Its deadline passed on its own clock, or for a subject without deadlines, its lease.
    Deadline,
    /// The history ends.
    Open,
}

/// The span in which an actor may rely on a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belief {
    /// The grant, named by the operation that won it.
    pub grant: OpId,
    /// The holder.
    pub actor: Actor,
    /// When the acquiring operation (its last try, where the suite drives the tries) began.
    pub asked: Moment,
    /// When the grant was reported.
    pub from: Moment,
    /// When the belief ended; not part of the span.
    pub to: Moment,
    /// Why it ended.
    pub end: End,
}

impl Belief {
    /// The first moment at which both beliefs stand, if there is one.
    #[must_use]
    pub fn overlap(&self, other: &Self) -> Option<Moment> {
        let from = self.from.max(other.from);
        (from < self.to && from < other.to).then_some(from)
    }
}

/// Everything that happened in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The lease that the lock was opened with.
    pub lease: Duration,
    /// Whether the server was observed after each of its steps.
    pub observed: bool,
    /// What happened, in order.
    pub entries: Vec<Entry>,
}

impl History {
    /// An empty history of a lock with this lease.
    #[must_use]
    pub const fn new(lease: Duration, observed: bool) -> Self {
        Self {
            lease,
            observed,
            entries: Vec::new(),
        }
    }

    /// Appends an entry.
    pub fn push(&mut self, at: Duration, what: What) {
        self.entries.push(Entry { at, what });
    }

    /// The place of an entry in the total order.
    #[must_use]
    pub fn moment(&self, index: usize) -> Moment {
        Moment {
            at: self.entries[index].at,
            place: index + 1,
        }
    }

    /// Every entry with its moment.
    pub fn iter(&self) -> impl Iterator<Item = (Moment, &What)> {
        let moments = self.entries.iter().enumerate();
        moments.map(|(index, entry)| {
            (
                Moment {
                    at: entry.at,
                    place: index + 1,
                },
                &entry.what,
            )
        })
    }

    /// Who called an operation, and what for.
    #[must_use]
    pub fn calls(&self) -> BTreeMap<OpId, (Moment, Actor, Call)> {
        self.iter()
            .filter_map(|(moment, what)| {
                let &What::Invoke { op, actor, call } = what else {
                    return None;
                };
                Some((op, (moment, actor, call)))
            })
            .collect()
    }

    /// The belief of every definite grant, in order of grants.
    ///
    /// A belief is `[ok, min(release invoked, loss delivered, crash, deadline on the holder's
    /// clock))`. A pause does not end it. A grant without a deadline claims nothing past its lease,
    /// counted from the start of the try that won it.
    #[must_use]
    pub fn beliefs(&self) -> Vec<Belief> {
        let mut calls: BTreeMap<OpId, (Moment, Actor, Call)> = BTreeMap::new();
        let mut beliefs: Vec<Belief> = Vec::new();
        let mut open: BTreeMap<OpId, (usize, Duration)> = BTreeMap::new();
        for (moment, what) in self.iter() {
            open.retain(|_, &mut (index, until)| {
                let over = until <= moment.at;
                if over {
                    let belief: &mut Belief = &mut beliefs[index];
                    (belief.to, belief.end) = (Moment::at(until), End::Deadline);
                }
                !over
            });
            let ended = |open: &mut BTreeMap<OpId, _>, beliefs: &mut Vec<Belief>, grant, end| {
                if let Some((index, _)) = open.remove(&grant) {
                    let belief: &mut Belief = &mut beliefs[index];
                    (belief.to, belief.end) = (moment, end);
                }
            };
            match *what {
                What::Invoke { op, actor, call } => {
                    calls.insert(op, (moment, actor, call));
                    if let Call::Release { grant } | Call::Drop { grant } = call {
                        ended(&mut open, &mut beliefs, grant, End::Released);
                    }
                }
                What::Attempt { op } => {
                    if let Some((asked, ..)) = calls.get_mut(&op) {
                        *asked = moment;
                    }
                }
                What::Ok { op, deadline } => match calls.get(&op) {
                    Some(&(asked, actor, call)) if call.acquires() => {
                        open.insert(
                            op,
                            (beliefs.len(), deadline.unwrap_or(asked.at + self.lease)),
                        );
                        beliefs.push(Belief {
                            grant: op,
                            actor,
                            asked,
                            from: moment,
                            to: Moment::NEVER,
                            end: End::Open,
                        });
                    }
                    Some(&(asked, _, Call::Renew { grant })) => {
                        if let Some((_, until)) = open.get_mut(&grant) {
                            *until = deadline.unwrap_or(asked.at + self.lease);
                        }
                    }
                    Some(_) | None => {}
                },
                What::Deadline { grant, deadline } => {
                    if let (Some((_, until)), Some(deadline)) = (open.get_mut(&grant), deadline) {
                        *until = deadline;
                    }
                }
                What::Lost { grant } => ended(&mut open, &mut beliefs, grant, End::Lost),
                What::Crash { host } | What::Panic { host, .. } => {
                    let theirs: Vec<OpId> = open
                        .iter()
                        .filter(|&(_, &(index, _))| beliefs[index].actor.host == host)
                        .map(|(&grant, _)| grant)
                        .collect();
                    for grant in theirs {
                        ended(&mut open, &mut beliefs, grant, End::Crashed);
                    }
                }
                What::Fail { .. }
                | What::Info { .. }
                | What::Pause { .. }
                | What::Resume { .. }
                | What::Restart { .. }
                | What::Cut { .. }
                | What::Server { .. } => {}
            }
        }
        for (index, until) in open.into_values() {
            (beliefs[index].to, beliefs[index].end) = (Moment::at(until), End::Open);
        }
        // A grant that was dead on arrival claims nothing; keep the span well formed.
        for belief in &mut beliefs {
            belief.to = belief.to.max(belief.from);
        }
        beliefs
    }
}
