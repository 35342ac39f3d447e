//! Locks whose grants change hands: the object that acquires a grant takes it apart at once, and another lock
//! object, with connections of its own, adopts the parts. Between the two no object owns the grant: if the
//! hand-over is given up, the grant stays until its lease ends.

use super::{
    DRIFT_PPM, Ours,
    client::Client,
    grant::{Grant, Taken, Takes, take},
    redlock, stored,
};
use crate::{
    subject::{DynSubject, Host, NotOffered, boxed},
    vocabulary::{Fencing, Kind, Mode, Promises, Topology},
};
use redouble_lock::{DetachedLock, Guard, Kind as LockKind, Lock, LockError, LossReason};
use std::time::Duration;

/// Number of attempts at a hand-over per lease.
const TRIES_PER_LEASE: u32 = 12;

/// The lock object that acquires, and the one that adopts.
struct HandedOn<K: LockKind> {
    from: Lock<K>,
    to: Lock<K>,
    host: Host,
    pause: Duration,
}

impl<K: LockKind> HandedOn<K> {
    fn new(client: &Client, from: Lock<K>, to: Lock<K>) -> Self {
        let (host, pause) = (client.host().clone(), client.part_of_lease(TRIES_PER_LEASE));
        Self {
            from,
            to,
            host,
            pause,
        }
    }
}

impl<K: LockKind<Guard: Grant + Into<Guard>>> HandedOn<K> {
    /// Tries until the grant must have ended.
    async fn hand_over(&self, guard: K::Guard) -> Result<K::Guard, LockError> {
        let text = guard.into().detach()?.to_string();
        let detached: DetachedLock = text.parse().map_err(|_| LockError::OtherLock)?;
        let end = self.host.now() + detached.remaining();
        loop {
            match self.to.adopt(&detached).await {
                Err(error) if error.is_lost() => return Err(error),
                Err(_) if self.host.now() < end => {
                    self.host.sleep_until(self.host.now() + self.pause).await;
                }
                Err(_) => return Err(LockError::Lost(LossReason::Expired)),
                Ok(guard) => return Ok(guard),
            }
        }
    }
}

impl<K: LockKind<Guard: Grant + Into<Guard>>> Takes for HandedOn<K> {
    type Grant = K::Guard;

    async fn take(&self, mode: Mode, wait: Option<Duration>) -> Taken<K::Guard> {
        match mode {
            Mode::Exclusive => Ok(match take(&self.from, wait).await {
                Ok(guard) => self.hand_over(guard).await,
                Err(error) => Err(error),
            }),
            Mode::Shared | Mode::Permits(_) => Err(NotOffered),
        }
    }
}

/// A hand-over takes longer than the caller asked to wait.
const fn promises() -> Promises {
    Promises::of(Kind::Mutex)
        .with_deadline()
        .with_drift_ppm(DRIFT_PPM)
        .with_fencing(Fencing::Lasting)
        .answering()
        .signalling()
        .untidy()
}

pub(in crate::subject) fn fenced_handed_on() -> Box<dyn DynSubject> {
    let lock = Ours::new("fenced-handed-on", promises(), |client, key| {
        let lock = || {
            let lock = client.options(client.locks().mutex(key).fenced());
            lock.metadata(stored::METADATA).build()
        };
        Ok(HandedOn::new(client, lock()?, lock()?))
    });
    boxed(lock.storing(stored::with_metadata))
}

pub(in crate::subject) fn redlock_handed_on() -> Box<dyn DynSubject> {
    let promises = promises().on(Topology::Nodes(3));
    boxed(Ours::new("redlock-handed-on", promises, |client, key| {
        let lock = || -> Result<_, LockError> {
            client
                .options(redlock::nodes(client)?.mutex(key).fenced())
                .build()
        };
        Ok(HandedOn::new(client, lock()?, lock()?))
    }))
}
