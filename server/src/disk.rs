//! What a node finds on its disk when it comes back after a crash.

use crate::engine::{Db, Image, Unit, UnixMicros};
use std::collections::VecDeque;
use std::sync::Arc;

/// The latest writes that can be lost; older ones are on the disk in every case.
pub(crate) const LOST_UNITS_MAX: usize = 10_000;

/// `appendfsync everysec`, microseconds.
const EVERY: i64 = 1_000_000;

/// What survives a crash of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    /// Nothing: `appendonly no`, `save ""`. The default.
    #[default]
    None,
    /// What was written before the latest full second: `appendfsync everysec`.
    EverySecond,
    /// Everything: `appendfsync always`.
    Always,
}

/// What a crash destroys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// What the server's [`Persistence`] does not keep.
    #[default]
    AsConfigured,
    /// All data.
    Everything,
    /// No data.
    Nothing,
    /// The latest so many writes, 10,000 at most; a transaction or a script counts as one. The
    /// server needs a [`Persistence`] to keep the others.
    Last(usize),
}

/// A disk with the writes that are not on it for good.
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

    /// As at the start.
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

    /// A crash: what is found afterwards.
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
