//! What befalls a whole node: pauses, crashes, restarts, a fresh start.

use super::{Node, Outgoing, SharedNode, lock};
use crate::client_connection::Ending;
use crate::clock::ClockMap;
use crate::disk::{Disk, Loss, Persistence};
use crate::engine::{Engine, UnixMicros};
use std::sync::atomic::Ordering;

impl Node {
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
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
    pub(crate) fn crash(&mut self, shared: &SharedNode, loss: Loss, now: UnixMicros) {
        let node_time = shared.node_time(now);
        let databases = match (&mut self.disk, loss) {
            (Some(disk), _) => disk.crash(loss, now),
            (None, Loss::Nothing) => self.engine.databases().to_vec(),
            (None, Loss::AsConfigured | Loss::Everything) => Vec::new(),
            (None, Loss::Last(_)) => {
                panic!("a server without persistence cannot lose but the latest writes")
            }
        };
        self.engine.crash(databases, node_time);
        self.stall = None;
        self.paused = false;
        self.restart_at = Some(None);
        for link in self.backlog.drain(..) {
            link.input().queued = false;
        }
        shared.crashed.store(true, Ordering::Release);
        let links = std::mem::take(&mut *lock(&shared.links));
        for link in links.values() {
            link.output().end(Ending::Reset);
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

    /// Serves nobody until [`Node::resume`]. Replies that are on their way still arrive.
    pub(crate) fn pause(&mut self) {
        self.paused = true;
    }

    /// As freshly started, but for its connections: without data, awake, with an empty history.
    /// False, and nothing has happened, while a script is given up that nobody has killed.
    pub(crate) fn reset(&mut self, shared: &SharedNode, now: UnixMicros) -> bool {
        if self.engine.state().busy.is_some() {
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

    /// Serves everybody again, in the order in which their input came.
    pub(crate) fn resume(&mut self, shared: &SharedNode, now: UnixMicros) {
        self.paused = false;
        self.serve_backlog(shared, now);
        self.end_turn(shared, now);
    }
}
