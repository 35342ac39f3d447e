//! Nemeses, one file per kind of fault. A nemesis only generates events.

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

pub(crate) use super::fault::DRIFT_PPM_MAX;

use super::{Fault, Topology};
use proptest::strategy::BoxedStrategy;

/// Unit of times: a 120th of the lease.
pub const UNITS_PER_LEASE: u64 = 120;

/// Largest number of client processes in a generated scenario.
pub const HOSTS_MAX: u8 = 3;

/// Upper bound of node numbers in generated faults; numbers wrap to the existing nodes.
pub const NODES_MAX: u8 = 5;

/// Units of a scenario in which faults begin.
pub const SPAN: std::ops::Range<u64> = 0..300;

/// A fault with its start and length in units.
#[derive(Clone, Copy, Debug)]
pub struct Strike {
    /// Start of the fault.
    pub at: u64,
    /// Duration of the fault.
    pub length: u64,
    /// The fault; its delays are in units too.
    pub fault: Fault,
}

/// A generator of faults.
pub trait Nemesis: Sync {
    /// Name in reports, and the result of [`Fault::nemesis`].
    fn name(&self) -> &'static str;

    /// Short description.
    fn summary(&self) -> &'static str;

    /// Generates the faults of one scenario.
    fn strikes(&self) -> BoxedStrategy<Vec<Strike>>;

    /// True if some locks cannot guarantee anything under it, so it is not mixed with other nemeses.
    fn is_beyond(&self) -> bool {
        false
    }

    /// True if it can strike on these servers.
    fn applies(&self, topology: Topology) -> bool {
        let _ = topology;
        true
    }

    /// True if it shows most in what holders do at the resource, so that half of its workloads consist of that.
    fn strikes_accesses(&self) -> bool {
        false
    }

    /// True if clients work longer than their lease.
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
