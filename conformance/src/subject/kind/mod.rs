//! The locks of `redouble-lock`, each behind the suite's trait: a file per kind says how it is made, what it
//! claims and what it stores. What they have in common is here.

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
    history::{Kind, Mode, Stored, Token},
};
use client::Client;
use grant::{Grant, Takes};
use redouble_lock::{LockError, Release};
use std::time::Duration;

/// The relative clock rate error that `redouble-lock` allows for unless told otherwise.
const DRIFT_PPM: u32 = 10_000;

/// How often a waiter looks again at least during a lease.
const POLLS_PER_LEASE: u32 = 12;

/// What part of a lease it may take until those are skipped who died in front of others.
const SKIPS_PER_LEASE: u32 = 2;

/// For what part of a lease a grant keeps others out at least, where that is asked for.
const HOLDS_PER_LEASE: u32 = 10;

/// What all kinds claim that give guards.
const fn promises(kind: Kind) -> Promises {
    Promises::of(kind)
        .with_deadline()
        .with_drift_ppm(DRIFT_PPM)
        .waiting(Some(POLLS_PER_LEASE))
        .answering()
        .telling()
        .lingering()
        .signalling()
}

/// What the kinds claim whose grants are numbered.
const fn fenced_promises() -> Promises {
    promises(Kind::Mutex).with_fencing(Fencing::Lasting)
}

/// A kind of lock that gives guards, under test.
struct Ours<L> {
    name: &'static str,
    promises: Promises,
    open: fn(&Client, &str) -> Result<L, LockError>,
    stored: fn(&dyn View, &str) -> Vec<Stored>,
    queued: fn(&dyn View, &str) -> Vec<Vec<u8>>,
}

impl<L> Ours<L> {
    /// A kind that stores its token at the key.
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
            queued: stored::kept_for,
        }
    }

    /// A kind that stores its tokens elsewhere.
    const fn storing(mut self, stored: fn(&dyn View, &str) -> Vec<Stored>) -> Self {
        self.stored = stored;
        self
    }

    /// A kind whose grants keep others out for some time at least.
    const fn holding(mut self) -> Self {
        self.promises = self.promises.holding(HOLDS_PER_LEASE);
        self
    }

    /// A kind that stores who goes first.
    const fn queueing(mut self, queued: fn(&dyn View, &str) -> Vec<Vec<u8>>) -> Self {
        self.queued = queued;
        self
    }
}

/// A lock object of one client.
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

/// What came of taking it.
type TakenBy<L> = Result<Option<Held<<L as Takes>::Grant>>, BoxError>;

/// A grant, and when it was heard of.
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

    /// At times by half of the lease, which must not shorten it.
    async fn extend(&self, opened: &Opened<L>, held: &Held<L::Grant>) -> Result<bool, BoxError> {
        let parts = 1 + u32::from(opened.host.random()[0] % 2);
        match held.grant.guard().extend(opened.lease / parts).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_lost() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends when others may have it.
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

    /// A handle of an owner that enters again has the token of its first grant.
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

    /// Counters of fencing tokens.
    fn ends(&self, _: &[u8]) -> bool {
        true
    }

    async fn lost(&self, held: &Held<L::Grant>) {
        held.grant.guard().lost().await;
    }
}
