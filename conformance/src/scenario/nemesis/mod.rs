//! What strikes: one file per kind of fault. A nemesis only generates events.

mod answer_error;
mod crash;
mod cut;
mod delay;
mod drift;
mod drift_beyond;
mod eviction;
mod failover;
mod node_amnesia;
mod node_clock_back;
mod node_clock_forward;
mod node_crash;
mod node_drift;
mod node_fast;
mod node_freeze;
mod node_pause;
mod node_slow;
mod overwork;
mod partition;
mod pause;
mod script_flush;
mod split_brain;
mod suspend;
mod wall_clock;

pub(crate) use drift::DRIFT_PPM_MAX;

use super::{Fault, Topology};
use proptest::strategy::BoxedStrategy;

/// Times are drawn in units of a 120th of the lease.
pub const UNITS_PER_LEASE: u64 = 120;

/// How many client processes a generated scenario has at most.
pub const HOSTS_MAX: u8 = 3;

/// Nodes of generated faults are drawn below this and wrapped to those that there are.
pub const NODES_MAX: u8 = 5;

/// The part of a scenario in which faults begin, in units.
pub const SPAN: std::ops::Range<u64> = 0..300;

/// A fault with its start and length in units.
#[derive(Clone, Copy, Debug)]
pub struct Strike {
    /// When it begins.
    pub at: u64,
    /// How long it lasts.
    pub length: u64,
    /// What it is; delays are in units as well.
    pub fault: Fault,
}

/// A source of faults.
pub trait Nemesis: Sync {
    /// The name that reports and [`Fault::nemesis`] use.
    fn name(&self) -> &'static str;

    /// What it does, in a few words.
    fn summary(&self) -> &'static str;

    /// Generates the faults of one scenario.
    fn strikes(&self) -> BoxedStrategy<Vec<Strike>>;

    /// Whether it lies beyond what some lock can guarantee, so that it does not mix with others.
    fn is_beyond(&self) -> bool {
        false
    }

    /// Whether it can strike on these servers.
    fn applies(&self, topology: Topology) -> bool {
        let _ = topology;
        true
    }

    /// Whether the clients shall work longer than their lease.
    fn overworks(&self) -> bool {
        false
    }
}

/// All nemeses.
pub const NEMESES: &[&dyn Nemesis] = &[
    &overwork::Overwork,
    &pause::Pause,
    &delay::Delay,
    &cut::Cut,
    &partition::Partition,
    &crash::Crash,
    &drift::Drift,
    &wall_clock::WallClock,
    &node_pause::NodePause,
    &node_crash::NodeCrash,
    &answer_error::AnswerError,
    &script_flush::ScriptFlush,
    &node_drift::NodeDrift,
    &suspend::Suspend,
    &drift_beyond::DriftBeyond,
    &node_amnesia::NodeAmnesia,
    &eviction::Eviction,
    &node_clock_forward::NodeClockForward,
    &node_fast::NodeFast,
    &node_clock_back::NodeClockBack,
    &node_slow::NodeSlow,
    &node_freeze::NodeFreeze,
    &failover::FailOver,
    &split_brain::SplitBrain,
];
