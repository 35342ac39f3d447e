//! The life cycle of a node: pauses, crashes, restarts, resets.

use super::{Node, Outgoing, SharedNode, lock};
use crate::clock::ClockMap;
use crate::connection::Ending;
use crate::disk::{Disk, Loss, Persistence};
use crate::engine::{AppendFsync, Engine, Image, UnixMicros};
use std::sync::atomic::Ordering;

/// The pauses of a node that have not ended. The node serves its clients while there are none.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    standing: usize,
    /// Number of times that all pauses have ended at once. The guard of an earlier pause then has
    /// nothing to end.
    era: u64,
}

impl Pauses {
    fn end_all(&mut self) {
        self.standing = 0;
        self.era += 1;
    }
}

impl Node {
    pub(crate) fn is_paused(&self) -> bool {
        self.pauses.standing > 0
    }

    /// Keeps what the node writes from now on, as `persistence` says.
    pub(crate) fn persist(&mut self, persistence: Persistence) {
        self.engine.keep_journal();
        let disk = Disk::new(self.engine.image(), persistence);
        self.disk = Some(Box::new(disk));
    }

    /// Carries out CONFIG SET of `appendonly` and `appendfsync`.
    pub(crate) fn keep_writes(&mut self, policy: Option<AppendFsync>) {
        match (policy, &mut self.disk) {
            (None, disk) => *disk = None,
            (Some(policy), Some(disk)) => disk.set_persistence(policy.into()),
            (Some(policy), None) => self.persist(policy.into()),
        }
    }

    /// Crashes the node until [`Node::restart`]: it loses its memory and resets every connection.
    ///
    /// # Panics
    /// For [`Loss::Last`] without a disk.
    #[track_caller]
    pub(crate) fn crash(&mut self, shared: &SharedNode, loss: Loss, now: UnixMicros) {
        let node_time = shared.node_time(now);
        let image = match (&mut self.disk, loss) {
            (Some(disk), _) => disk.crash(loss, now),
            (None, Loss::Nothing) => self.engine.image(),
            (None, Loss::AsConfigured | Loss::Everything) => Image::default(),
            (None, Loss::Last(_)) => {
                panic!(
                    "Loss::Last needs a persistence: Server::builder().persistence(Persistence::Always)"
                )
            }
        };
        self.engine.crash(&image, node_time);
        self.keep_writes(self.engine.config().append_only());
        self.stall = None;
        self.pauses.end_all();
        self.restart_at = Some(None);
        for connection in self.backlog.drain(..) {
            connection.input().is_queued = false;
        }
        shared.crashed.store(true, Ordering::Release);
        let connections = std::mem::take(&mut *lock(&shared.connections));
        for connection in connections.values() {
            connection.output().end(Ending::Reset);
            shared.note(connection);
        }
        shared.post(Outgoing::Crashed);
    }

    /// Sets the true time at which a crashed node is started again.
    pub(crate) fn restart_at(&mut self, at: UnixMicros) {
        if let Some(restart_at) = &mut self.restart_at {
            *restart_at = Some(at);
        }
    }

    pub(super) fn restart(&mut self, shared: &SharedNode, now: UnixMicros) {
        if self.restart_at.flatten().is_some_and(|at| at <= now) {
            self.restart_at = None;
            self.engine.restarted(shared.node_time(now));
            shared.crashed.store(false, Ordering::Release);
            shared.post(Outgoing::Restarted);
        }
    }

    pub(crate) fn is_crashed(&self) -> bool {
        self.restart_at.is_some()
    }

    /// Pauses the node until [`Node::end_pause`] with the number that this returns, or [`Node::resume`]. A paused
    /// node serves no client. Delayed replies still arrive.
    pub(crate) fn pause(&mut self) -> u64 {
        self.pauses.standing += 1;
        self.pauses.era
    }

    /// Ends one pause. The node serves its clients again if it was the last.
    pub(crate) fn end_pause(&mut self, number: u64, shared: &SharedNode, now: UnixMicros) {
        if number == self.pauses.era && self.is_paused() {
            self.pauses.standing -= 1;
            if !self.is_paused() {
                self.resume(shared, now);
            }
        }
    }

    /// Resets the node to the state after its start, but keeps its connections. Returns false and changes nothing
    /// while the node is busy with a script that no client has killed.
    pub(crate) fn reset(&mut self, shared: &SharedNode, now: UnixMicros) -> bool {
        if self.engine.is_busy() {
            return false;
        }
        if let Some(restart_at) = &mut self.restart_at {
            *restart_at = Some(now);
            self.restart(shared, now);
        }
        shared.plan.clear();
        shared.clock.change(|map| *map = ClockMap::default());
        lock(&shared.history).clear();
        self.change(shared, now, Engine::reset);
        self.keep_writes(self.engine.config().append_only());
        if let Some(disk) = &mut self.disk {
            disk.clear();
        }
        if let Some(stall) = &mut self.stall {
            stall.until = UnixMicros(i64::MIN);
        }
        self.wake_up(shared, now);
        self.resume(shared, now);
        true
    }

    /// True if data can survive a crash.
    pub(crate) fn has_disk(&self) -> bool {
        self.disk.is_some()
    }

    /// Ends all pauses and serves the clients again, in the order of arrival of their input.
    pub(crate) fn resume(&mut self, shared: &SharedNode, now: UnixMicros) {
        self.pauses.end_all();
        let now = self.serve_backlog(shared, now);
        self.end_turn(shared, now);
    }
}
