//! The data that a node recovers when it restarts after a crash.

use crate::engine::{Db, Image, Unit, UnixMicros};
use std::collections::VecDeque;
use std::sync::Arc;

/// The most recent writes that can be lost. Older writes are always on the disk.
pub(crate) const LOST_UNITS_MAX: usize = 10_000;

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
    persistence: Persistence,
}

impl Disk {
    pub(crate) fn new(databases: &[Db], persistence: Persistence) -> Self {
        Self {
            image: Image::of(databases),
            pending: VecDeque::new(),
            persistence,
        }
    }

    /// Empties the disk, as at the start.
    pub(crate) fn clear(&mut self) {
        self.image.clear();
        self.pending.clear();
    }

    pub(crate) fn write(&mut self, unit: Arc<Unit>, now: UnixMicros) {
        self.pending.push_back((now, unit));
        if self.pending.len() > LOST_UNITS_MAX
            && let Some((_, oldest)) = self.pending.pop_front()
        {
            self.image.apply(&oldest);
        }
    }

    /// Handles a crash; returns the data that the node recovers.
    pub(crate) fn crash(&mut self, loss: Loss, now: UnixMicros) -> Vec<Db> {
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
        self.image.databases().to_vec()
    }
}
