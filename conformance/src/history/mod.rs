//! The events of a run, in order: the only thing that a checker sees.
//!
//! The vocabulary is that of Jepsen: a client *invokes* an operation, which then ends *ok* (it happened), *fail* (it did not
//! happen) or *info* (it may have happened, then or later). The history also has the events that end a holder's belief without an
//! operation (a reported loss, a crash), the requests at the resource and, on the double, the state that each node stores after
//! each of its steps. Times are true times since the start of the run. The recorder converts the clocks of hosts and nodes.

mod belief;
mod event;
mod excuse;
mod fault_intervals;
mod message;
mod operation;
mod owners;
mod reading;
mod request;
mod terms;
mod tokens;

pub use belief::{Belief, End};
pub use event::{Access, CANCELLED, Call, Cause, What};
pub use excuse::Excuse;
pub use fault_intervals::{FaultEffect, FaultIntervals};
pub(crate) use message::HEAD_MAX;
pub use message::Message;
pub use operation::{Operation, Outcome};
pub use owners::Owners;
pub use reading::Reading;
pub use request::{Fate, Request, Session};
pub use terms::Terms;
pub use tokens::{TokenSpan, Tokens};

pub use crate::vocabulary::{
    Actor, Holder, Kind, Mode, NEVER, OpId, POLLS_PER_LEASE, PROBE_HOST, REQUESTS_PER_LEASE,
    Refusal, Scope, Stored, Token,
};

use crate::vocabulary::Topology;
use std::{collections::BTreeMap, time::Duration};

/// An entry of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// True time since the start of the run.
    pub at: Duration,
    /// The event.
    pub what: What,
}

/// A point of the total order of a run: true time first, then the place in the history.
///
/// A deadline is not an event; it counts as earlier than every event of its instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// True time.
    pub at: Duration,
    /// 1 + index of the entry; 0 for the moment before all entries of this instant.
    pub place: usize,
}

impl Moment {
    /// Returns the moment before all entries of an instant.
    #[must_use]
    pub const fn at(at: Duration) -> Self {
        Self { at, place: 0 }
    }

    /// The moment after all entries.
    pub const NEVER: Self = Self {
        at: NEVER,
        place: usize::MAX,
    };
}

/// All events of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The longest lease that the lock declares to make of the lease with which it was opened.
    pub lease: Duration,
    /// Longest time for which a client waits for a reply; `None` if it is a fixed share of the lease.
    pub timeout: Option<Duration>,
    /// True if the state of the servers was observed after each of their steps.
    pub observed: bool,
    /// The kind of the lock.
    pub kind: Kind,
    /// True if the owner of the lock may acquire it again.
    pub reentrant: bool,
    /// The servers of the lock.
    pub topology: Topology,
    /// The promises of the lock, and the latency without faults.
    pub terms: Terms,
    /// The entries, in the order of time.
    pub entries: Vec<Entry>,
    /// The messages on the links, in the order of sending.
    pub messages: Vec<Message>,
    /// The connections of client processes, in the order of dialling.
    pub sessions: Vec<Session>,
    /// The requests of client processes, in the order of sending.
    pub requests: Vec<Request>,
}

impl History {
    /// Creates an empty history of a lock that keeps exactly this lease.
    #[must_use]
    pub const fn new(lease: Duration, observed: bool) -> Self {
        Self {
            lease,
            timeout: None,
            observed,
            kind: Kind::Mutex,
            reentrant: false,
            topology: Topology::ONE,
            terms: Terms::NONE,
            entries: Vec::new(),
            messages: Vec::new(),
            sessions: Vec::new(),
            requests: Vec::new(),
        }
    }

    /// Returns the part of the history before a time.
    #[must_use]
    pub fn before(&self, at: Duration) -> Self {
        let cut = |time: Option<Duration>| time.filter(|&time| time < at);
        let sessions = self.sessions.iter().map(|session| Session {
            closed: cut(session.closed),
            noticed: cut(session.noticed),
            ..*session
        });
        let requests = self
            .requests
            .iter()
            .filter(|it| it.sent < at)
            .map(|it| Request {
                executed: cut(it.executed),
                replied: cut(it.replied),
                ..it.clone()
            });
        let entries = self.entries.iter().filter(|entry| entry.at < at).cloned();
        Self {
            entries: entries.collect(),
            messages: Vec::new(),
            sessions: sessions.collect(),
            requests: requests.collect(),
            ..*self
        }
    }

    /// Returns the number of permits of a semaphore, 1 for any other kind.
    #[must_use]
    pub const fn permits(&self) -> u32 {
        match self.kind {
            Kind::Semaphore(permits) => permits,
            Kind::Mutex | Kind::ReadWrite | Kind::Admission(_) | Kind::Latch(_) => 1,
        }
    }

    /// Returns true if a server counted holders instead of storing their tokens.
    #[must_use]
    pub fn counts_holders(&self) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| matches!(entry.what, What::Server { anonymous: 1.., .. }))
    }

    /// Removes the observed state of the servers: a lock whose holders cannot be observed is judged as on a real server.
    pub fn forget_servers(&mut self) {
        self.observed = false;
        self.entries.retain(|entry| {
            !matches!(
                entry.what,
                What::Server { .. }
                    | What::Queue { .. }
                    | What::Reserved { .. }
                    | What::Remains { .. }
            )
        });
    }

    /// Appends an entry.
    pub fn push(&mut self, at: Duration, what: What) {
        self.entries.push(Entry { at, what });
    }

    /// Returns the longest time for which a client waits for a reply, see [`REQUESTS_PER_LEASE`].
    #[must_use]
    pub fn request_timeout(&self) -> Duration {
        self.timeout.unwrap_or(self.lease / REQUESTS_PER_LEASE)
    }

    /// Returns the shortest lease that the lock declares to make of the lease with which it was opened.
    #[must_use]
    pub fn shortest_lease(&self) -> Duration {
        self.lease.saturating_sub(self.terms.lease_spread)
    }

    /// Returns the longest pause of a waiter between two requests.
    #[must_use]
    pub fn longest_poll(&self) -> Duration {
        let by_default = self.lease / POLLS_PER_LEASE;
        self.terms.wake.or(self.terms.poll).unwrap_or(by_default)
    }

    /// Returns the longest time until a client sends a failed request again: its timeout, and the pause after it.
    #[must_use]
    pub fn recovery(&self) -> Duration {
        self.request_timeout() + self.terms.retry
    }

    /// Returns the moment of an entry in the total order.
    #[must_use]
    pub fn moment(&self, index: usize) -> Moment {
        Moment {
            at: self.entries[index].at,
            place: index + 1,
        }
    }

    /// Returns each entry with its moment.
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

    /// Returns the beginning, the task and the call of each operation.
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

    /// Returns the end of each operation that ended: an `Ok`, a `Fail` or an `Info`.
    #[must_use]
    pub fn ends(&self) -> BTreeMap<OpId, (Moment, &What)> {
        self.iter()
            .filter_map(|(moment, what)| {
                let (What::Ok { op, .. } | What::Fail { op, .. } | What::Info { op, .. }) = what
                else {
                    return None;
                };
                Some((*op, (moment, what)))
            })
            .collect()
    }
}
