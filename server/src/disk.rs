//! The data that a node recovers when it restarts after a crash.

use crate::engine::{AppendFsync, Image, Unit, UnixMicros};
use std::collections::VecDeque;
use std::sync::Arc;

/// The most recent writes that can be lost. Older writes are always on the disk.
pub(crate) const LOST_UNITS_MAX: usize = 10_000;

/// Bytes of the writes that can be lost (`auto-aof-rewrite-min-size`). Beyond it the oldest are on the disk.
const LOST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// `appendfsync everysec`, microseconds.
const EVERY: i64 = 1_000_000;

/// Which writes survive a crash of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    /// None: `appendonly no`, `save ""`. The default.
    #[default]
    None,
    /// Writes before the latest full second: `appendfsync everysec`.
    EverySecond,
    /// All: `appendfsync always`.
    Always,
}

impl From<AppendFsync> for Persistence {
    fn from(policy: AppendFsync) -> Self {
        match policy {
            AppendFsync::Always => Self::Always,
            // An operating system that decides for itself writes at least as late.
            AppendFsync::EverySecond | AppendFsync::No => Self::EverySecond,
        }
    }
}

/// Which data a crash destroys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// The data that the server's [`Persistence`] does not keep.
    #[default]
    AsConfigured,
    /// All data.
    Everything,
    /// No data.
    Nothing,
    /// The latest writes, this many, 10,000 at most. A transaction or a script counts as one.
    /// Requires a [`Persistence`] other than `None`.
    Last(usize),
}

/// A disk, with the recent writes that a crash can still destroy.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    image: Image,
    pending: VecDeque<(UnixMicros, Arc<Unit>)>,
    /// Bytes of the pending writes.
    pending_bytes: usize,
    persistence: Persistence,
}

impl Disk {
    pub(crate) fn new(image: Image, persistence: Persistence) -> Self {
        Self {
            image,
            pending: VecDeque::new(),
            pending_bytes: 0,
            persistence,
        }
    }

    /// Changes which writes survive a crash.
    pub(crate) fn set_persistence(&mut self, persistence: Persistence) {
        self.persistence = persistence;
    }

    /// Empties the disk, as at the start.
    pub(crate) fn clear(&mut self) {
        self.image.clear();
        self.pending.clear();
        self.pending_bytes = 0;
    }

    pub(crate) fn write(&mut self, unit: Arc<Unit>, now: UnixMicros) {
        self.pending_bytes += unit.memory_bytes();
        self.pending.push_back((now, unit));
        while self.pending.len() > LOST_UNITS_MAX || self.pending_bytes > LOST_BYTES_MAX {
            let Some((_, oldest)) = self.pending.pop_front() else {
                return;
            };
            self.pending_bytes -= oldest.memory_bytes();
            self.image.apply(&oldest);
        }
    }

    /// Handles a crash; returns the data that the node recovers.
    pub(crate) fn crash(&mut self, loss: Loss, now: UnixMicros) -> Image {
        let synced = now.0.div_euclid(EVERY) * EVERY;
        let kept = match (loss, self.persistence) {
            (Loss::Everything, _) | (Loss::AsConfigured, Persistence::None) => {
                self.image.clear();
                0
            }
            (Loss::Nothing, _) | (Loss::AsConfigured, Persistence::Always) => self.pending.len(),
            (Loss::Last(lost), _) => self.pending.len().saturating_sub(lost),
            (Loss::AsConfigured, Persistence::EverySecond) => {
                let is_synced = |(at, _): &&(UnixMicros, Arc<Unit>)| at.0 < synced;
                self.pending.iter().take_while(is_synced).count()
            }
        };
        for (_, unit) in self.pending.drain(..).take(kept) {
            self.image.apply(&unit);
        }
        self.pending.clear();
        self.pending_bytes = 0;
        self.image.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Config, Effect, Engine, NodeApi as _};
    use crate::resp::OwnedRequest;

    /// Writes of 1 MiB each; the disk can lose 64 MiB of them.
    #[test]
    fn large_writes_reach_the_disk_before_ten_thousand_wait() {
        let now = UnixMicros(1_000_000_000);
        let mut engine = Engine::new(Config::default(), now);
        engine.keep_journal();
        let mut disk = Disk::new(engine.image(), Persistence::EverySecond);
        let conn = engine.connect("127.0.0.1:5", now).expect("there is room");
        let value = vec![b'x'; 1024 * 1024];
        for number in 0..70 {
            let key = format!("k{number}");
            let request = OwnedRequest::new([b"SET", key.as_bytes(), &value]);
            engine.handle(conn, request.as_request().expect("not empty"), now);
            while let Some(effect) = engine.poll_effect() {
                if let Effect::Propagate(unit) = effect {
                    disk.write(unit, now);
                }
            }
        }
        assert!(disk.pending_bytes <= LOST_BYTES_MAX);
        let kept = disk.crash(Loss::Last(usize::MAX), now);
        let kept = kept.databases()[0].len();
        assert!((7..=10).contains(&kept), "{kept}");
        assert_eq!(disk.pending_bytes, 0);
    }
}
