//! Checkers, one for each property. A checker is a pure function of a history.

mod access;
mod admission;
mod cancellation;
mod cleanup;
mod continuity;
mod exclusion;
mod excuse;
mod fairness;
mod fencing;
mod grounded_belief;
mod in_process;
mod latch;
mod linearizable;
mod liveness;
mod lost_reply;
mod no_panics;
mod ownership;
mod progress;
mod renewal;
mod room;
mod timeouts;
mod truth;
mod wakeup;

pub use access::Accesses;
pub use admission::Admission;
pub use cancellation::Cancellation;
pub use cleanup::CleanUp;
pub use continuity::Continuity;
pub use exclusion::Exclusion;
pub use fairness::Fairness;
pub use fencing::Fencing;
pub use grounded_belief::GroundedBelief;
pub use latch::Latch;
pub use linearizable::Linearizable;
pub use liveness::Liveness;
pub use lost_reply::LostReply;
pub use no_panics::NoPanics;
pub(crate) use no_panics::is_nonsense;
pub use ownership::Ownership;
pub use progress::Progress;
pub use renewal::Renewal;
pub use timeouts::Timeouts;
pub use truth::Truth;
pub use wakeup::WakeUp;

use crate::{
    history::{History, Moment, OpId, Reading},
    subject::Promises,
};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, time::Duration};

/// Property that a lock may promise, and break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Property {
    /// The lock does not panic, and starts no task outside of the suite's control.
    NoPanics,
    /// Beliefs of different owners never overlap.
    Exclusion,
    /// Accesses to the resource by different grants never interleave.
    Accesses,
    /// Fencing tokens rise.
    Fencing,
    /// One order of the operations explains the answers to all clients.
    Linearizable,
    /// A late release or renewal never frees or extends the grant of another owner.
    Ownership,
    /// The lock of a dead holder becomes free, and another client can acquire it.
    Progress,
    /// Once all faults are over, each waiter is granted the lock in time.
    Liveness,
    /// Waiters are granted the lock in queue order.
    Fairness,
    /// The lock does not stay free while a client waits for it.
    WakeUp,
    /// The lock extends leases as long as needed, and reports losses.
    Renewal,
    /// A cancelled call leaves nothing behind.
    Cancellation,
    /// A wait ends when the caller asked it to end.
    Timeouts,
    /// A lost reply does not keep its own client out of the lock.
    LostReply,
    /// When all calls have returned, no key, subscription or task is left.
    CleanUp,
    /// A result never claims more than the servers did.
    Truth,
    /// While a holder believes that it holds the lock, the server stores its token.
    GroundedBelief,
    /// A grant never becomes valid again after its loss.
    Continuity,
    /// A counter admits exactly the first N.
    Admission,
    /// A latch opens when its count is 0, and not before.
    Latch,
}

impl Property {
    /// All properties, in order of their ids.
    pub const ALL: [Self; 20] = [
        Self::NoPanics,
        Self::Exclusion,
        Self::Accesses,
        Self::Fencing,
        Self::Linearizable,
        Self::Ownership,
        Self::Progress,
        Self::Liveness,
        Self::Fairness,
        Self::WakeUp,
        Self::Renewal,
        Self::Cancellation,
        Self::Timeouts,
        Self::LostReply,
        Self::CleanUp,
        Self::Truth,
        Self::GroundedBelief,
        Self::Continuity,
        Self::Admission,
        Self::Latch,
    ];

    /// The short id, as in `P1`.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::NoPanics => "P0",
            Self::Exclusion => "P1",
            Self::Accesses => "P2",
            Self::Fencing => "P3",
            Self::Linearizable => "P4",
            Self::Ownership => "P5",
            Self::Progress => "P6",
            Self::Liveness => "P7",
            Self::Fairness => "P9",
            Self::WakeUp => "P10",
            Self::Renewal => "P11",
            Self::Cancellation => "P12",
            Self::Timeouts => "P13",
            Self::LostReply => "P14",
            Self::CleanUp => "P15",
            Self::Truth => "P19",
            Self::GroundedBelief => "P20",
            Self::Continuity => "P21",
            Self::Admission => "P22",
            Self::Latch => "P23",
        }
    }

    /// The name, as in `lease exclusion`.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::NoPanics => "no panics",
            Self::Exclusion => "lease exclusion",
            Self::Accesses => "access exclusion",
            Self::Fencing => "fencing",
            Self::Linearizable => "linearizability",
            Self::Ownership => "owner-only",
            Self::Progress => "deadlock freedom",
            Self::Liveness => "liveness",
            Self::Fairness => "fairness",
            Self::WakeUp => "no lost wake-up",
            Self::Renewal => "renewal",
            Self::Cancellation => "cancellation",
            Self::Timeouts => "timeouts",
            Self::LostReply => "lost replies",
            Self::CleanUp => "clean-up",
            Self::Truth => "truth",
            Self::GroundedBelief => "grounded belief",
            Self::Continuity => "continuity",
            Self::Admission => "admission",
            Self::Latch => "latch",
        }
    }

    /// True if its checker needs to know what the servers store, which only the double shows.
    #[must_use]
    pub const fn needs_observation(self) -> bool {
        match self {
            Self::NoPanics
            | Self::Exclusion
            | Self::Progress
            | Self::Liveness
            | Self::Renewal
            | Self::Timeouts
            | Self::Accesses
            | Self::Fencing
            | Self::Linearizable
            | Self::Continuity
            | Self::Admission
            | Self::Latch => false,
            Self::Ownership
            | Self::Fairness
            | Self::WakeUp
            | Self::Cancellation
            | Self::LostReply
            | Self::CleanUp
            | Self::Truth
            | Self::GroundedBelief => true,
        }
    }

    /// True if its checker compares times: a machine that stopped running the suite for a while may then convict a
    /// sound lock.
    #[must_use]
    pub const fn timing_sensitive(self) -> bool {
        match self {
            Self::NoPanics
            | Self::Exclusion
            | Self::Accesses
            | Self::Fencing
            | Self::Linearizable
            | Self::Ownership
            | Self::LostReply
            | Self::Truth
            | Self::GroundedBelief
            | Self::Admission
            | Self::Latch => false,
            Self::Progress
            | Self::Liveness
            | Self::Fairness
            | Self::WakeUp
            | Self::Renewal
            | Self::Cancellation
            | Self::Timeouts
            | Self::CleanUp
            | Self::Continuity => true,
        }
    }

    /// True if it says that something never happens: once broken it stays broken, whatever happens later.
    #[must_use]
    pub const fn is_safety(self) -> bool {
        matches!(
            self,
            Self::NoPanics
                | Self::Exclusion
                | Self::Accesses
                | Self::Fencing
                | Self::Linearizable
                | Self::Ownership
                | Self::Truth
                | Self::GroundedBelief
                | Self::Continuity
                | Self::Admission
                | Self::Latch
        )
    }

    /// Returns its rank in reports about one lock, lowest first. A cause comes before its consequences: a lock that
    /// does not check the owner breaks P5, and breaks P1 only because of that.
    #[must_use]
    pub fn telling(self) -> usize {
        const FIRST: [Property; 15] = [
            Property::NoPanics,
            Property::Ownership,
            Property::Fencing,
            Property::Progress,
            Property::Renewal,
            Property::Continuity,
            Property::GroundedBelief,
            Property::LostReply,
            Property::Admission,
            Property::Latch,
            Property::Exclusion,
            Property::Accesses,
            Property::Linearizable,
            Property::Truth,
            Property::Fairness,
        ];
        let place = FIRST.iter().position(|&it| it == self);
        place.unwrap_or(FIRST.len() + self as usize)
    }

    /// Returns a hint for authors who did not mean to promise this property: which promise includes it, and how to
    /// leave it out.
    #[must_use]
    pub fn hint(self, promises: Promises) -> Option<&'static str> {
        let cleans_up = matches!(self, Self::Cancellation | Self::CleanUp | Self::LostReply);
        if self == Self::LostReply && promises.answers && promises.waits {
            if !promises.tidy {
                return Some(
                    "`.answering()` includes this promise. A lock that returns an error after a lost request or reply, or waits for the \
                     end of its own lease then, does not make it. A lock that pauses for longer than a second before it asks again says \
                     so: `.retrying_within(..)`",
                );
            }
            return Some(
                "`Promises::mutex_on_one_node()` and `.answering()` include this promise. A lock that leaves an abandoned grant in \
                 place until its lease ends does not make it: add `.untidy()`. Nor does a lock that returns an error after a lost \
                 request or reply: leave `.answering()` out. A lock that pauses for longer than a second before it asks again says so: \
                 `.retrying_within(..)`",
            );
        }
        (cleans_up && promises.tidy).then_some(
            "`Promises::mutex_on_one_node()` includes this promise. A lock that leaves something of an abandoned call behind until \
             its lease ends (a key, a place in a queue, a task) does not make it: add `.untidy()`",
        )
    }

    /// Returns the statement that is true if a lock keeps the property.
    #[must_use]
    pub const fn statement(self) -> &'static str {
        match self {
            Self::NoPanics => {
                "the lock does not panic, starts no tasks outside the suite's control, and sends no request that \
                 fails on every server"
            }
            Self::Exclusion => {
                "no two owners believe at the same time that they hold the lock; belief ends with \
                 release, loss signal, crash or the holder's own deadline"
            }
            Self::Accesses => {
                "accesses of the resource by different grants never interleave, and none loses the \
                 update of another"
            }
            Self::Fencing => {
                "a client that asks after another client was granted the lock gets a higher fencing token; a holder that \
                 enters again gets the same one"
            }
            Self::Linearizable => {
                "one order of the operations explains all replies; in it no lease ends earlier than it may"
            }
            Self::Ownership => {
                "a late release or renewal never frees or extends the grant of another client"
            }
            Self::Progress => {
                "the lock of a crashed holder is free when its lease ends, and another client can acquire it"
            }
            Self::Liveness => {
                "a waiter without faults is granted the lock within a lease and a hand-over for each client \
                 that waits"
            }
            Self::Fairness => {
                "the waiter that was queued first, and stayed there, is granted first, unless both can be granted; \
                 where writers are preferred, readers that ask later wait for a waiting writer"
            }
            Self::WakeUp => {
                "a free lock does not stay free while a running, reachable client waits for it"
            }
            Self::Renewal => {
                "leases are extended while there is no fault, and not after a release; a loss is reported by \
                 the deadline, before any other report"
            }
            Self::Cancellation => {
                "two round trips after a call was cancelled or a guard was dropped, the server stores nothing of it"
            }
            Self::Timeouts => {
                "a call ends with its wait, or with a request that is outstanding then"
            }
            Self::LostReply => {
                "after a lost reply the client's own retry is delayed only by a reconnect and a request; no call \
                 that has time left ends because of it"
            }
            Self::CleanUp => {
                "when all calls have returned and all bytes have arrived, no keys, subscriptions or tasks are \
                 left; an acquisition removes the remains of grants that are over"
            }
            Self::Truth => {
                "a result (granted, released, lost, contended) never claims more than the servers did: a call is refused \
                 for a grant that leaves it no room; no TTL is longer than the lease"
            }
            Self::GroundedBelief => {
                "while a holder believes that it holds the lock, the server stores its token, unexpired"
            }
            Self::Continuity => {
                "no grant becomes valid again after its deadline or its reported loss, and no late request stores it again"
            }
            Self::Admission => {
                "at most N clients are admitted; if N or more ask, admissions and unknown outcomes together \
                 reach N; a client that asks again gets the same answer; an expiring counter starts a new round in time"
            }
            Self::Latch => {
                "the count of a latch neither rises nor passes 0, and waiters return exactly at 0"
            }
        }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id(), self.title())
    }
}

impl FromStr for Property {
    type Err = String;

    fn from_str(id: &str) -> Result<Self, String> {
        let known = Self::ALL
            .into_iter()
            .find(|property| property.id().eq_ignore_ascii_case(id));
        known.ok_or_else(|| format!("no property has the id {id:?}"))
    }
}

/// Result of a checker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The property holds in this history.
    Valid,
    /// The history does not tell if the property holds: the reason.
    Unknown(&'static str),
    /// The property is broken.
    Violation(Witness),
}

impl Finding {
    /// The witness, if the property is broken.
    #[must_use]
    pub const fn witness(&self) -> Option<&Witness> {
        match self {
            Self::Violation(witness) => Some(witness),
            Self::Valid | Self::Unknown(_) => None,
        }
    }
}

/// Counterexample: where and how a property broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Moment of the violation.
    pub at: Moment,
    /// End of the violation, if it lasted for a span.
    pub until: Option<Duration>,
    /// The grants involved, the wronged grant first.
    pub grants: Vec<OpId>,
    /// Description of what happened, in one sentence.
    pub message: String,
}

/// Checker of one property.
pub trait Checker: Sync {
    /// The property that it judges.
    fn property(&self) -> Property;

    /// Judges a history, given everything that is derived from it.
    fn judge(&self, history: &Reading<'_>) -> Finding;

    /// Judges a history.
    fn check(&self, history: &History) -> Finding {
        self.judge(&Reading::of(history))
    }
}

/// All checkers.
pub const CHECKERS: &[&dyn Checker] = &[
    &NoPanics,
    &Exclusion,
    &Accesses,
    &Fencing,
    &Linearizable,
    &Ownership,
    &Progress,
    &Liveness,
    &Fairness,
    &WakeUp,
    &Renewal,
    &Cancellation,
    &Timeouts,
    &LostReply,
    &CleanUp,
    &Truth,
    &GroundedBelief,
    &Continuity,
    &Admission,
    &Latch,
];

/// Formats a true time for messages: seconds with milliseconds.
pub(crate) fn seconds(at: Duration) -> String {
    format!("{:.3} s", at.as_secs_f64())
}

#[cfg(test)]
pub(crate) mod hand_made {
    //! Histories written by hand, in seconds.

    use crate::history::{
        Actor, Call, Cause, History, Holder, Mode, OpId, Refusal, Request, Session, What,
    };
    use std::time::Duration;

    pub(crate) const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// An observed history with a lease of 10 s.
    pub(crate) fn history(entries: Vec<(u64, What)>) -> History {
        let mut history = History::new(s(10), true);
        for (at, what) in entries {
            history.push(s(at), what);
        }
        history
    }

    impl History {
        /// Adds a connection that was dialled at `at`. It broke at `closed`, and the process noticed at once.
        pub(crate) fn dials(&mut self, host: u8, node: u8, at: u64, closed: Option<u64>) {
            self.sessions.push(Session {
                host,
                node,
                dialled: s(at),
                opened: s(at),
                closed: closed.map(s),
                broken: closed.is_some(),
                noticed: closed.map(s),
            });
        }

        /// Adds a request on a connection.
        pub(crate) fn asks(
            &mut self,
            session: usize,
            sent: u64,
            executed: Option<u64>,
            replied: Option<u64>,
        ) {
            // It is sent after all that happens at its instant.
            let before = self.entries.iter().filter(|entry| entry.at <= s(sent));
            let place = before.count();
            self.requests.push(Request {
                session,
                sent: s(sent),
                place,
                bytes: 1,
                command: "SET".to_owned(),
                blocks: Duration::ZERO,
                executed: executed.map(s),
                replied: replied.map(s),
                error: None,
            });
        }
    }

    pub(crate) fn tries(op: OpId, host: u8) -> What {
        tries_by(op, Actor::on(host))
    }

    pub(crate) fn tries_by(op: OpId, actor: Actor) -> What {
        What::Invoke {
            op,
            actor,
            call: Call::Try {
                mode: Mode::Exclusive,
            },
        }
    }

    pub(crate) fn waits(op: OpId, host: u8, wait: u64) -> What {
        let call = Call::Acquire {
            mode: Mode::Exclusive,
            wait: s(wait),
        };
        let actor = Actor::on(host);
        What::Invoke { op, actor, call }
    }

    pub(crate) fn releases(op: OpId, host: u8, grant: OpId) -> What {
        What::Invoke {
            op,
            actor: Actor::on(host),
            call: Call::Release { grant },
        }
    }

    pub(crate) fn renews(op: OpId, host: u8, grant: OpId) -> What {
        What::Invoke {
            op,
            actor: Actor::on(host),
            call: Call::Renew { grant },
        }
    }

    pub(crate) fn granted(op: OpId, deadline: Option<u64>) -> What {
        What::Ok {
            op,
            deadline: deadline.map(s),
            fence: None,
            number: None,
            token: None,
        }
    }

    pub(crate) fn done(op: OpId) -> What {
        granted(op, None)
    }

    pub(crate) fn refused(op: OpId) -> What {
        What::Fail {
            op,
            why: Refusal::Contended,
        }
    }

    pub(crate) fn stores(host: u8, token: &str, expires: Option<u64>) -> What {
        stores_on(0, host, token, expires)
    }

    /// What a server stores: tokens with the ends of their leases.
    pub(crate) fn stored_by(cause: Cause, tokens: &[(&str, u64)]) -> What {
        let holder = |&(token, expires): &(&str, u64)| Holder {
            token: token.as_bytes().to_vec(),
            expires: Some(s(expires)),
            ..Holder::default()
        };
        What::Server {
            node: 0,
            cause,
            stored: tokens.iter().map(holder).collect(),
            anonymous: 0,
        }
    }

    pub(crate) fn stores_on(node: u8, host: u8, token: &str, expires: Option<u64>) -> What {
        let stored = Holder {
            token: token.into(),
            expires: expires.map(s),
            ..Holder::default()
        };
        What::Server {
            node,
            cause: Cause::Client(host),
            stored: vec![stored],
            anonymous: 0,
        }
    }

    /// A client asks for so many permits of a semaphore.
    pub(crate) fn wants(op: OpId, host: u8, permits: u32, wait: u64) -> What {
        What::Invoke {
            op,
            actor: Actor::on(host),
            call: Call::Acquire {
                mode: Mode::Permits(permits),
                wait: s(wait),
            },
        }
    }

    /// The server stores a permit under each of these tokens.
    pub(crate) fn stores_permits(host: u8, tokens: &[&str], expires: u64) -> What {
        let stored = tokens.iter().map(|token| Holder {
            token: token.as_bytes().to_vec(),
            expires: Some(s(expires)),
            mode: Some(Mode::Permits(1)),
            ..Holder::default()
        });
        What::Server {
            node: 0,
            cause: Cause::Client(host),
            stored: stored.collect(),
            anonymous: 0,
        }
    }

    pub(crate) fn frees(host: u8) -> What {
        empties(0, Cause::Client(host))
    }

    pub(crate) fn empties(node: u8, cause: Cause) -> What {
        What::Server {
            node,
            cause,
            stored: vec![],
            anonymous: 0,
        }
    }
}
