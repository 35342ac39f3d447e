//! Replication as it concerns several parts: the journal of a unit, units that arrive, WAIT.

use super::State;
use crate::engine::conn_id::ConnId;
use crate::engine::effect::Effect;
use crate::engine::peers::journal::{Change, Unit};
use crate::engine::peers::replication::{AckGoal, AckWait, Address, Upstream};
use crate::engine::value::Kind;
use std::sync::Arc;

impl State {
    /// Begins to keep a journal; units are handed out as [`Effect::Propagate`].
    pub(in crate::engine) fn keep_journal(&mut self) {
        self.peers.journal.get_or_insert_with(Box::default);
    }

    /// Hands out what the unit that has ended changed.
    pub(in crate::engine) fn propagate(&mut self) {
        // The writes of a script that was given up are not done before it is killed.
        if self.scripting.busy.is_some() {
            return;
        }
        self.end_stream_unit();
        if let Some(journal) = self
            .peers
            .journal
            .as_deref_mut()
            .filter(|one| !one.is_empty())
        {
            let mut unit = journal.take(self.data.databases(), self.peers.replication.offset);
            if self.peers.stream.is_some() {
                // The bytes of the stream count, as in Redis.
                unit.offset = self.peers.replication.offset;
            }
            if self.peers.replication.is_replica() && self.unit.caller.is_some() {
                // Writes of clients to a replica are not part of its history (`replica-read-only no`).
                unit.offset = self.peers.replication.offset;
            }
            self.peers.replication.offset = unit.offset;
            let now = self.unit.now();
            self.peers.replication.file.wrote(unit.offset, now);
            if let Some(session) = self
                .unit
                .caller
                .and_then(|conn| self.clients.sessions.get_mut(conn))
            {
                session.wrote_up_to = unit.offset;
            }
            self.unit.outbox.push(Effect::Propagate(Arc::new(unit)));
        }
    }

    /// True if the node is a replica that takes no writes of clients.
    pub(in crate::engine) fn refuses_writes(&self) -> bool {
        self.peers.replication.is_replica() && self.config.replica_read_only
    }

    /// Adds a change that concerns no key to the journal, if there is one.
    pub(in crate::engine) fn note(&mut self, change: impl FnOnce() -> Change) {
        if let Some(journal) = &mut self.peers.journal {
            journal.push(self.data.databases(), change());
            self.unit.has_sequel = true;
        }
    }

    /// Records a keyspace event or a message of the unit that runs, if replicas or a disk read the journal.
    pub(in crate::engine) fn note_told(&mut self, change: impl FnOnce() -> Change) {
        if let Some(journal) = &mut self.peers.journal {
            journal.tell(change());
            self.unit.has_sequel = true;
        }
    }

    /// True on a replica that serves no stale data while its link to the master is down.
    pub(in crate::engine) fn has_lost_master(&self) -> bool {
        let upstream = self.peers.replication.upstream.as_ref();
        upstream.is_some_and(|upstream| !upstream.is_up)
            && !self.config.is_on("replica-serve-stale-data")
    }

    /// Computes again whether a gate may refuse requests for this node's role or for want of memory.
    pub(in crate::engine) fn guards_writes(&mut self) {
        let by_config = self.config.min_replicas_to_write > 0
            || self.config.maxmemory > 0
            || self.clients_limit().is_some();
        self.peers.update_guard(by_config);
    }

    /// Makes the connection wait until its writes meet the goal.
    pub(in crate::engine) fn await_acks(&mut self, conn: ConnId, goal: AckGoal) {
        self.peers.replication.await_acks(AckWait { conn, goal });
        self.ask_readers();
    }

    /// Answers WAIT and WAITAOF once enough replicas have acknowledged.
    pub(in crate::engine) fn answer_waits(&mut self) {
        for wait in self.peers.replication.take_waits() {
            // Only these commands block without a key; after its timeout the client may block on something else.
            let waiter = self.clients.waiters.get(wait.conn);
            if waiter.is_none_or(|waiter| !waiter.wait.keys.is_empty()) {
                continue;
            }
            let (answer, is_reached) = self.peers.replication.answer(wait.goal);
            if is_reached {
                if self.clients.waiters.remove(wait.conn).is_some() {
                    self.answer(wait.conn, answer);
                }
            } else if self.clients.waiters.answers_late_with(wait.conn, answer) {
                self.peers.replication.await_acks(wait);
            }
        }
    }

    pub(in crate::engine) fn apply(&mut self, unit: &Unit) {
        for change in &unit.changes {
            self.apply_change(change.clone());
        }
    }

    fn apply_change(&mut self, change: Change) {
        match change {
            Change::Put {
                db,
                key,
                value,
                form,
                deadline,
            } if db < self.data.databases().len() => {
                let is_stream = value.kind() == Kind::Stream;
                self.data.db_mut(db).put(&key, value, form, deadline);
                self.touched(db, &key);
                if is_stream {
                    self.signal_stream(db, &key);
                }
            }
            Change::Remove { db, key } if db < self.data.databases().len() => {
                if let Some(slot) = self.data.db(db).find(&key) {
                    self.data.db_mut(db).remove(slot);
                    self.touched(db, &key);
                }
            }
            Change::Flush { db } if db < self.data.databases().len() => self.flush(db),
            Change::Swap { first, second } if first.max(second) < self.data.databases().len() => {
                self.swap(first, second);
            }
            Change::Replace(databases) => self.replace(&databases),
            Change::Libraries { removed, added } => {
                // The replica has a separate VM, which loads them again.
                let added = added.iter().map(|library| Arc::new((**library).clone()));
                self.change_libraries(removed, added.collect());
            }
            Change::Event {
                db,
                class,
                event,
                key,
            } => self.notify(db, class, &event, &key),
            Change::Publish {
                space,
                channel,
                message,
            } => {
                self.publish(space, &channel, &message);
            }
            // A replica with fewer databases than its master has no place for these.
            Change::Put { .. }
            | Change::Remove { .. }
            | Change::Flush { .. }
            | Change::Swap { .. } => {}
        }
    }
}

impl State {
    /// The node becomes a replica of a server outside of its deployment. It never reaches that server, so the link is down.
    pub(in crate::engine) fn follow_outside(&mut self, address: Address) {
        tracing::warn!(
            master = %address,
            "redouble does not replicate from servers outside of its deployment: the link stays down"
        );
        self.peers.replication.upstream = Some(Upstream {
            address,
            is_up: false,
            since: None,
        });
        self.end_stream();
        self.guards_writes();
        self.show_out_waiting();
    }

    pub(in crate::engine) fn promote(&mut self) {
        if self.peers.replication.upstream.take().is_some() {
            let shared = (
                self.peers.replication.id().to_owned(),
                self.peers.replication.offset + 1,
            );
            self.peers.replication.former = Some(shared);
            self.peers.replication.change_id();
            self.kick_readers();
            self.guards_writes();
        }
    }
}
