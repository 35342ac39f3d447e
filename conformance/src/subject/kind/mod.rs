//! The locks of `redouble-lock` as subjects. A file per kind says how the lock is made, what it promises and
//! what it stores. This file has their common parts.

mod admission;
mod client;
mod fair;
mod fenced;
mod grant;
mod handed_on;
mod latch;
mod multi;
mod mutex;
mod read_write;
mod redlock;
mod reentrant;
mod semaphore;
mod stored;

pub(super) use admission::{
    admission, admission_by_name, admission_by_name_that_expires, admission_that_expires, stock,
};
pub(super) use fair::{fair, fenced_fair};
pub(super) use fenced::fenced;
pub(super) use handed_on::{fenced_handed_on, redlock_handed_on};
pub(super) use latch::latch;
pub(super) use multi::{fenced_multi, multi};
pub(super) use mutex::{
    mutex, mutex_that_holds, mutex_that_watches, mutex_with_metadata, mutex_with_watchdog,
};
pub(super) use read_write::{read_write, read_write_preferring};
pub(super) use redlock::{fenced_redlock, redlock, redlock_of_three, redlock_with_watchdog};
pub(super) use reentrant::{fenced_reentrant, reentrant};
pub(super) use semaphore::{semaphore, semaphore_that_holds};

use super::{BoxError, Fencing, Host, Promises, Subject};
use crate::{
    backend::View,
    vocabulary::{Kind, Mode, Stored, Token},
};
use client::Client;
use client::POLLS_PER_LEASE;
use grant::{Grant, Takes};
use redouble_lock::{LockError, Release};
use std::time::Duration;

/// Relative error of clock rates that `redouble-lock` tolerates by default, in parts per million.
const DRIFT_PPM: u32 = 10_000;

/// Longest pause of a waiter between two requests.
const LONGEST_POLL: Duration = Duration::from_secs(1);

/// Longest pause after a failed request.
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// Request timeouts for which a waiter that stopped asking keeps its place, besides the longest pause.
const SKIP_TIMEOUTS: u32 = 2;

/// Part of a lease for which a grant keeps other clients out at least, in subjects that hold: 10 means a
/// tenth.
const HOLDS_PER_LEASE: u32 = 10;

/// Promises of all kinds with guards.
const fn promises(kind: Kind) -> Promises {
    Promises::of(kind)
        .with_deadline()
        .with_drift_ppm(DRIFT_PPM)
        .waiting(Some(POLLS_PER_LEASE))
        .polling(LONGEST_POLL)
        .retrying_within(LONGEST_RETRY)
        .answering()
        .telling()
        .lingering()
        .signalling()
}

/// Promises of the kinds with fencing tokens.
const fn fenced_promises() -> Promises {
    promises(Kind::Mutex).with_fencing(Fencing::Lasting)
}

/// A kind with guards, as a subject.
struct Ours<L> {
    name: &'static str,
    promises: Promises,
    open: fn(&Client, &str) -> Result<L, LockError>,
    stored: fn(&dyn View, &str) -> Vec<Stored>,
    queued: fn(&dyn View, &str) -> Vec<Vec<u8>>,
    reserved: fn(&dyn View, &str) -> Vec<Vec<u8>>,
}

impl<L> Ours<L> {
    /// Makes the subject of a kind that stores its token at the key.
    const fn new(
        name: &'static str,
        promises: Promises,
        open: fn(&Client, &str) -> Result<L, LockError>,
    ) -> Self {
        Self {
            name,
            promises,
            open,
            stored: stored::at_the_key,
            queued: |_, _| Vec::new(),
            reserved: stored::reserved_for,
        }
    }

    /// Sets the function that reads the tokens, for a kind that stores them elsewhere.
    const fn storing(mut self, stored: fn(&dyn View, &str) -> Vec<Stored>) -> Self {
        self.stored = stored;
        self
    }

    /// Makes grants keep other clients out for a minimum time.
    const fn holding(mut self) -> Self {
        self.promises = self.promises.holding(HOLDS_PER_LEASE);
        self
    }

    /// Sets the function that reads the queue of waiters.
    const fn queueing(mut self, queued: fn(&dyn View, &str) -> Vec<Vec<u8>>) -> Self {
        self.queued = queued;
        self
    }

    /// Sets the function that reads the waiters for which the lock is reserved.
    const fn reserving(mut self, reserved: fn(&dyn View, &str) -> Vec<Vec<u8>>) -> Self {
        self.reserved = reserved;
        self
    }
}

/// The lock object of one client.
struct Opened<L> {
    lock: L,
    lease: Duration,
    hold: Duration,
    host: Host,
}

impl<L: Takes> Opened<L> {
    async fn take(&self, mode: Mode, wait: Option<Duration>) -> TakenBy<L> {
        let grant = grant::granted(self.lock.take(mode, wait).await?)?;
        let at = self.host.now();
        Ok(grant.map(|grant| Held { grant, at }))
    }
}

/// Outcome of an acquisition.
type TakenBy<L> = Result<Option<Held<<L as Takes>::Grant>>, BoxError>;

/// A grant, and the time at which the client received it.
struct Held<G> {
    grant: G,
    at: Duration,
}

impl<L: Takes> Subject for Ours<L> {
    type Lock = Opened<L>;
    type Grant = Held<L::Grant>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn promises(&self) -> Promises {
        self.promises
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Opened<L>, BoxError> {
        let share = self.promises.hold_share;
        let hold = share.map_or(Duration::ZERO, |share| lease / share.max(1));
        let client = Client::new(host, lease).holding(hold);
        Ok(Opened {
            lock: (self.open)(&client, key)?,
            lease,
            hold,
            host: host.clone(),
        })
    }

    fn of_task(&self, opened: &Opened<L>) -> Option<Opened<L>> {
        Some(Opened {
            lock: opened.lock.of_task()?,
            host: opened.host.clone(),
            ..*opened
        })
    }

    async fn try_lock(&self, opened: &Opened<L>) -> TakenBy<L> {
        self.try_mode(opened, Mode::Exclusive).await
    }

    async fn try_mode(&self, opened: &Opened<L>, mode: Mode) -> TakenBy<L> {
        opened.take(mode, None).await
    }

    async fn lock_mode(&self, opened: &Opened<L>, mode: Mode, wait: Duration) -> TakenBy<L> {
        opened.take(mode, Some(wait)).await
    }

    /// Extends by the lease, at times by half of it, which must not shorten the lease.
    async fn extend(&self, opened: &Opened<L>, held: &Held<L::Grant>) -> Result<bool, BoxError> {
        let parts = 1 + u32::from(opened.host.random()[0] % 2);
        match held.grant.guard().extend(opened.lease / parts).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_lost() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns when other clients may acquire the lock.
    async fn release(&self, opened: &Opened<L>, held: Held<L::Grant>) -> Result<bool, BoxError> {
        let outcome = held.grant.give_back().await;
        if opened.hold > Duration::ZERO {
            opened.host.sleep_until(held.at + opened.hold).await;
        }
        let given_back = matches!(outcome, Release::Released | Release::StillHeld);
        let known = given_back || outcome == Release::AlreadyLost;
        known
            .then_some(given_back)
            .ok_or_else(|| format!("{outcome:?}").into())
    }

    fn deadline(&self, held: &Held<L::Grant>) -> Option<Duration> {
        held.grant.guard().deadline()
    }

    fn fencing_token(&self, held: &Held<L::Grant>) -> Option<u64> {
        held.grant.fence()
    }

    /// Returns the token. A handle that enters again has the token of its first grant.
    fn token(&self, held: &Held<L::Grant>) -> Option<Token> {
        let token = held.grant.guard().token().to_string();
        Some(if self.promises.reentrant {
            Token::of_owner(token)
        } else {
            Token::of_grant(token)
        })
    }

    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        (self.stored)(view, key)
    }

    fn queued(&self, view: &dyn View, key: &str) -> Vec<Vec<u8>> {
        (self.queued)(view, key)
    }

    fn reserved(&self, view: &dyn View, key: &str) -> Vec<Vec<u8>> {
        (self.reserved)(view, key)
    }

    /// Requires a time to live for counters of fencing tokens.
    fn ends(&self, _: &[u8]) -> bool {
        true
    }

    async fn lost(&self, held: &Held<L::Grant>) {
        held.grant.guard().lost().await;
    }
}
