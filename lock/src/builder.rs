//! The builder that all kinds of locks share.

use crate::{
    core::Core,
    options::{Options, Pauses},
};
use std::{fmt, sync::Arc, time::Duration};

/// Builds a lock of the kind `K`, such as a [`Mutex`](crate::Mutex).
///
/// ```no_run
/// # fn f(locks: redouble_lock::LockManager) -> Result<(), redouble_lock::LockError> {
/// use std::time::Duration;
///
/// let lock = locks
///     .mutex("order:17")
///     .lease(Duration::from_secs(10))
///     .watchdog(true)
///     .build()?;
/// # Ok(())
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
    /// With the defaults of the manager. `key` is the name that the user gives to the lock, without the prefix.
    pub(crate) fn new(core: Arc<Core>, key: &[u8], kind: K) -> Self {
        Self {
            key: core.key(key).into(),
            options: core.defaults.clone(),
            core,
            kind,
        }
    }

    /// The same options for a lock of another kind.
    pub(crate) fn map_kind<L>(self, kind: impl FnOnce(K) -> L) -> LockBuilder<L> {
        LockBuilder {
            core: self.core,
            key: self.key,
            options: self.options,
            kind: kind(self.kind),
        }
    }

    /// Sets for how long a grant lasts unless it is extended. Default: 30 s, or the
    /// [`default_lease`](crate::LockManagerBuilder::default_lease) of the manager.
    ///
    /// A fraction of a millisecond is cut off. The rest after drift and safety margin must be at least
    /// 1 ms, and the lease at most ten years; otherwise [`build`](Self::build) fails with
    /// [`LockError::InvalidLease`](crate::LockError::InvalidLease).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// Sets whether the lease is extended in the background as long as the guard lives. Default: no, or what the
    /// [manager](crate::LockManagerBuilder::watchdog) says.
    ///
    /// The watchdog extends the lease each time a third of it has passed. After a failure it tries again until the
    /// deadline. It stops when the guard is dropped. A leaked guard (`std::mem::forget`) keeps its lock until the process ends.
    ///
    /// All guards of a manager on one tokio runtime share one task with one timer. The task ends with the last guard.
    pub fn watchdog(mut self, watchdog: bool) -> Self {
        self.options.watchdog = watchdog;
        self
    }

    /// Sets by how much the rates of the local clock and of the server's clock may differ, in
    /// millionths. Default: 10 000, which is one per cent.
    ///
    /// The deadline of a grant is earlier by this share of the lease. Quartz clocks differ by less than
    /// 100 ppm; a clock that is slewed by its time daemon, by up to 500 ppm or even more.
    pub fn drift_ppm(mut self, drift_ppm: u32) -> Self {
        self.options.drift_ppm = drift_ppm;
        self
    }

    /// Sets the safety margin subtracted from the lease, in addition to the clock drift. Default: 2 ms.
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

    /// Sets for how long [`Lock::lock`](crate::Lock::lock) waits at most. Default: for as long as other clients
    /// hold the lock.
    ///
    /// [`Lock::lock_timeout`](crate::Lock::lock_timeout) ignores this option: its argument is the limit.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = Some(wait);
        self
    }

    /// Sets the pauses of a waiter that no message wakes: the `first` one, from which they double up to the
    /// `longest`. Default: 5 ms, and [`max_poll_interval`](Self::max_poll_interval) or 100 ms.
    ///
    /// For connections without messages, for [`RedlockMutex`](crate::RedlockMutex), and for the time until a subscription is
    /// confirmed. Each pause is drawn from its upper half, by the randomness of the [`Environment`](crate::Environment), and
    /// ends soon after the holder's time to live. The first must be 1 ms or longer, the longest not shorter than that and
    /// at most a second; otherwise [`build`](Self::build) fails with [`LockError::InvalidPauses`](crate::LockError::InvalidPauses).
    pub fn poll_pauses(mut self, first: Duration, longest: Duration) -> Self {
        self.options.poll = Some(Pauses { first, longest });
        self
    }

    /// Sets the pauses before requests that failed are repeated: the `first` one, from which they double up
    /// to the `longest`. Default: 10 ms, and [`max_poll_interval`](Self::max_poll_interval) or 1 s.
    ///
    /// They apply to calls that wait and to extensions in the background; a watchdog pauses for a twelfth of the lease at most. The
    /// first request with an unknown outcome is repeated without a pause. A fair lock keeps a waiter's place for the longest pause,
    /// if that is more than a second. They are drawn and checked like [`poll_pauses`](Self::poll_pauses), but may be up to a
    /// minute long.
    pub fn retry_pauses(mut self, first: Duration, longest: Duration) -> Self {
        self.options.retry = Some(Pauses { first, longest });
        self
    }

    /// Sets the longest pause between two requests of a waiter when no release message arrives.
    /// Default: 1 s where messages wake waiters, which is also the maximum; otherwise 100 ms.
    ///
    /// A waiter asks again when the holder's time to live ends, at the latest after this time. Where no messages
    /// arrive, and after failed requests, its pauses start short and grow up to this time, unless
    /// [`poll_pauses`](Self::poll_pauses) or [`retry_pauses`](Self::retry_pauses) say otherwise. Pauses are partly random.
    pub fn max_poll_interval(mut self, max_poll_interval: Duration) -> Self {
        self.options.max_poll_interval = Some(max_poll_interval);
        self
    }

    /// Sets the number of replicas that must confirm the lock before it counts as granted. Default: 0. For locks on one node.
    ///
    /// It costs another round trip with `WAIT`, and the time until the replicas confirm. `WAIT` blocks its connection, so the call
    /// uses a connection that nothing else uses meanwhile; up to eight of them are kept. If the manager has only the connection that
    /// the user gave it, every other request on that connection waits too.
    ///
    /// If fewer replicas confirm within the reply timeout, the call releases the lock and fails with
    /// [`LockError::NotReplicated`](crate::LockError::NotReplicated). A failover then loses the lock less often, but it still
    /// can: the promoted replica need not be one of them, and extensions do not wait for replicas.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.options.replicas = replicas;
        self
    }

    /// Sets for how long a grant keeps other clients out at least, even if its guard releases it earlier. Default: not at all.
    ///
    /// Use it for work that the first worker does once per interval, where the clocks of workers differ. The time counts from the
    /// moment before the request for the lock, and may be longer than the lease. If the holder loses the lease before its
    /// release, the time ends with the lease. A process that [adopts](crate::Lock::adopt) the grant keeps the rest of the time.
    ///
    /// The time applies to grants that a caller got. A lock is free at once if the call was cancelled, if too few replicas confirmed the
    /// lock, if the reply came too late, or if fewer than a quorum of nodes granted it.
    pub fn hold_at_least(mut self, hold_at_least: Duration) -> Self {
        self.options.hold_at_least = hold_at_least;
        self
    }

    /// Sets for how long the [`watchdog`](Self::watchdog) extends a grant at most. Default: forever.
    ///
    /// The last lease ends this long after the grant. The guard then reports the loss with
    /// [`LossReason::MaxHold`](crate::LossReason::MaxHold). The first lease and those of
    /// [`Guard::extend`](crate::Guard::extend) are not cut short.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// Sets whether the guard learns at once that another client has changed the key of the lock. Without it, the guard learns of the
    /// loss when the next extension finds the key gone. Default: no.
    ///
    /// It needs Redis 6 and a connection that receives RESP3 pushes: a client with `?protocol=resp3`, or
    /// [`LockManager::with_pushes`](crate::LockManager::with_pushes). Without pushes, attempts to lock fail. It costs one round trip per
    /// connection and none per lock. A key that several holders share, such as that of a semaphore, costs one request for
    /// each change. Changes by the same connection are not reported, nor are changes in a cluster.
    pub fn track_key(mut self, track_key: bool) -> Self {
        self.options.track_key = track_key;
        self
    }

    /// Sets metadata of the holder, for [`LockManager::holder`](crate::LockManager::holder): a host, a
    /// process, a reason. Default: none.
    ///
    /// A second key beside the lock stores it, with the same time to live. The scripts of the lock write and remove
    /// that key, so it costs no further round trip.
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
