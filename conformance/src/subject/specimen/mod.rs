//! Known lock bugs: each specimen is a lock with one mistake, and the suite has to convict it.
//!
//! There is one file per kind of mistake, with a row per variant. The correct parts come from a
//! [`SoundLock`], so that a specimen contains little more than its mistake.

mod b01_no_ttl_gap;
mod b02_blind_del;
mod b03_check_then_act;
mod b04_getset_client_clock;
mod b05_weak_token;
mod b06_token_per_object;
mod b07_finally_unlock;
mod b08_shared_identity;
mod b09_double_count;
mod b10_release_lies;
mod b11_token_cleared_early;
mod b12_cancel_leak;
mod b13_ghost_acquire;
mod b14_one_strike_watchdog;
mod b15_renewal_outlives_unlock;
mod b16_watchdog_by_resource;
mod b17_renews_the_dead;
mod b18_resurrecting_extend;
mod b19_silent_loss;
mod b20_no_step_three;
mod b21_clock_from_reply;
mod b22_drift_underflow;
mod b23_wall_clock_deadline;
mod b24_bad_quorum;
mod b25_partials_left;
mod b26_release_only_acquired;
mod b27_late_set;
mod b28_self_block;
mod b29_failed_extend_forfeits;
mod b30_one_error_aborts;
mod b31_node_amnesia;
mod b32_pause_no_fence;
mod b33_failover_loss;
mod b34_fence_regress;
mod b35_lost_wakeup;
mod b36_wrong_wakeup;
mod b37_fair_queue_ghost;
mod b38_readers_apart;
mod b39_permit_leak;
mod b40_ttl_unit;
mod b41_lease_shortened;
mod b42_process_local;
mod b43_nil_means_yes;
mod b44_shared_renewer;
mod b45_counter_restarts;
mod b46_fence_on_writes_only;
mod b47_fence_per_node;
mod b48_reset_on_start;
mod b49_ambiguous_release;
mod b50_whole_seconds;
pub(super) mod counted;
mod exhibit;
mod fair_queue;
mod fenced;
pub(super) mod hash;
mod held;
mod quorum;
mod readers;
mod release_subscription;
mod site;
mod sweep;
mod wall_clock_queue;
pub(super) mod watchdog;

pub(super) use b01_no_ttl_gap::NoTtl;
pub(super) use b02_blind_del::BlindDel;
pub(super) use b03_check_then_act::CheckThenAct;
pub(super) use b04_getset_client_clock::{ClientClock, until_value};
pub(super) use b05_weak_token::WeakToken;
pub(super) use b08_shared_identity::{OtherThread, SharedIdentity};
pub(super) use b10_release_lies::ReleaseLies;
pub(super) use b13_ghost_acquire::GhostAcquire;
pub(super) use b33_failover_loss::replicated;
pub(super) use b42_process_local::ProcessLocal;
pub(super) use b45_counter_restarts::Counter;
pub(super) use b48_reset_on_start::ResetOnStart;
pub(super) use b49_ambiguous_release::Counts;
pub(super) use exhibit::exhibit;
pub(super) use held::Held;
pub(super) use quorum::{Quorum, Vote};
pub(super) use site::Site;
pub(super) use sweep::Sweep;

use super::{BoxError, Host, NotOffered, Observed, Promises, Row};
use crate::{
    backend::View,
    vocabulary::{Mode, Stored},
};
use std::{future::Future, time::Duration};

/// All specimens, sorted by id.
pub const SPECIMENS: &[&[Row]] = &[
    b01_no_ttl_gap::ROWS,
    b02_blind_del::ROWS,
    b03_check_then_act::ROWS,
    b04_getset_client_clock::ROWS,
    b05_weak_token::ROWS,
    b06_token_per_object::ROWS,
    b07_finally_unlock::ROWS,
    b08_shared_identity::ROWS,
    b09_double_count::ROWS,
    b10_release_lies::ROWS,
    b11_token_cleared_early::ROWS,
    b12_cancel_leak::ROWS,
    b13_ghost_acquire::ROWS,
    b14_one_strike_watchdog::ROWS,
    b15_renewal_outlives_unlock::ROWS,
    b16_watchdog_by_resource::ROWS,
    b17_renews_the_dead::ROWS,
    b18_resurrecting_extend::ROWS,
    b19_silent_loss::ROWS,
    b20_no_step_three::ROWS,
    b21_clock_from_reply::ROWS,
    b22_drift_underflow::ROWS,
    b23_wall_clock_deadline::ROWS,
    b24_bad_quorum::ROWS,
    b25_partials_left::ROWS,
    b26_release_only_acquired::ROWS,
    b27_late_set::ROWS,
    b28_self_block::ROWS,
    b29_failed_extend_forfeits::ROWS,
    b30_one_error_aborts::ROWS,
    b31_node_amnesia::ROWS,
    b32_pause_no_fence::ROWS,
    b33_failover_loss::ROWS,
    b34_fence_regress::ROWS,
    b35_lost_wakeup::ROWS,
    b36_wrong_wakeup::ROWS,
    b37_fair_queue_ghost::ROWS,
    b38_readers_apart::ROWS,
    b39_permit_leak::ROWS,
    b40_ttl_unit::ROWS,
    b41_lease_shortened::ROWS,
    b42_process_local::ROWS,
    b43_nil_means_yes::ROWS,
    b44_shared_renewer::ROWS,
    b45_counter_restarts::ROWS,
    b46_fence_on_writes_only::ROWS,
    b47_fence_per_node::ROWS,
    b48_reset_on_start::ROWS,
    b49_ambiguous_release::ROWS,
    b50_whole_seconds::ROWS,
];

/// A correct lock, on which specimens build: the lock object of a client process.
pub(super) trait SoundLock: Clone + Send + Sync + 'static {
    /// Makes the lock object; `patience` is the timeout of a reply.
    fn open(
        host: &Host,
        key: &str,
        lease: Duration,
        patience: Duration,
    ) -> impl Future<Output = Result<Self, BoxError>> + Send;

    /// Makes the object of one task, for locks whose owner is a task.
    fn of_task(&self) -> Self {
        self.clone()
    }

    /// Acquires the lock if it is free.
    fn acquire(&self) -> impl Future<Output = Result<Option<Held>, BoxError>> + Send;

    /// Extends a grant by the lease.
    fn extend(&self, held: &Held) -> impl Future<Output = Result<bool, BoxError>> + Send;

    /// Releases a grant.
    fn release(&self, held: &Held) -> impl Future<Output = Result<bool, BoxError>> + Send;

    /// Removes a token in the background if it is still stored.
    fn sweep(&self, token: String);
}

/// A lock that is correct except for the methods that it overrides.
pub(super) trait Specimen<P: SoundLock = Site>: Send + Sync + 'static {
    /// Name in lists and reports.
    fn id(&self) -> &'static str;

    /// Promises that its authors make.
    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
    }

    /// Timeout of a reply.
    fn patience(&self, host: &Host) -> Duration {
        host.request_timeout()
    }

    /// True if each task is an owner of its own.
    fn is_per_task(&self) -> bool {
        false
    }

    /// Makes the lock object of a client process.
    fn open(
        &self,
        host: &Host,
        key: &str,
        lease: Duration,
    ) -> impl Future<Output = Result<P, BoxError>> + Send {
        P::open(host, key, lease, self.patience(host))
    }

    /// Acquires the lock if it is free.
    fn acquire(&self, place: &P) -> impl Future<Output = Result<Option<Held>, BoxError>> + Send {
        place.acquire()
    }

    /// Acquires a lock with several modes if it is free.
    fn take(
        &self,
        place: &P,
        mode: Mode,
    ) -> impl Future<Output = Result<Option<Held>, BoxError>> + Send {
        async move {
            if mode.is_exclusive() {
                self.acquire(place).await
            } else {
                Err(NotOffered.into())
            }
        }
    }

    /// Acquires the lock, waiting for it, if the lock waits by itself.
    fn wait(
        &self,
        place: &P,
        wait: Duration,
    ) -> impl Future<Output = Result<Option<Held>, BoxError>> + Send {
        let _ = (place, wait);
        async { Err(NotOffered.into()) }
    }

    /// Extends the grant by the lease.
    fn extend(
        &self,
        place: &P,
        held: &Held,
    ) -> impl Future<Output = Result<bool, BoxError>> + Send {
        place.extend(held)
    }

    /// Releases the grant.
    fn release(
        &self,
        place: &P,
        held: &Held,
    ) -> impl Future<Output = Result<bool, BoxError>> + Send {
        held.end();
        place.release(held)
    }

    /// Cleans up after a guard that was dropped without a release.
    fn dropped(&self, place: &P, held: &Held) {
        held.end();
        place.sweep(held.token.clone());
    }

    /// Time until which the holder trusts the grant, on the host's clock.
    fn deadline(&self, place: &P, held: &Held) -> Duration {
        let _ = place;
        held.deadline()
    }

    /// Returns the tokens of the holders that a node stores.
    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        view.string(key).into_iter().collect()
    }

    /// Returns the tokens of the waiters that a node stores.
    fn queued(&self, view: &dyn View, key: &str) -> Vec<Vec<u8>> {
        let _ = (view, key);
        Vec::new()
    }

    /// Returns the lock's state on a node, for locks that need more than the two methods above.
    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        Observed::from(self.stored(view, key)).waiting(self.queued(view, key))
    }

    /// True if a key may stay while no client uses the lock.
    fn outlasts(&self, key: &[u8]) -> bool {
        key.ends_with(b":fence")
    }

    /// True if users send the fencing token with reads too.
    fn fences_reads(&self) -> bool {
        true
    }
}

/// A correct lock with a name and promises.
pub(super) struct Right(pub(super) &'static str, pub(super) Promises);

impl<P: SoundLock> Specimen<P> for Right {
    fn id(&self) -> &'static str {
        self.0
    }

    fn promises(&self) -> Promises {
        self.1
    }
}
