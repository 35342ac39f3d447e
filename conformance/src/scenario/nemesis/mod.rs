//! What strikes: one file per kind of fault. A nemesis only generates events.

mod crash;
mod cut;
mod delay;
mod drift;
mod overwork;
mod pause;

pub(crate) use drift::DRIFT_PPM_MAX;

use super::Fault;
use proptest::strategy::BoxedStrategy;

/// Times are drawn in units of a 120th of the lease.
pub const UNITS_PER_LEASE: u64 = 120;

/// How many client processes a generated scenario has at most.
pub const HOSTS_MAX: u8 = 3;

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
    &crash::Crash,
    &drift::Drift,
];
