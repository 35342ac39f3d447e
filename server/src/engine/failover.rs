//! FAILOVER: a master that stops taking writes, waits until a replica has all it has, and follows it.
//!
//! *Policy* (`replication.c: updateFailoverStatus`): the first replica that is as far as its master
//! takes over, or the one that was named. When the time is over it is all called off, or done nonetheless
//! where that was wanted. Other replicas go on following their master, which is a replica then. How
//! nodes change places is the affair of `topology/`; one that cannot be reached lets its master wait.

use super::State;
use super::effect::Effect;
use super::replication::{Address, Upstream};
use super::time::UnixMillis;
use crate::resp::ErrorReply;

/// A failover that was asked for and has not come about.
#[derive(Clone, Debug)]
pub(crate) struct Failover {
    /// Who takes over; whoever is the first if nobody was named.
    pub(crate) target: Option<Address>,
    /// When waiting ends, if it does.
    pub(crate) until: Option<UnixMillis>,
    /// The replica takes over then, whatever it has.
    pub(crate) is_forced: bool,
    /// The replica was told; the node waits for its answer.
    is_handing_over: bool,
}

impl Failover {
    pub(crate) fn new(target: Option<Address>, until: Option<UnixMillis>, is_forced: bool) -> Self {
        Self {
            target,
            until,
            is_forced,
            is_handing_over: false,
        }
    }
}

impl State {
    /// `master_failover_state`
    pub(crate) fn failover_state(&self) -> &'static str {
        match &self.failover {
            None => "no-failover",
            Some(failover) if failover.is_handing_over => "failover-in-progress",
            Some(_) => "waiting-for-sync",
        }
    }

    /// Begins to wait. Writes wait, too.
    pub(crate) fn begin_failover(&mut self, failover: Failover) {
        self.failover = Some(failover);
        self.pause.set_failing_over(true);
        self.has_sequel = true;
    }

    /// The node is the master that it was; writes go on.
    pub(crate) fn abort_failover(&mut self) {
        let failover = self.end_failover();
        if failover.is_some_and(|failover| failover.is_handing_over) {
            self.promote();
            self.outbox.push(Effect::Follow { master: None });
        }
    }

    /// It has come about, or never will.
    pub(super) fn end_failover(&mut self) -> Option<Failover> {
        self.pause.set_failing_over(false);
        self.has_sequel |= self.pause.is_over();
        self.failover.take()
    }

    /// The last instant before waiting ends.
    pub(super) fn failover_deadline(&self) -> Option<UnixMillis> {
        let failover = self.failover.as_ref()?;
        let until = failover.until.filter(|_| !failover.is_handing_over)?;
        Some(UnixMillis(until.0.saturating_sub(1)))
    }

    /// Waiting has ended.
    pub(super) fn failover_times_out(&mut self) {
        let target = self.failover.as_ref();
        match target.and_then(|one| one.target.clone().filter(|_| one.is_forced)) {
            Some(target) => self.hand_over(target),
            None => self.abort_failover(),
        }
    }

    /// Hands over if the replica is there; true if so.
    pub(super) fn hands_over(&mut self) -> bool {
        let Some(failover) = self.failover.as_ref().filter(|one| !one.is_handing_over) else {
            return false;
        };
        let offset = self.replication.offset;
        let named = failover.target.as_ref();
        let mut replicas = self.replication.replicas.iter();
        let ready = replicas.find(|replica| {
            replica.offset == offset && named.is_none_or(|named| *named == replica.address)
        });
        let Some(target) = ready.map(|replica| replica.address.clone()) else {
            return false;
        };
        self.hand_over(target);
        true
    }

    /// The node is a replica from now on, of one that is not a master yet (`replicationSetMaster`).
    fn hand_over(&mut self, to: Address) {
        if let Some(failover) = &mut self.failover {
            failover.is_handing_over = true;
        }
        self.replication.upstream = Some(Upstream {
            address: to.clone(),
            is_up: false,
            since: self.now,
        });
        self.guards_writes();
        self.show_out_waiting();
        self.outbox.push(Effect::FailOver { to: Some(to) });
    }

    /// Who waits for something at a master does not get it from a replica
    /// (`blocked.c: disconnectAllBlockedClients`).
    pub(super) fn show_out_waiting(&mut self) {
        for waiting in self.waiters.list(&self.sessions) {
            let text = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
            let error = ErrorReply::new(text);
            self.waiters.remove(waiting.conn);
            self.stats.count_error(&error);
            self.answer(waiting.conn, error.into());
            self.outbox.push(Effect::Close { conn: waiting.conn });
        }
    }
}
