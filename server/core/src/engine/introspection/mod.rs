//! Statistics of a node: counters, slow commands, slow events, its identity and start.
//!
//! *Invariants.* Counters only grow until they are reset; the number of changes and the memory peak are never reset.
//! These figures are only reported: no other part reads them to make a decision.

pub(super) mod latency;
pub(super) mod monitor;
pub(super) mod slowlog;
pub(super) mod stats;

use super::persistence::SaveFigures;
use super::rng::Rng;
use super::time::UnixMicros;
use latency::Latency;
use slowlog::Slowlog;
use stats::Stats;

/// Figures of a node.
#[derive(Debug)]
pub(super) struct Introspection {
    pub(super) stats: Stats,
    pub(super) slowlog: Slowlog,
    pub(super) latency: Latency,
    started: UnixMicros,
    run_id: String,
    /// Largest estimate of memory that a client has asked for, bytes.
    memory_peak: usize,
    /// Number of changes since the start.
    changes: u64,
    pub(super) saves: SaveFigures,
}

impl Introspection {
    /// Figures of a node that starts now and has so many commands.
    pub(super) fn new(seed: u64, commands: usize, now: UnixMicros) -> Self {
        Self {
            stats: Stats::new(commands),
            slowlog: Slowlog::default(),
            latency: Latency::default(),
            started: now,
            run_id: Rng::for_component(seed, "run id").hex(20),
            memory_peak: 0,
            changes: 0,
            saves: SaveFigures::new(now),
        }
    }

    pub(super) fn started(&self) -> UnixMicros {
        self.started
    }

    /// The node runs again after a crash.
    pub(super) fn restarted(&mut self, now: UnixMicros) {
        self.started = now;
    }

    pub(super) fn run_id(&self) -> &str {
        &self.run_id
    }

    pub(super) fn note_memory(&mut self, bytes: usize) {
        self.memory_peak = self.memory_peak.max(bytes);
    }

    pub(super) fn memory_peak(&self) -> usize {
        self.memory_peak
    }

    /// Counts changed keys.
    #[inline]
    pub(super) fn count_changes(&mut self, count: u64) {
        self.changes += count;
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Takes the number of changes back to an earlier one.
    pub(super) fn forget_changes_since(&mut self, earlier: u64) {
        self.changes = earlier;
    }
}
