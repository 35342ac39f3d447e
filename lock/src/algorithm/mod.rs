//! The algorithms, one file each. An algorithm decides which commands one acquisition sends to Redis; it
//! is an [`Acquisition`]. Waiting, guards and watchdogs work on acquisitions and are the same for all algorithms.

pub(crate) mod around;
pub(crate) mod fair;
pub(crate) mod fenced;
mod keys;
pub(crate) mod multi;
pub(crate) mod once;
pub(crate) mod read_write;
pub(crate) mod redlock;
pub(crate) mod script_set;
pub(crate) mod scripted;
pub(crate) mod semaphore;
pub(crate) mod single;

pub(crate) use keys::{beside, waiters_key};

use crate::{
    environment::BoxFuture,
    error::NodeError,
    lease::Lease,
    token::{FencingToken, Token},
    waiters::Waiter,
};
use std::time::Duration;

/// One acquisition, from its first request until nothing of it is left in Redis.
///
/// An acquisition remembers what it may have left behind: dropping any of its futures at any point is
/// fine, [`is_settled`](Self::is_settled) then tells whether there is something to
/// [`settle`](Self::settle). All instants are times of the environment's clock.
pub(crate) trait Acquisition: Send + Sync + 'static {
    /// The name of the lock, for logs.
    fn key(&self) -> &[u8];

    /// The random value that this acquisition is known by.
    fn token(&self) -> &Token;

    /// Asks for the lock. May be called again after [`Attempt::Refused`] or [`Attempt::Failed`], and
    /// then recognises an earlier request that was executed without an answer.
    fn acquire(&self, lease: Lease, until: Duration) -> BoxFuture<'_, Attempt>;

    /// Asks for a longer lease. Returns the moment before the request left, or nothing if the lock
    /// does not belong to this acquisition any more.
    fn extend(
        &self,
        lease: Lease,
        until: Duration,
    ) -> BoxFuture<'_, Result<Option<Duration>, NodeError>>;

    /// Gives the lock back; false if it did not belong to this acquisition any more.
    fn release(&self, until: Duration) -> BoxFuture<'_, Result<bool, NodeError>>;

    /// Removes whatever may stand or may yet arrive of this acquisition; tries again until that is
    /// done or until the time is over. Returns [`is_settled`](Self::is_settled).
    fn settle(&self, until: Duration) -> BoxFuture<'_, bool>;

    /// Takes over a grant of another process. Sends nothing; the caller extends the lease next.
    fn adopt(&self, fence: Option<FencingToken>);

    /// Notes that a caller has the grant: a release leaves the lock taken until this instant. A grant that no caller has is
    /// released at once.
    fn hold_until(&self, until: Duration);

    /// Leaves the grant to another process: from here nothing more is sent for it.
    fn let_go(&self) {}

    /// Waits until `replicas` replicas have the grant, for some part of the time that is left. Returns how many have.
    fn replicate(&self, replicas: u32, until: Duration) -> BoxFuture<'_, Result<u64, NodeError>>;

    /// Returns true if nothing of this acquisition is left in Redis or on its way there.
    fn is_settled(&self) -> bool;

    /// Returns true if the lock was granted and is not known to be gone.
    fn may_stand(&self) -> bool;

    /// Returns true if it must not be asked again: a call that still wants the lock makes a new acquisition and drops
    /// this one.
    fn is_spent(&self) -> bool {
        false
    }

    /// The longest lease that was asked for: nothing that is left behind lasts longer.
    fn longest_lease(&self) -> Duration;

    /// Waits until another client may have changed a key of this grant; forever where the keys are not tracked.
    fn changed(&self) -> BoxFuture<'_, ()>;

    /// Enters a call that may wait, before it asks; nothing where no message can say that the lock is free.
    fn join(&self) -> Option<Waiter> {
        None
    }

    /// Starts the task that subscribes on behalf of all waiters.
    fn subscribe(&self) {}

    /// The fencing token of the grant, where the algorithm mints them.
    fn fence(&self) -> Option<FencingToken>;
}

/// The outcome of asking for a lock.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// Granted; counts from the moment before the request left.
    Granted { sent: Duration },
    /// Another acquisition holds it, for so long if that is known.
    Refused { holder_ttl: Option<Duration> },
    /// No answer, or an error; the error says whether the request may have been executed.
    Failed(NodeError),
}

/// An argument of a script.
pub(crate) fn number(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// The same in milliseconds.
pub(crate) fn millis(time: Duration) -> Vec<u8> {
    time.as_millis().to_string().into_bytes()
}
