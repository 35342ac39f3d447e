//! What is put to the test: the trait that a lock implements, and the list of those we know.

mod canary;
mod foreign;
mod kind;
#[cfg(unix)]
mod plain;
mod promises;
mod proxy;
mod seed;
mod specimen;
mod suspect;
mod threads;

pub use crate::history::Refusal;
pub use crate::simulation::{Connection, Host};
pub use canary::{Canary, CanaryLock};
pub use foreign::{Foreign, ForeignError};
#[cfg(unix)]
pub use plain::Plain;
pub use promises::{Fencing, Promises};
pub use seed::SEEDS;
pub use specimen::SPECIMENS;
pub use suspect::{AnyGrant, AnyLock, Granted, Suspect};
pub use threads::Threads;

use crate::{
    backend::View,
    checker::Property,
    history::{Mode, OpId, Stored},
};
use std::{fmt, future::Future, sync::Arc, time::Duration};

/// Any error; the suite only needs its text.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A lock under test.
///
/// Implementations write the methods as plain `async fn`. Whatever they need from the outside
/// (connections, time, randomness, tasks) comes from the [`Host`].
///
/// An `Err` always means that the outcome is *unknown*: the request may have been executed, or
/// may be executed later. What definitely did not happen is `Ok(None)` or `Ok(false)`, or a
/// [`Refusal`] as the error, which says why.
pub trait Subject: Send + Sync + 'static {
    /// The lock object: one per client process, shared by all its tasks.
    type Lock: Send + Sync + 'static;
    /// What an acquisition gives; its drop is the drop of a guard.
    type Grant: Send + Sync + 'static;

    /// The name under which it is listed.
    fn name(&self) -> &'static str;

    /// What it claims.
    fn promises(&self) -> Promises;

    /// Makes the lock object of a client process for a key.
    fn open(
        &self,
        host: &Host,
        key: &str,
        lease: Duration,
    ) -> impl Future<Output = Result<Self::Lock, BoxError>> + Send;

    /// Makes the lock object of one task from that of its process, where the owner of a lock is a handle
    /// that tasks do not share. Unless said otherwise, they all use the same.
    fn of_task(&self, lock: &Self::Lock) -> Option<Self::Lock> {
        let _ = lock;
        None
    }

    /// Takes the lock if it is free; `None` if another holds it.
    fn try_lock(
        &self,
        lock: &Self::Lock,
    ) -> impl Future<Output = Result<Option<Self::Grant>, BoxError>> + Send;

    /// Gives a grant back; whether this call freed the lock.
    fn release(
        &self,
        lock: &Self::Lock,
        grant: Self::Grant,
    ) -> impl Future<Output = Result<bool, BoxError>> + Send;

    /// Takes the lock, waiting for it; `None` if another held it all the time. Without this the
    /// suite repeats [`try_lock`](Self::try_lock).
    fn lock_timeout(
        &self,
        lock: &Self::Lock,
        wait: Duration,
    ) -> impl Future<Output = Result<Option<Self::Grant>, BoxError>> + Send {
        let _ = (lock, wait);
        async { Err(NotOffered.into()) }
    }

    /// Extends a grant by the lease; false if it was no longer held.
    fn extend(
        &self,
        lock: &Self::Lock,
        grant: &Self::Grant,
    ) -> impl Future<Output = Result<bool, BoxError>> + Send {
        let _ = (lock, grant);
        async { Err(NotOffered.into()) }
    }

    /// Until when the holder may rely on the grant, on the clock of its [`Host`]. Without one, a
    /// grant is taken to claim nothing past its lease, counted from before the request.
    fn deadline(&self, grant: &Self::Grant) -> Option<Duration> {
        let _ = grant;
        None
    }

    /// Takes a lock that can be taken in several ways, if it is free; the suite calls this.
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

    /// Takes a lock that can be taken in several ways, waiting for it; the suite calls this.
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

    /// The fencing token of a grant, where the lock has them.
    fn fencing_token(&self, grant: &Self::Grant) -> Option<u64> {
        let _ = grant;
        None
    }

    /// Whether its users send the fencing token with their reads as well, as they should.
    fn fences_reads(&self) -> bool {
        true
    }

    /// Sets a latch or a stock up; whether it was not before.
    fn set_up(&self, lock: &Self::Lock) -> impl Future<Output = Result<bool, BoxError>> + Send {
        let _ = lock;
        async { Err(NotOffered.into()) }
    }

    /// Asks to be among the first N under a name, which counts once where names do; the suite calls this.
    fn admit_as(
        &self,
        lock: &Self::Lock,
        name: OpId,
    ) -> impl Future<Output = Result<Counted, BoxError>> + Send {
        let _ = name;
        async { Ok(self.admit(lock).await?.into()) }
    }

    /// Asks to be among the first N; whether that was granted.
    fn admit(&self, lock: &Self::Lock) -> impl Future<Output = Result<bool, BoxError>> + Send {
        let _ = lock;
        async { Err(NotOffered.into()) }
    }

    /// Counts a latch down, and says which count it was; the suite calls this. A latch that is not set up is
    /// [`Refusal::Lost`].
    fn count_one(
        &self,
        lock: &Self::Lock,
    ) -> impl Future<Output = Result<Counted, BoxError>> + Send {
        async { Ok(self.count_down(lock).await?.into()) }
    }

    /// Counts a latch down; whether that counted, which it does not at 0.
    fn count_down(&self, lock: &Self::Lock) -> impl Future<Output = Result<bool, BoxError>> + Send {
        let _ = lock;
        async { Err(NotOffered.into()) }
    }

    /// Waits until a latch stands at 0; false if it did not in time.
    fn await_zero(
        &self,
        lock: &Self::Lock,
        wait: Duration,
    ) -> impl Future<Output = Result<bool, BoxError>> + Send {
        let _ = (lock, wait);
        async { Err(NotOffered.into()) }
    }

    /// What a node stores for the lock: a token per holder. Unless said otherwise, the string at
    /// the key.
    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        view.string(key).into_iter().collect()
    }

    /// Who waits for the lock according to a node, the next one first: a token per waiter. For locks
    /// that keep a queue. For counters that keep them: the names of those who are in.
    fn queued(&self, view: &dyn View, key: &str) -> Vec<Vec<u8>> {
        let _ = (view, key);
        Vec::new()
    }

    /// Whether a key may stay when nobody uses the lock, as a counter of fencing tokens does.
    fn outlasts(&self, key: &[u8]) -> bool {
        key.ends_with(b":fence")
    }

    /// Whether a key that may stay has to have an end.
    fn ends(&self, key: &[u8]) -> bool {
        let _ = key;
        false
    }

    /// Completes when the holder is told that the grant is lost.
    fn lost(&self, grant: &Self::Grant) -> impl Future<Output = ()> + Send {
        let _ = grant;
        std::future::pending()
    }
}

/// What whoever is counted is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// It was not counted.
    Not,
    /// It was counted.
    Yes,
    /// It was counted as this one, from 1.
    As(u32),
}

impl From<bool> for Counted {
    fn from(counted: bool) -> Self {
        if counted { Self::Yes } else { Self::Not }
    }
}

/// The error of an optional method that a subject does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOffered;

impl fmt::Display for NotOffered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the subject does not offer this operation")
    }
}

impl std::error::Error for NotOffered {}

/// The verdict that the suite has to reach about a listed subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Everything it promises holds.
    Sound,
    /// At least these properties are seen to fail.
    Convicted(&'static [Property]),
}

/// A row of the list of subjects.
pub struct Row {
    /// Makes the subject.
    pub make: fn() -> Box<dyn Suspect>,
    /// The verdict to reach.
    pub expected: Expected,
    /// What it is, in a few words.
    pub summary: &'static str,
}

fn boxed(subject: impl Subject) -> Box<dyn Suspect> {
    Box::new(Arc::new(subject))
}

/// All subjects: ours, then the systems that people run, then what is known to be broken.
pub fn subjects() -> impl Iterator<Item = &'static Row> {
    let known = SEEDS.iter().chain(SPECIMENS).copied().flatten();
    SUBJECTS.iter().chain(known)
}

/// Our locks, and the canary.
pub const SUBJECTS: &[Row] = &[
    Row {
        make: kind::mutex,
        expected: Expected::Sound,
        summary: "redouble-lock's mutex; a lease lasts unless it is extended by hand",
    },
    Row {
        make: kind::mutex_with_watchdog,
        expected: Expected::Sound,
        summary: "redouble-lock's mutex; its lease is extended in the background",
    },
    Row {
        make: kind::mutex_that_holds,
        expected: Expected::Sound,
        summary: "its mutex; a grant keeps others out for a tenth of a lease at least",
    },
    Row {
        make: kind::mutex_that_watches,
        expected: Expected::Sound,
        summary: "its mutex, whose holder is told at once what others do to the key",
    },
    Row {
        make: kind::mutex_with_metadata,
        expected: Expected::Sound,
        summary: "its mutex, with metadata of its holder beside the key",
    },
    Row {
        make: kind::fenced,
        expected: Expected::Sound,
        summary: "its mutex whose grants are numbered",
    },
    Row {
        make: kind::fenced_handed_on,
        expected: Expected::Sound,
        summary: "the same with metadata, each of whose grants another object takes over before it is used",
    },
    Row {
        make: kind::reentrant,
        expected: Expected::Sound,
        summary: "its mutex, taken by owners that may take it again",
    },
    Row {
        make: kind::fenced_reentrant,
        expected: Expected::Sound,
        summary: "the same with numbers",
    },
    Row {
        make: kind::fair,
        expected: Expected::Sound,
        summary: "its mutex that serves waiters in the order in which they came",
    },
    Row {
        make: kind::fenced_fair,
        expected: Expected::Sound,
        summary: "the same with numbers, and held for a tenth of a lease at least",
    },
    Row {
        make: kind::read_write,
        expected: Expected::Sound,
        summary: "its lock for many readers or one writer",
    },
    Row {
        make: kind::read_write_preferring,
        expected: Expected::Sound,
        summary: "the same, whose readers make way for a writer that waits; held for a tenth of a lease at least",
    },
    Row {
        make: kind::semaphore,
        expected: Expected::Sound,
        summary: "its semaphore of three permits, taken by one to three",
    },
    Row {
        make: kind::semaphore_that_holds,
        expected: Expected::Sound,
        summary: "the same; a grant keeps its permits for a tenth of a lease at least",
    },
    Row {
        make: kind::multi,
        expected: Expected::Sound,
        summary: "its lock on several keys at once, with metadata of its holder",
    },
    Row {
        make: kind::fenced_multi,
        expected: Expected::Sound,
        summary: "the same with numbers, and held for a tenth of a lease at least",
    },
    Row {
        make: kind::redlock,
        expected: Expected::Sound,
        summary: "its mutex on five independent nodes",
    },
    Row {
        make: kind::redlock_of_three,
        expected: Expected::Sound,
        summary: "the same on three",
    },
    Row {
        make: kind::redlock_with_watchdog,
        expected: Expected::Sound,
        summary: "the same on three; its lease is extended in the background",
    },
    Row {
        make: kind::fenced_redlock,
        expected: Expected::Sound,
        summary: "the same on three, with numbers",
    },
    Row {
        make: kind::redlock_handed_on,
        expected: Expected::Sound,
        summary: "the same, each of whose grants another object takes over before it is used",
    },
    Row {
        make: kind::latch,
        expected: Expected::Sound,
        summary: "its latch of three counts",
    },
    Row {
        make: kind::admission,
        expected: Expected::Sound,
        summary: "its counter that lets the first two in",
    },
    Row {
        make: kind::admission_that_expires,
        expected: Expected::Sound,
        summary: "the same, which begins anew after a lease",
    },
    Row {
        make: kind::admission_by_name,
        expected: Expected::Sound,
        summary: "its counter that lets the first one in and counts each name once",
    },
    Row {
        make: kind::admission_by_name_that_expires,
        expected: Expected::Sound,
        summary: "the same for two, which begins anew after a lease",
    },
    Row {
        make: kind::stock,
        expected: Expected::Sound,
        summary: "its stock of two things that are handed out",
    },
    Row {
        make: || boxed(Canary),
        expected: Expected::Convicted(&[Property::Exclusion, Property::Ownership]),
        summary: "releases by DEL without looking: must be caught",
    },
];
