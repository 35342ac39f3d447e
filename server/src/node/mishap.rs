//! Events of a whole node: pauses, crashes, restarts, a fresh start.

use super::{Node, Outgoing, SharedNode, lock};
use crate::client_connection::Ending;
use crate::clock::ClockMap;
use crate::disk::{Disk, Loss, Persistence};
use crate::engine::{Engine, UnixMicros};
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

    /// What the node writes is kept from now on, as far as `persistence` goes.
    pub(crate) fn persist(&mut self, persistence: Persistence) {
        self.engine.keep_journal();
        let disk = Disk::new(self.engine.databases(), persistence);
        self.disk = Some(Box::new(disk));
    }

    /// Everything in memory is lost and every connection reset, until [`Node::restart`].
    ///
    /// # Panics
    /// For [`Loss::Last`] without a disk.
    #[track_caller]
    pub(crate) fn crash(&mut self, shared: &SharedNode, loss: Loss, now: UnixMicros) {
        let node_time = shared.node_time(now);
        let databases = match (&mut self.disk, loss) {
            (Some(disk), _) => disk.crash(loss, now),
            (None, Loss::Nothing) => self.engine.databases().to_vec(),
            (None, Loss::AsConfigured | Loss::Everything) => Vec::new(),
            (None, Loss::Last(_)) => {
                panic!(
                    "Loss::Last needs a persistence: Server::builder().persistence(Persistence::Always)"
                )
            }
        };
        self.engine.crash(databases, node_time);
        self.stall = None;
        self.pauses.end_all();
        self.restart_at = Some(None);
        for link in self.backlog.drain(..) {
            link.input().queued = false;
        }
        shared.crashed.store(true, Ordering::Release);
        let links = std::mem::take(&mut *lock(&shared.links));
        for link in links.values() {
            link.output().end(Ending::Reset);
            shared.note(link);
        }
        shared.post(Outgoing::Crashed);
    }

    /// A node that has crashed is started at this point of true time.
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

    /// Serves no client until [`Node::end_pause`] with the number that this returns, or
    /// [`Node::resume`]. Replies that are on their way still arrive.
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

    /// As freshly started, but for its connections: without data, awake, with an empty history.
    /// False, and nothing has happened, while a script is given up that nobody has killed.
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

    /// Whether a crash may lose but the latest writes.
    pub(crate) fn has_disk(&self) -> bool {
        self.disk.is_some()
    }

    /// Ends all pauses and serves the clients again, in the order in which their input came.
    pub(crate) fn resume(&mut self, shared: &SharedNode, now: UnixMicros) {
        self.pauses.end_all();
        self.serve_backlog(shared, now);
        self.end_turn(shared, now);
    }
}
