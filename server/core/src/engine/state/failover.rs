//! FAILOVER as it concerns several parts: writes pause, clients that wait are sent away, the node follows another.

use super::State;
use crate::engine::effect::Effect;
use crate::engine::peers::failover::Failover;
use crate::engine::peers::replication::{Address, Upstream};
use crate::engine::time::UnixMillis;
use crate::resp::ErrorReply;

impl State {
    /// `master_failover_state`
    pub(in crate::engine) fn failover_state(&self) -> &'static str {
        match &self.peers.failover {
            None => "no-failover",
            Some(failover) if failover.is_handing_over => "failover-in-progress",
            Some(_) => "waiting-for-sync",
        }
    }

    /// Begins to wait. Writes wait, too.
    pub(in crate::engine) fn begin_failover(&mut self, failover: Failover) {
        self.peers.failover = Some(failover);
        self.clients.pause.set_failing_over(true);
        self.unit.has_sequel = true;
    }

    /// The node is the master that it was; writes go on.
    pub(in crate::engine) fn abort_failover(&mut self) {
        let failover = self.end_failover();
        if failover.is_some_and(|failover| failover.is_handing_over) {
            self.promote();
            self.unit.outbox.push(Effect::Follow { master: None });
        }
    }

    /// The failover is complete, or has failed.
    pub(in crate::engine) fn end_failover(&mut self) -> Option<Failover> {
        self.clients.pause.set_failing_over(false);
        self.peers.failover.take()
    }

    /// The last instant before waiting ends.
    pub(in crate::engine) fn failover_deadline(&self) -> Option<UnixMillis> {
        let failover = self.peers.failover.as_ref()?;
        let until = failover.until.filter(|_| !failover.is_handing_over)?;
        Some(UnixMillis(until.0.saturating_sub(1)))
    }

    /// Waiting has ended.
    pub(in crate::engine) fn failover_times_out(&mut self) {
        let target = self.peers.failover.as_ref();
        match target.and_then(|one| one.target.clone().filter(|_| one.is_forced)) {
            Some(target) => self.hand_over(target),
            None => self.abort_failover(),
        }
    }

    /// Hands over if the replica has all data; true if so.
    pub(in crate::engine) fn hands_over(&mut self) -> bool {
        let Some(failover) = self
            .peers
            .failover
            .as_ref()
            .filter(|one| !one.is_handing_over)
        else {
            return false;
        };
        let offset = self.peers.replication.offset;
        let named = failover.target.as_ref();
        let mut replicas = self.peers.replication.replicas.iter();
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
        if let Some(failover) = &mut self.peers.failover {
            failover.is_handing_over = true;
        }
        self.peers.replication.upstream = Some(Upstream {
            address: to.clone(),
            is_up: false,
            since: None,
        });
        self.guards_writes();
        self.show_out_waiting();
        self.unit.outbox.push(Effect::FailOver { to: Some(to) });
    }

    /// Sends away waiting clients: a replica does not serve them
    /// (`blocked.c: disconnectAllBlockedClients`).
    pub(in crate::engine) fn show_out_waiting(&mut self) {
        for waiting in self.clients.waiters.list(&self.clients.sessions) {
            let text = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
            let error = ErrorReply::new(text);
            self.clients.waiters.remove(waiting.conn);
            self.introspection.stats.count_error(&error);
            self.answer(waiting.conn, error.into());
            self.unit.outbox.push(Effect::Close { conn: waiting.conn });
        }
    }
}
