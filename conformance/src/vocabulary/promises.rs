//! The promises of a lock. Verdicts depend on them: no lock is convicted of a property that it does not promise.

use super::{Kind, Topology};
use std::time::Duration;

/// Longest time for which a subscription may outlive the last waiter of a lock that
/// [lingers](Promises::lingering).
pub const LINGER: Duration = Duration::from_millis(200);

/// Leases are kept to the millisecond unless a lock says otherwise.
const EXACT: Duration = Duration::from_millis(1);

/// Pause after a failed request that counts unless a lock says otherwise.
const RETRY: Duration = Duration::from_secs(1);

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// The promises of a lock: its kind, its servers, and the faults that it survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// Kind of the lock. Scenarios use the operations of this kind.
    pub kind: Kind,
    /// Servers that the lock runs on.
    pub topology: Topology,
    /// True if a holder may acquire the lock again. The lock is free after as many releases as acquisitions.
    pub reentrant: bool,
    /// Each grant has a deadline (`Subject::deadline`), so the lock promises exclusion past the lease too.
    pub deadline: bool,
    /// Largest relative error between a client's and a server's clock that the lock tolerates, in parts per million.
    pub drift_ppm: u32,
    /// Guarantee of its fencing tokens.
    pub fencing: Fencing,
    /// The lock waits by itself, and no longer than the caller asks.
    pub waits: bool,
    /// A reachable waiter acquires a free lock within this part of a lease: 12 means a twelfth.
    pub wake_share: Option<u32>,
    /// Without faults every call returns an answer and no error.
    pub answers: bool,
    /// A release wakes waiters, and waiters know when a lease ends. Without faults a waiter acquires a free
    /// lock within a few round trips.
    pub tells: bool,
    /// A subscription, and the task behind it, may outlive the last waiter by up to [`LINGER`].
    pub lingers: bool,
    /// A process keeps a subscription, and the task behind it, for as long as it has the lock object.
    pub stays_subscribed: bool,
    /// Number of tasks that a process keeps for as long as it has the lock object, beside that of its subscription.
    pub kept_tasks: u32,
    /// A release returns nothing, so its success does not say that the lock was still held.
    pub releases_silently: bool,
    /// A grant that is released early keeps other clients out until this part of a lease has passed: 12 means a twelfth.
    pub hold_share: Option<u32>,
    /// Waiters are granted the lock in the order in which they asked.
    pub fair: bool,
    /// Readers that ask later wait for a waiting writer.
    pub prefers_writers: bool,
    /// Leases are extended in the background.
    pub renews: bool,
    /// The lock reports the loss of a grant to its holder by the deadline.
    pub signals: bool,
    /// The lock reports a loss at once if another client removes the grant from the server, not only at the deadline.
    pub notices: bool,
    /// The lock is claimed to lose no grant in a failover to a replica.
    pub survives_failover: bool,
    /// A dropped guard and a cancelled or failed call are undone long before their lease ends.
    pub tidy: bool,
    /// The lock is claimed to lose no grant if a node loses its data.
    pub survives_amnesia: bool,
    /// Accesses of the resource are claimed never to interleave, also without fencing tokens.
    pub guards_resource: bool,
    /// A client has to set the lock up before its first use, as with a latch or a stock.
    pub set_up: bool,
    /// Clients ask a counter under a name, and each name counts once.
    pub named: bool,
    /// A counter starts again at zero one lease after its first admission.
    pub anew: bool,
    /// Unit to whose multiples the lock rounds a lease, up or down; it makes at least one unit of it.
    pub lease_unit: Duration,
    /// The servers store a grant for up to this part of the lease longer than its holder relies on it: 10 means a tenth.
    pub grace_share: Option<u32>,
    /// A waiting call may be refused before its wait is over.
    pub refuses_early: bool,
    /// Longest pause of a waiter between two requests, if no message and no failure makes it longer or shorter.
    pub poll: Option<Duration>,
    /// The same as a part of the lease, one `poll_share`-th, where that is longer.
    pub poll_share: Option<u32>,
    /// Longest pause of the lock between a failed request and the next attempt.
    pub retry: Duration,
    /// The same as a part of the lease, one `retry_share`-th, where that is longer.
    pub retry_share: Option<u32>,
    /// A waiter that stopped asking keeps its place in the queue for up to `poll` and this many request timeouts.
    pub skip_timeouts: Option<u32>,
}

/// Guarantee of the fencing tokens of a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fencing {
    /// The lock has no fencing tokens.
    #[default]
    None,
    /// Tokens rise as long as no server loses the last one.
    Counter,
    /// Tokens rise also after a server has lost the last one.
    Lasting,
}

impl Promises {
    /// A mutex on one Redis node: at most one holder, leases of crashed holders end, only the owner releases. A cancelled
    /// call or a dropped guard is undone at once; [`untidy`](Self::untidy) takes this promise away. Nothing is promised for
    /// work that outlasts the lease.
    #[must_use]
    pub const fn mutex_on_one_node() -> Self {
        Self {
            kind: Kind::Mutex,
            topology: Topology::ONE,
            reentrant: false,
            deadline: false,
            drift_ppm: 0,
            fencing: Fencing::None,
            waits: false,
            wake_share: None,
            answers: false,
            tells: false,
            lingers: false,
            stays_subscribed: false,
            kept_tasks: 0,
            releases_silently: false,
            hold_share: None,
            fair: false,
            prefers_writers: false,
            renews: false,
            signals: false,
            notices: false,
            survives_failover: false,
            tidy: true,
            survives_amnesia: false,
            guards_resource: false,
            set_up: false,
            named: false,
            anew: false,
            lease_unit: EXACT,
            grace_share: None,
            refuses_early: false,
            poll: None,
            poll_share: None,
            retry: RETRY,
            retry_share: None,
            skip_timeouts: None,
        }
    }

    /// The same promises for another kind: a semaphore, a read-write lock, a counter, a latch.
    #[must_use]
    pub const fn of(kind: Kind) -> Self {
        Self {
            kind,
            ..Self::mutex_on_one_node()
        }
    }

    /// Sets the servers that the lock runs on.
    ///
    /// Of several nodes the suite takes a majority as the quorum (P7, P19, P20). A lock cannot declare a stricter quorum. If a
    /// majority of the nodes has refused, the lock returns `Ok(None)`, even if another node failed with an error.
    #[must_use]
    pub const fn on(mut self, topology: Topology) -> Self {
        self.topology = topology;
        self
    }

    /// Promises that a holder may acquire the lock again.
    #[must_use]
    pub const fn reentrant(mut self) -> Self {
        self.reentrant = true;
        self
    }

    /// Promises a deadline until which the holder holds the lock, whatever happens.
    #[must_use]
    pub const fn with_deadline(mut self) -> Self {
        self.deadline = true;
        self
    }

    /// Promises no clean-up: the grant of a cancelled or failed call or of a dropped guard may stand until its lease ends.
    /// Without this a lock that leaves such a grant breaks P12, P14 or P15. With [`answering`](Self::answering) and
    /// [`waiting`](Self::waiting) P14 still judges what becomes of a call whose reply is lost. A key that never ends still
    /// breaks P15 in a run without faults in which each grant is given back and no guard dropped, unless
    /// [`Subject::outlasts`](crate::Subject::outlasts) names it.
    #[must_use]
    pub const fn untidy(mut self) -> Self {
        self.tidy = false;
        self
    }

    /// Claims that a failover to a replica loses no grant. The claim is about grants only: the failover may lose a release that
    /// the old master executed. The released token may then come back, and stays until its lease ends.
    #[must_use]
    pub const fn surviving_failover(mut self) -> Self {
        self.survives_failover = true;
        self
    }

    /// Claims that no grant is lost if a node comes back empty or evicts a key.
    #[must_use]
    pub const fn surviving_amnesia(mut self) -> Self {
        self.survives_amnesia = true;
        self
    }

    /// Claims that accesses of the resource never interleave, whatever happens.
    #[must_use]
    pub const fn guarding_the_resource(mut self) -> Self {
        self.guards_resource = true;
        self
    }

    /// Promises exclusion while clocks differ in rate by at most this much.
    #[must_use]
    pub const fn with_drift_ppm(mut self, ppm: u32) -> Self {
        self.drift_ppm = ppm;
        self
    }

    /// Promises fencing tokens, which users send with every access.
    #[must_use]
    pub const fn with_fencing(mut self, fencing: Fencing) -> Self {
        self.fencing = fencing;
        self
    }

    /// Promises that a waiter waits no longer than the caller asks. With a `wake_share` it also acquires a
    /// free lock, or learns that a latch has opened, within this part of a lease; [`polling`](Self::polling) does not
    /// change this bound.
    #[must_use]
    pub const fn waiting(mut self, wake_share: Option<u32>) -> Self {
        (self.waits, self.wake_share) = (true, wake_share);
        self
    }

    /// Promises that without faults every call returns an answer. Only a call whose wait is over while one of its requests is
    /// outstanding may end in an error. After a lost request or reply a call of a lock that waits by itself asks again.
    #[must_use]
    pub const fn answering(mut self) -> Self {
        self.answers = true;
        self
    }

    /// Promises that a release wakes waiters, and that waiters know when a lease ends. The lock also [waits](Self::waiting).
    #[must_use]
    pub const fn telling(mut self) -> Self {
        self.tells = true;
        self
    }

    /// Declares that a process keeps one subscription, and the one task behind it, for as long as it has the lock object, as clients do
    /// that share a connection. A second subscription or task that remains still breaks P15.
    #[must_use]
    pub const fn staying_subscribed(mut self) -> Self {
        self.stays_subscribed = true;
        self
    }

    /// Declares that a process keeps this number of tasks for as long as it has the lock object, for instance one that owns the connection and
    /// serves a channel, or one that extends leases. One more task that remains still breaks P15.
    #[must_use]
    pub const fn keeping_tasks(mut self, count: u32) -> Self {
        self.kept_tasks = count;
        self
    }

    /// Declares that a release returns nothing: that it succeeds does not say that the lock was still held, and P19 does not judge it.
    #[must_use]
    pub const fn releasing_silently(mut self) -> Self {
        self.releases_silently = true;
        self
    }

    /// Declares that a subscription, and the task behind it, may outlive the last waiter by up to [`LINGER`].
    #[must_use]
    pub const fn lingering(mut self) -> Self {
        self.lingers = true;
        self
    }

    /// Promises that a grant that is released early keeps other clients out for this part of a lease, and not for longer, also if
    /// the guard is dropped, or the release is cancelled or repeated. The lock may count the time from the call that acquired it
    /// (a shorter hold breaks P20) to the return of that call (a longer one breaks P19).
    ///
    /// Until then the servers go on storing the token of the released grant, and `Subject::observe` goes on returning it as a
    /// holder (P20). A marker with another token counts as another holder.
    #[must_use]
    pub const fn holding(mut self, hold_share: u32) -> Self {
        self.hold_share = Some(hold_share);
        self
    }

    /// Promises grants in the order in which clients asked.
    #[must_use]
    pub const fn fair(mut self) -> Self {
        self.fair = true;
        self
    }

    /// Promises that readers that ask later wait for a waiting writer.
    #[must_use]
    pub const fn preferring_writers(mut self) -> Self {
        self.prefers_writers = true;
        self
    }

    /// Promises that leases are extended in the background.
    #[must_use]
    pub const fn renewing(mut self) -> Self {
        self.renews = true;
        self
    }

    /// Declares that a client has to set the lock up before its first use.
    #[must_use]
    pub const fn to_be_set_up(mut self) -> Self {
        self.set_up = true;
        self
    }

    /// Declares that clients ask a counter under a name, and that each name counts once.
    #[must_use]
    pub const fn naming(mut self) -> Self {
        self.named = true;
        self
    }

    /// Declares that a counter starts again at zero one lease after its first admission.
    #[must_use]
    pub const fn beginning_anew(mut self) -> Self {
        self.anew = true;
        self
    }

    /// Promises to report the loss of a grant by its deadline.
    #[must_use]
    pub const fn signalling(mut self) -> Self {
        self.signals = true;
        self
    }

    /// Says that the lock rounds leases to multiples of a unit, up or down, and makes at least one unit of a shorter lease. A
    /// lock that does not say so keeps the lease to the millisecond.
    #[must_use]
    pub const fn rounding_leases_to(mut self, unit: Duration) -> Self {
        self.lease_unit = unit;
        self
    }

    /// Says that the servers store a grant for up to one `part`-th of the lease longer than its holder may rely on it.
    #[must_use]
    pub const fn with_grace_share(mut self, part: u32) -> Self {
        self.grace_share = Some(part);
        self
    }

    /// Declares that a waiting call may be refused before its wait is over, for instance because too many others wait (*wait-die*, a
    /// bounded queue). P13 then judges only calls that end late. A refusal must still be true (P19): another client holds the lock.
    #[must_use]
    pub const fn refusing_early(mut self) -> Self {
        self.refuses_early = true;
        self
    }

    /// Says how long a waiter pauses at most before it asks again. Where a lock does not say it and waits by itself, a second
    /// counts, or an eighth of the lease if that is longer. This is the length of a pause only: the time within which a waiter
    /// acquires a free lock is the `wake_share` of [`waiting`](Self::waiting).
    #[must_use]
    pub const fn polling(mut self, longest: Duration) -> Self {
        self.poll = Some(longest);
        self
    }

    /// Says that a waiter pauses for up to one `part`-th of the lease before it asks again, or for the time of
    /// [`polling`](Self::polling) if the lock says one and it is longer.
    #[must_use]
    pub const fn polling_share(mut self, part: u32) -> Self {
        self.poll_share = Some(part);
        self
    }

    /// Says how long the lock pauses at most after a failed request; a second if it does not say it. A task that cleans up may always
    /// pause for an eighth of the lease.
    #[must_use]
    pub const fn retrying_within(mut self, longest: Duration) -> Self {
        self.retry = longest;
        self
    }

    /// Says that the lock pauses after a failed request for up to one `part`-th of the lease, or for the time of
    /// [`retrying_within`](Self::retrying_within) if that is longer.
    #[must_use]
    pub const fn retrying_share(mut self, part: u32) -> Self {
        self.retry_share = Some(part);
        self
    }

    /// Longest pause of a waiter that the lock declares, for a lease; `None` if it declares none.
    #[must_use]
    pub fn longest_poll(&self, lease: Duration) -> Option<Duration> {
        let share = self.poll_share.map(|part| lease / part.max(1));
        self.poll.max(share)
    }

    /// Longest pause after a failed request, for a lease.
    #[must_use]
    pub fn longest_retry(&self, lease: Duration) -> Duration {
        let share = self.retry_share.map(|part| lease / part.max(1));
        share.map_or(self.retry, |share| self.retry.max(share))
    }

    /// Says that a waiter that stopped asking is skipped after a pause and this many request timeouts. The pause is the
    /// `wake_share` of [`waiting`](Self::waiting) where the lock promises one, else that of [`polling`](Self::polling). Without
    /// this it keeps its place as long as other waiters allow.
    #[must_use]
    pub const fn skipping_after(mut self, timeouts: u32) -> Self {
        self.skip_timeouts = Some(timeouts);
        self
    }

    /// Longest lease that the lock makes of a given one.
    #[must_use]
    pub fn longest_lease(&self, given: Duration) -> Duration {
        let rounded = units_of(given, self.lease_unit, u128::div_ceil);
        let grace = self.grace_share.map(|part| given / part.max(1));
        rounded + grace.unwrap_or_default()
    }

    /// Shortest lease that the lock makes of a given one.
    #[must_use]
    pub fn shortest_lease(&self, given: Duration) -> Duration {
        units_of(given, self.lease_unit, |given, unit| given / unit)
    }

    /// Promises to report at once that another client removed a grant from the server.
    #[must_use]
    pub const fn noticing(mut self) -> Self {
        self.notices = true;
        self
    }
}

/// A whole number of units, at least one.
fn units_of(time: Duration, unit: Duration, divided: impl Fn(u128, u128) -> u128) -> Duration {
    let unit = unit.as_nanos().max(1);
    let nanos = divided(time.as_nanos(), unit).max(1).saturating_mul(unit);
    let seconds = u64::try_from(nanos / NANOS_PER_SEC).unwrap_or(u64::MAX);
    let nanos = u32::try_from(nanos % NANOS_PER_SEC).unwrap_or(0);
    Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_rounded_as_the_lock_says() {
        let ms = Duration::from_millis;
        let exact = Promises::mutex_on_one_node();
        let seconds = exact.rounding_leases_to(Duration::from_secs(1));
        let both = |promises: Promises, given| {
            let given = ms(given);
            [
                promises.shortest_lease(given),
                promises.longest_lease(given),
            ]
        };
        assert_eq!(both(exact, 1_501), [ms(1_501), ms(1_501)]);
        assert_eq!(both(seconds, 1_501), [ms(1_000), ms(2_000)]);
        assert_eq!(both(seconds, 100), [ms(1_000), ms(1_000)]);
        assert_eq!(both(seconds, 3_000), [ms(3_000), ms(3_000)]);
        let year = 365 * 24 * 3_600_000;
        assert_eq!(both(exact, year + 1), [ms(year + 1), ms(year + 1)]);
        assert_eq!(both(seconds, year + 1), [ms(year), ms(year + 1_000)]);
        let grace = exact.with_grace_share(10);
        assert_eq!(both(grace, 3_000), [ms(3_000), ms(3_300)]);
    }
}
