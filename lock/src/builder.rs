//! The builder that all kinds of locks share.

use crate::{
    core::Core,
    options::{Options, Pauses},
};
use std::{fmt, sync::Arc, time::Duration};

/// Builds a lock of the kind `K`, such as a [`Mutex`](crate::Mutex).
///
/// ```no_run
/// # async fn f(locks: redouble_lock::LockManager) {
/// use std::time::Duration;
///
/// let lock = locks
///     .mutex("order:17")
///     .lease(Duration::from_secs(10))
///     .watchdog(true)
///     .build();
/// # }
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct LockBuilder<K> {
    pub(crate) core: Arc<Core>,
    pub(crate) key: Arc<[u8]>,
    pub(crate) options: Options,
    pub(crate) kind: K,
}

impl<K> LockBuilder<K> {
    pub(crate) fn new(core: Arc<Core>, key: &[u8], kind: K) -> Self {
        let options = Options {
            observer: core.observer.clone(),
            ..Options::default()
        };
        Self {
            core,
            key: key.into(),
            options,
            kind,
        }
    }

    /// The same options for a lock of another kind.
    pub(crate) fn of_kind<L>(self, kind: L) -> LockBuilder<L> {
        LockBuilder {
            core: self.core,
            key: self.key,
            options: self.options,
            kind,
        }
    }

    /// Sets for how long a grant lasts unless it is extended. Default: 30 s.
    ///
    /// A fraction of a millisecond is cut off. What is left after drift and safety margin must be at least
    /// 1 ms, and the lease at most ten years; otherwise each attempt to lock fails with
    /// [`LockError::InvalidLease`](crate::LockError::InvalidLease), without asking Redis.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// Sets whether the lease is extended in the background as long as the guard lives. Default: no.
    ///
    /// It is extended after each third of it, and after a failure again until the deadline. That ends with the
    /// guard. A guard that is leaked (`std::mem::forget`) keeps its lock for as long as the process lives.
    ///
    /// One task with one timer does it for all guards of a manager, and ends with the last of them. It runs on the tokio
    /// runtime that the guard was made on; there is one on each.
    pub fn watchdog(mut self, watchdog: bool) -> Self {
        self.options.watchdog = watchdog;
        self
    }

    /// Sets by how much the rates of the local clock and of the server's clock may differ, in
    /// millionths. Default: 10 000, which is one per cent.
    ///
    /// A grant is trusted for that much less than its lease. Quartz clocks differ by less than
    /// 100 ppm; a clock that is slewed by its time daemon, by up to 500 ppm or even more.
    pub fn drift_ppm(mut self, drift_ppm: u32) -> Self {
        self.options.drift_ppm = drift_ppm;
        self
    }

    /// Sets by how much a grant is trusted less than its lease besides the drift. Default: 2 ms.
    ///
    /// It covers what does not grow with the lease: the granularity of timers, and after a failover
    /// the lead of the new master's clock over the old one's.
    pub fn safety_margin(mut self, safety_margin: Duration) -> Self {
        self.options.safety_margin = safety_margin;
        self
    }

    /// Sets how long a single request to Redis may take, connecting included. Default: 500 ms,
    /// at least 1 ms.
    ///
    /// A request without an answer by then counts as unknown: it may have been executed. Every call
    /// returns within its own wait plus one reply timeout.
    pub fn reply_timeout(mut self, reply_timeout: Duration) -> Self {
        self.options.reply_timeout = reply_timeout.max(Duration::from_millis(1));
        self
    }

    /// Sets for how long [`Lock::lock`](crate::Lock::lock) waits at most. Default: for as long as others hold the lock.
    ///
    /// It is then what [`Lock::lock_timeout`](crate::Lock::lock_timeout) is with this time, which itself goes by
    /// its own.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = Some(wait);
        self
    }

    /// Sets the pauses of a waiter that no message wakes: the `first` one, from which they double up to the
    /// `longest`. Default: 5 ms, and [`max_poll_interval`](Self::max_poll_interval) or 100 ms.
    ///
    /// For connections without messages, for [`RedlockMutex`](crate::RedlockMutex), and for the time until a subscription is
    /// confirmed. Each pause is drawn from its upper half, by the randomness of the [`Environment`](crate::Environment), and
    /// ends soon after the holder's TTL. The first must be 1 ms or longer, the longest not shorter than that and
    /// at most a second; otherwise each attempt to lock fails with [`LockError::InvalidPauses`](crate::LockError::InvalidPauses), without asking Redis.
    pub fn poll_pauses(mut self, first: Duration, longest: Duration) -> Self {
        self.options.poll = Some(Pauses { first, longest });
        self
    }

    /// Sets the pauses before requests that failed are repeated: the `first` one, from which they double up
    /// to the `longest`. Default: 10 ms and 1 s.
    ///
    /// For calls that wait and for extensions in the background; those of a watchdog are also no longer than a twelfth of the lease. The first
    /// failure whose outcome is not known is repeated at once all the same. A fair lock keeps a waiter's place for as long as
    /// the longest pause, if that is more than a second. They are drawn and checked as [`poll_pauses`](Self::poll_pauses), but may be up to a minute long.
    pub fn retry_pauses(mut self, first: Duration, longest: Duration) -> Self {
        self.options.retry = Pauses { first, longest };
        self
    }

    /// Sets how long a waiter leaves a lock alone whose holder does not tell it of the release.
    /// Default: a second where messages wake waiters, which is also the longest; else 100 ms.
    ///
    /// A waiter looks again when the holder's TTL ends, at the latest after this time. Where no messages
    /// arrive it begins with short pauses, which grow. Pauses are partly random.
    pub fn max_poll_interval(mut self, max_poll_interval: Duration) -> Self {
        self.options.max_poll_interval = Some(max_poll_interval);
        self
    }

    /// Sets how many replicas must have the lock before it counts as granted. Default: none. One more round
    /// trip, and the wait for the replicas, with `WAIT`. The lock is asked for on a connection of its own, of which up to eight are kept,
    /// since `WAIT` holds up its connection; over a connection of the user's own, everything else on that waits too. For locks on one
    /// node.
    ///
    /// If fewer confirm within the reply timeout, the lock is given back and the call fails with
    /// [`LockError::NotReplicated`](crate::LockError::NotReplicated). A failover then loses the lock less often, but it still can: the replica
    /// that is promoted need not be one of them, and extensions are not waited for.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.options.replicas = replicas;
        self
    }

    /// Sets for how long a grant keeps others out at least, even if it is released before. Default: not at all.
    ///
    /// For work that shall be done once per interval by the first worker that comes, where the clocks of workers differ. The time
    /// counts from the moment before the request for the lock, and may be longer than the lease. A holder that loses its
    /// lease before the release ends it earlier.
    pub fn hold_at_least(mut self, hold_at_least: Duration) -> Self {
        self.options.hold_at_least = hold_at_least;
        self
    }

    /// Sets for how long the [`watchdog`](Self::watchdog) extends a grant at most. Default: forever.
    ///
    /// The lease then ends at that time, counted from the grant, and the loss is told with
    /// [`LossReason::MaxHold`](crate::LossReason::MaxHold). The first lease and those of [`Guard::extend`](crate::Guard::extend) are not cut short.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// Sets whether the guard is told as soon as somebody else changes the key of the lock: it is then lost at once, and not
    /// only when the next extension finds it gone. Default: no.
    ///
    /// It needs Redis 6 and a connection that receives RESP3 pushes: a client with `?protocol=resp3`, or
    /// [`LockManager::with_pushes`](crate::LockManager::with_pushes). Without, attempts to lock fail. It costs one round trip per
    /// connection and none per lock; a key that several share, such as that of a semaphore, one request for
    /// each change. What the same connection does is not told, nor are changes in a cluster.
    pub fn track_key(mut self, track_key: bool) -> Self {
        self.options.track_key = track_key;
        self
    }

    /// Sets what the holder says of itself, for [`LockManager::holder`](crate::LockManager::holder): a host, a
    /// process, a reason. Default: nothing.
    ///
    /// It stands in a key of its own beside the lock, for as long, and is written and removed by the same
    /// scripts, so there is no round trip more.
    pub fn metadata(mut self, metadata: impl AsRef<[u8]>) -> Self {
        self.options.metadata = Some(metadata.as_ref().into());
        self
    }
}

impl<K> fmt::Debug for LockBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockBuilder")
            .field("key", &String::from_utf8_lossy(&self.key))
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
