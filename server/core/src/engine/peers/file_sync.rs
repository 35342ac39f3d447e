//! The offset up to which a node's append-only file is synced to disk, for WAITAOF.
//!
//! *Policy* (`appendfsync`): with `always` a write is safe at once, with `everysec` at the next full second of the clock, with
//! `no` the operating system decides, and the node never knows. A disk keeps the same after a crash (`disk.rs`).

use crate::engine::persistence::AppendFsync;
use crate::engine::time::{UnixMicros, UnixMillis};

const MICROS: i64 = 1_000_000;
const MILLIS: i64 = 1_000;

/// The append-only file of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileSync {
    /// `None` without a file.
    policy: Option<AppendFsync>,
    /// Offset up to which the history is safe.
    synced: u64,
    /// Offset of the latest write, and the time of that write.
    latest: u64,
    wrote_at: UnixMicros,
}

impl FileSync {
    /// Changes the policy. A new file holds everything up to `offset`.
    pub(in crate::engine) fn set_policy(&mut self, policy: Option<AppendFsync>, offset: u64) {
        if self.policy.is_none() {
            (self.synced, self.latest) = (offset, offset);
        }
        self.policy = policy;
    }

    /// Records that the history has reached this offset.
    pub(in crate::engine) fn wrote(&mut self, offset: u64, now: UnixMicros) {
        self.settle(now);
        (self.latest, self.wrote_at) = (offset, now);
        if self.policy == Some(AppendFsync::Always) {
            self.synced = offset;
        }
    }

    /// Records the synced offset that another node reports.
    pub(in crate::engine) fn told(&mut self, synced: u64) {
        self.policy.get_or_insert(AppendFsync::No);
        self.synced = self.synced.max(synced);
    }

    /// Marks the writes of earlier seconds as safe.
    pub(in crate::engine) fn settle(&mut self, now: UnixMicros) {
        if self.due().is_some_and(|due| now.millis() > due) {
            self.synced = self.latest;
        }
    }

    /// Returns the time after which the latest write is safe; `None` if it is safe already, or if that is unknown.
    pub(in crate::engine) fn due(&self) -> Option<UnixMillis> {
        let waits = self.policy == Some(AppendFsync::EverySecond) && self.synced < self.latest;
        let second = self.wrote_at.0.div_euclid(MICROS);
        waits.then(|| UnixMillis(second.saturating_add(1).saturating_mul(MILLIS) - 1))
    }

    /// Returns true if a file holds the history up to this offset after a sync.
    pub(crate) fn holds(&self, offset: u64) -> bool {
        self.policy.is_some() && self.synced >= offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_safe_when_the_policy_says_so() {
        let at = |millis: i64| UnixMicros(millis * 1_000);
        for (policy, at_once, later) in [
            (None, false, false),
            (Some(AppendFsync::Always), true, true),
            (Some(AppendFsync::EverySecond), false, true),
            (Some(AppendFsync::No), false, false),
        ] {
            let mut file = FileSync::default();
            file.set_policy(policy, 7);
            assert_eq!(file.holds(7), policy.is_some());
            file.wrote(8, at(1_500));
            assert_eq!(file.holds(8), at_once, "{policy:?}");
            file.settle(at(1_999));
            assert_eq!(file.holds(8), at_once, "{policy:?}");
            assert_eq!(file.due().is_some(), later && !at_once, "{policy:?}");
            file.settle(at(2_000));
            assert_eq!(file.holds(8), later, "{policy:?}");
            assert_eq!(file.due(), None);
        }
    }
}
