//! The trait that a lock under test implements, and the list of known locks.

mod adapted;
mod canary;
mod dyn_subject;
mod erased;
mod foreign;
mod kind;
mod met;
mod observed;
#[cfg(unix)]
mod plain;
mod proxy;
mod seed;
mod specimen;
mod threads;

pub use crate::simulation::{Connection, Host};
pub use crate::vocabulary::{Fencing, LINGER, Promises, Refusal};
pub(crate) use adapted::Adapted;
pub use canary::{Canary, CanaryLock};
pub use dyn_subject::{AnyGrant, AnyLock, DynSubject, Granted};
pub use foreign::{Foreign, ForeignError};
pub use observed::Observed;
#[cfg(unix)]
pub use plain::Plain;
pub use seed::SEEDS;
pub use specimen::SPECIMENS;
pub use threads::Threads;

use crate::{
    backend::View,
    checker::Property,
    vocabulary::{Kind, Mode, OpId, Stored, Token},
};
use std::{fmt, future::Future, sync::Arc, time::Duration};

/// Any error; the suite only needs its text.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A lock under test.
///
/// Implementations write the methods as plain `async fn`. They get connections, time, randomness and tasks from the [`Host`].
///
/// An `Err` always means that the outcome is *unknown*: the server may have executed the request, or may execute it
/// later. `Ok(None)`, `Ok(false)` and a [`Refusal`] as the error mean that the operation definitely did not happen.
pub trait Subject: Send + Sync + 'static {
    /// The lock object: one per client process, shared by all its tasks.
    type Lock: Send + Sync + 'static;
    /// The result of an acquisition. The suite drops it to drop a guard.
    type Grant: Send + Sync + 'static;

    /// Name of the lock in reports.
    fn name(&self) -> &'static str;

    /// The promises by which it is judged.
    fn promises(&self) -> Promises;

    /// Makes the lock object of a client process for a key.
    ///
    /// The suite calls this before the first operation of a process, on the scenario's time: faults strike its requests too. The
    /// operation begins when this has returned, or after a lease if it has not returned by then; a call that waits then gets what
    /// is left of its wait. After an error the operation
    /// counts as refused ([`Refusal::Other`]), and the next operation of the process calls this again.
    fn open(
        &self,
        host: &Host,
        key: &str,
        lease: Duration,
    ) -> impl Future<Output = Result<Self::Lock, BoxError>> + Send;

    /// Makes the lock object of one task from that of its process, for locks whose owner is a handle that tasks do not share.
    /// By default all tasks of a process share its lock object.
    ///
    /// The suite takes each task as an owner. So a reentrant lock makes an object with an owner of its own here, and
    /// [`token`](Self::token) names this owner with [`Token::of_owner`].
    fn of_task(&self, lock: &Self::Lock) -> Option<Self::Lock> {
        let _ = lock;
        None
    }

    /// Acquires the lock if it is free; `None` if another client holds it. A grant whose deadline is over when the reply arrives
    /// must not be returned: the result is then the error [`Refusal::Lost`], or `None`.
    fn try_lock(
        &self,
        lock: &Self::Lock,
    ) -> impl Future<Output = Result<Option<Self::Grant>, BoxError>> + Send;

    /// Releases a grant; true if this call freed the lock. An inner release of a reentrant lock returns true too.
    fn release(
        &self,
        lock: &Self::Lock,
        grant: Self::Grant,
    ) -> impl Future<Output = Result<bool, BoxError>> + Send;

    /// Acquires the lock, waiting for it; `None` if other clients held it for the whole wait. By default the suite repeats
    /// [`try_lock`](Self::try_lock).
    fn lock_timeout(
        &self,
        lock: &Self::Lock,
        wait: Duration,
    ) -> impl Future<Output = Result<Option<Self::Grant>, BoxError>> + Send {
        let _ = (lock, wait);
        async { Err(NotOffered.into()) }
    }

    /// Renews a grant, so that it lasts for one lease from now on; false if it was no longer held. An extension that adds a lease
    /// to the rest of the old one keeps a dead holder's lock for longer than a lease, which breaks P6. The suite reads
    /// [`deadline`](Self::deadline) again after this.
    /// An extension whose reply comes after the old deadline must not succeed: the holder already believes that it has lost
    /// the lock.
    fn extend(
        &self,
        lock: &Self::Lock,
        grant: &Self::Grant,
    ) -> impl Future<Output = Result<bool, BoxError>> + Send {
        let _ = (lock, grant);
        async { Err(NotOffered.into()) }
    }

    /// Time until which the holder may rely on the grant, on the clock of its [`Host`]. Without it a grant counts for one lease
    /// from before the request; that of a lock that renews ([`Promises::renewing`]) until it is given back or
    /// [`lost`](Self::lost) returns: its holder has no other way to learn that it is over.
    ///
    /// While the process has the grant, the suite calls this method after each step of the process, with
    /// [`check(..).threads()`](Threads) every two milliseconds. So it sees extensions in the background too. The method must
    /// return at once. A deadline that is moved back, for a grant that the lock knows to be lost, counts from when the method returns
    /// it.
    fn deadline(&self, grant: &Self::Grant) -> Option<Duration> {
        let _ = grant;
        None
    }

    /// Acquires a lock with several modes if it is free; the suite calls this.
    ///
    /// By default it calls [`try_lock`](Self::try_lock) for [`Mode::Exclusive`], and refuses every other mode with
    /// [`NotOffered`]. A semaphore that grants one permit at a time implements this method: it grants [`Mode::Permits(1)`](Mode),
    /// and returns [`NotOffered`] for more permits.
    fn try_mode(
        &self,
        lock: &Self::Lock,
        mode: Mode,
    ) -> impl Future<Output = Result<Option<Self::Grant>, BoxError>> + Send {
        async move {
            if mode.is_exclusive() {
                self.try_lock(lock).await
            } else {
                Err(NotOffered.into())
            }
        }
    }

    /// Acquires a lock with several modes, waiting for it; the suite calls this. By default it calls
    /// [`lock_timeout`](Self::lock_timeout) for [`Mode::Exclusive`]. For every other mode the suite repeats
    /// [`try_mode`](Self::try_mode).
    fn lock_mode(
        &self,
        lock: &Self::Lock,
        mode: Mode,
        wait: Duration,
    ) -> impl Future<Output = Result<Option<Self::Grant>, BoxError>> + Send {
        async move {
            if mode.is_exclusive() {
                self.lock_timeout(lock, wait).await
            } else {
                Err(NotOffered.into())
            }
        }
    }

    /// Returns the fencing token of a grant, if the lock has fencing tokens.
    fn fencing_token(&self, grant: &Self::Grant) -> Option<u64> {
        let _ = grant;
        None
    }

    /// Returns true if users send the fencing token with reads too, as they should.
    fn fences_reads(&self) -> bool {
        true
    }

    /// Sets up a latch or a stock; true if this call set it up.
    fn set_up(&self, lock: &Self::Lock) -> impl Future<Output = Result<bool, BoxError>> + Send {
        let _ = lock;
        async { Err(NotOffered.into()) }
    }

    /// Asks for a place among the first N, under a name. A counter that keeps names counts each name once.
    /// The suite calls this method.
    fn admit_as(
        &self,
        lock: &Self::Lock,
        name: OpId,
    ) -> impl Future<Output = Result<Counted, BoxError>> + Send {
        let _ = name;
        async { Ok(self.admit(lock).await?.into()) }
    }

    /// Asks for a place among the first N; true if this call got one.
    fn admit(&self, lock: &Self::Lock) -> impl Future<Output = Result<bool, BoxError>> + Send {
        let _ = lock;
        async { Err(NotOffered.into()) }
    }

    /// Counts a latch down and returns the number of the count; the suite calls this. The error of a latch that is not set up
    /// is [`Refusal::Lost`].
    fn count_one(
        &self,
        lock: &Self::Lock,
    ) -> impl Future<Output = Result<Counted, BoxError>> + Send {
        async { Ok(self.count_down(lock).await?.into()) }
    }

    /// Counts a latch down; false if the latch is at 0.
    fn count_down(&self, lock: &Self::Lock) -> impl Future<Output = Result<bool, BoxError>> + Send {
        let _ = lock;
        async { Err(NotOffered.into()) }
    }

    /// Waits until a latch is at 0; false if the wait ended before. The error of a latch that is not set up is [`Refusal::Lost`].
    fn await_zero(
        &self,
        lock: &Self::Lock,
        wait: Duration,
    ) -> impl Future<Output = Result<bool, BoxError>> + Send {
        let _ = (lock, wait);
        async { Err(NotOffered.into()) }
    }

    /// The token that stands for a grant at the servers. A subject that names it is judged by it; without it the suite
    /// takes the token that a request of the process stored during the call.
    fn token(&self, grant: &Self::Grant) -> Option<Token> {
        let _ = grant;
        None
    }

    /// Returns the lock's state on a node. By default [`stored`](Self::stored), [`queued`](Self::queued)
    /// and [`reserved`](Self::reserved).
    /// If granting the lock changes nothing that this method returns, the suite skips the properties that
    /// need it.
    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        Observed::from(self.stored(view, key))
            .waiting(self.queued(view, key))
            .reserving(self.reserved(view, key))
    }

    /// Tokens of the holders that a node stores, the short form of [`observe`](Self::observe). By default the string at the
    /// key; none for a latch and for a counter that admits clients, which have no holders.
    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        match self.promises().kind {
            Kind::Latch(_) | Kind::Admission(_) => Vec::new(),
            Kind::Mutex | Kind::ReadWrite | Kind::Semaphore(_) => {
                view.string(key).into_iter().collect()
            }
        }
    }

    /// Tokens of the waiters in the queue of a node, the next waiter first, for locks that keep a queue. For counters that
    /// keep names: the names of the admitted clients, of which only the number counts.
    fn queued(&self, view: &dyn View, key: &str) -> Vec<Vec<u8>> {
        let _ = (view, key);
        Vec::new()
    }

    /// Tokens of the waiters for which a node reserves the lock, for locks whose release reserves it for the waiter that it wakes.
    fn reserved(&self, view: &dyn View, key: &str) -> Vec<Vec<u8>> {
        let _ = (view, key);
        Vec::new()
    }

    /// True if a key may stay while no client uses the lock, as a counter of fencing tokens does.
    fn outlasts(&self, key: &[u8]) -> bool {
        key.ends_with(b":fence")
    }

    /// True if a key that may stay must have a time to live.
    fn ends(&self, key: &[u8]) -> bool {
        let _ = key;
        false
    }

    /// Completes when the lock reports to the holder that the grant is lost.
    fn lost(&self, grant: &Self::Grant) -> impl Future<Output = ()> + Send {
        let _ = grant;
        std::future::pending()
    }
}

/// Answer of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The call was not counted.
    Not,
    /// The call was counted.
    Yes,
    /// The call was counted with this number, from 1.
    As(u32),
}

impl From<bool> for Counted {
    fn from(counted: bool) -> Self {
        if counted { Self::Yes } else { Self::Not }
    }
}

/// Error of an optional method that the subject does not implement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOffered;

impl fmt::Display for NotOffered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the subject does not offer this operation")
    }
}

impl std::error::Error for NotOffered {}

/// Verdict that the suite has to reach about a listed subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// All promises hold.
    Sound,
    /// At least these properties fail.
    Convicted(&'static [Property]),
}

/// A row of the list of subjects.
pub struct Row {
    /// Descriptive name, such as `get-then-del`. The id is [`Subject::name`].
    pub name: &'static str,
    /// Makes the subject.
    pub make: fn() -> Box<dyn DynSubject>,
    /// The verdict to reach.
    pub expected: Expected,
    /// Short description of the lock.
    pub summary: &'static str,
}

impl Row {
    /// Returns the id, such as `B03a`; for our own locks it equals the name.
    #[must_use]
    pub fn id(&self) -> &'static str {
        (self.make)().name()
    }

    /// Returns the kind of code in which this mistake occurs; `None` for locks outside of [`SEEDS`] and
    /// [`SPECIMENS`].
    #[must_use]
    pub fn met(&self) -> Option<&'static str> {
        met::met(self.id())
    }
}

fn boxed(subject: impl Subject) -> Box<dyn DynSubject> {
    Box::new(Arc::new(subject))
}

/// All subjects: our locks, then systems found in the wild, then known lock bugs.
pub fn subjects() -> impl Iterator<Item = &'static Row> {
    let known = SEEDS.iter().chain(SPECIMENS).copied().flatten();
    SUBJECTS.iter().chain(known)
}

/// Our locks, and the canary.
pub const SUBJECTS: &[Row] = &[
    Row {
        name: "mutex",
        make: kind::mutex,
        expected: Expected::Sound,
        summary: "redouble-lock's mutex; the lease ends unless the caller extends it",
    },
    Row {
        name: "mutex-watchdog",
        make: kind::mutex_with_watchdog,
        expected: Expected::Sound,
        summary: "redouble-lock's mutex; a watchdog extends its lease",
    },
    Row {
        name: "mutex-holding",
        make: kind::mutex_that_holds,
        expected: Expected::Sound,
        summary: "redouble-lock's mutex; a grant keeps other clients out for at least a tenth of the lease",
    },
    Row {
        name: "mutex-watching",
        make: kind::mutex_that_watches,
        expected: Expected::Sound,
        summary: "redouble-lock's mutex; the holder learns at once if another client changes the key",
    },
    Row {
        name: "mutex-metadata",
        make: kind::mutex_with_metadata,
        expected: Expected::Sound,
        summary: "redouble-lock's mutex, with metadata of the holder beside the key",
    },
    Row {
        name: "fenced",
        make: kind::fenced,
        expected: Expected::Sound,
        summary: "redouble-lock's mutex with fencing tokens",
    },
    Row {
        name: "fenced-handed-on",
        make: kind::fenced_handed_on,
        expected: Expected::Sound,
        summary: "redouble-lock's fenced mutex with metadata; another object takes each grant over before its use",
    },
    Row {
        name: "reentrant",
        make: kind::reentrant,
        expected: Expected::Sound,
        summary: "redouble-lock's reentrant mutex",
    },
    Row {
        name: "fenced-reentrant",
        make: kind::fenced_reentrant,
        expected: Expected::Sound,
        summary: "redouble-lock's reentrant mutex with fencing tokens",
    },
    Row {
        name: "fair",
        make: kind::fair,
        expected: Expected::Sound,
        summary: "redouble-lock's mutex that serves waiters in the order of their arrival",
    },
    Row {
        name: "fenced-fair",
        make: kind::fenced_fair,
        expected: Expected::Sound,
        summary: "redouble-lock's fair mutex with fencing tokens, held for at least a tenth of the lease",
    },
    Row {
        name: "read-write",
        make: kind::read_write,
        expected: Expected::Sound,
        summary: "redouble-lock's lock for many readers or one writer",
    },
    Row {
        name: "read-write-preferring",
        make: kind::read_write_preferring,
        expected: Expected::Sound,
        summary: "redouble-lock's read-write lock that prefers writers, held for at least a tenth of the lease",
    },
    Row {
        name: "semaphore",
        make: kind::semaphore,
        expected: Expected::Sound,
        summary: "redouble-lock's semaphore of three permits; clients take one to three",
    },
    Row {
        name: "semaphore-holding",
        make: kind::semaphore_that_holds,
        expected: Expected::Sound,
        summary: "redouble-lock's semaphore; a grant keeps its permits for at least a tenth of the lease",
    },
    Row {
        name: "multi",
        make: kind::multi,
        expected: Expected::Sound,
        summary: "redouble-lock's lock on several keys at once, with metadata of the holder",
    },
    Row {
        name: "fenced-multi",
        make: kind::fenced_multi,
        expected: Expected::Sound,
        summary: "redouble-lock's lock on several keys with fencing tokens, held for at least a tenth of the lease",
    },
    Row {
        name: "redlock",
        make: kind::redlock,
        expected: Expected::Sound,
        summary: "redouble-lock's Redlock on five independent nodes",
    },
    Row {
        name: "redlock-of-three",
        make: kind::redlock_of_three,
        expected: Expected::Sound,
        summary: "redouble-lock's Redlock on three nodes",
    },
    Row {
        name: "redlock-watchdog",
        make: kind::redlock_with_watchdog,
        expected: Expected::Sound,
        summary: "redouble-lock's Redlock on three nodes; a watchdog extends its lease",
    },
    Row {
        name: "fenced-redlock",
        make: kind::fenced_redlock,
        expected: Expected::Sound,
        summary: "redouble-lock's Redlock on three nodes with fencing tokens",
    },
    Row {
        name: "redlock-handed-on",
        make: kind::redlock_handed_on,
        expected: Expected::Sound,
        summary: "redouble-lock's Redlock with fencing tokens; another object takes each grant over before its use",
    },
    Row {
        name: "latch",
        make: kind::latch,
        expected: Expected::Sound,
        summary: "redouble-lock's latch of three counts",
    },
    Row {
        name: "admission",
        make: kind::admission,
        expected: Expected::Sound,
        summary: "redouble-lock's counter that admits the first two clients",
    },
    Row {
        name: "admission-expiring",
        make: kind::admission_that_expires,
        expected: Expected::Sound,
        summary: "redouble-lock's counter that admits two clients, and starts again at zero after a lease",
    },
    Row {
        name: "admission-named",
        make: kind::admission_by_name,
        expected: Expected::Sound,
        summary: "redouble-lock's counter that admits one client and counts each name once",
    },
    Row {
        name: "admission-named-expiring",
        make: kind::admission_by_name_that_expires,
        expected: Expected::Sound,
        summary: "redouble-lock's counter that admits two names, and starts again at zero after a lease",
    },
    Row {
        name: "stock",
        make: kind::stock,
        expected: Expected::Sound,
        summary: "redouble-lock's stock: hands out two items",
    },
    Row {
        name: "canary",
        make: || boxed(Canary),
        expected: Expected::Convicted(&[Property::Exclusion, Property::Ownership]),
        summary: "releases by DEL without checking the owner; the suite must convict it",
    },
];
