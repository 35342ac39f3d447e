//! The amount of runs, and the properties to judge.

use crate::{
    backend::Backend,
    checker::Property,
    scenario::{
        Scenario,
        generate::{Generator, Timing},
    },
    subject::{DynSubject, Promises},
    verdict::keeps,
};
use std::{ops::Range, thread, time::Instant};

/// The amount of runs, and the properties to judge.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seeds to play.
    pub seeds: Range<u64>,
    /// Number of threads.
    pub jobs: usize,
    /// Nemeses to play, in turn; all if empty.
    pub faults: Vec<String>,
    /// Lease and other times of the scenarios, if neither the backend nor the subject fixes the lease.
    pub timing: Timing,
    /// Properties to judge; all if empty.
    pub properties: Vec<Property>,
    /// True if the fixed scenarios are played, before the seeds.
    pub fixed: bool,
    /// Time after which no run starts.
    pub until: Option<Instant>,
    /// If true, a subject that should be sound gets no more runs after its first violation.
    pub fail_fast: bool,
}

/// Number of seeds of the quick tier.
pub const QUICK: u64 = 2_000;
/// Number of seeds of each lock of `redouble-lock` when the program checks all locks, so that it is done in a few minutes.
pub const SURVEY: u64 = 600;
/// Number of seeds within which the quick tier has to convict a known bug.
pub const CONVICTION: u64 = 4_000;
/// Number of seeds on a real server, where a run takes seconds.
pub const QUICK_REAL: u64 = 16;

impl Plan {
    /// Makes the plan of the quick tier for a backend.
    #[must_use]
    pub fn quick(backend: &dyn Backend) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        // In real time a run mostly sleeps.
        let jobs = if backend.virtual_time() {
            cores
        } else {
            4 * cores
        };
        Self {
            seeds: 0..quick_seeds(backend),
            jobs,
            faults: Vec::new(),
            timing: Timing::default(),
            properties: Vec::new(),
            fixed: false,
            until: None,
            fail_fast: false,
        }
    }

    /// Returns true if a property is judged.
    #[must_use]
    pub fn judges(&self, property: Property) -> bool {
        self.properties.is_empty() || self.properties.contains(&property)
    }

    /// Returns true if the plan is large enough that each expected verdict must be reached.
    #[must_use]
    pub fn suffices(&self, backend: &dyn Backend) -> bool {
        let seeds = self.seeds.end.saturating_sub(self.seeds.start);
        self.faults.is_empty() && seeds >= quick_seeds(backend)
    }

    /// Returns true if the time is up.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// Returns the number of seeds of the quick tier on a backend.
#[must_use]
pub fn quick_seeds(backend: &dyn Backend) -> u64 {
    if backend.virtual_time() {
        QUICK
    } else {
        QUICK_REAL
    }
}

/// Makes the generator that plans use for locks with these promises; see [`Generator::within`].
#[must_use]
pub fn generator(promises: Promises, only: Option<&str>) -> Generator {
    Generator::within(promises, only, |nemesis| keeps(promises, nemesis))
}

/// Returns the times of scenarios for a subject on a backend. If one of them fixes the lease, all times are in proportion to it.
#[must_use]
pub fn timing(subject: &dyn DynSubject, backend: &dyn Backend, chosen: Timing) -> Timing {
    let lease_ms = backend.lease_ms().or_else(|| subject.lease_ms());
    lease_ms.map_or(chosen, Timing::Lease)
}

/// The scenarios of a plan for one subject.
pub(crate) struct Source(Vec<Generator>);

impl Source {
    /// Makes the source for a subject on a backend.
    pub(crate) fn of(subject: &dyn DynSubject, backend: &dyn Backend, plan: &Plan) -> Self {
        let promises = subject.promises();
        let timing = timing(subject, backend, plan.timing);
        let of = |fault: Option<&str>| generator(promises, fault).timed(timing);
        if plan.faults.is_empty() {
            return Self(vec![of(None)]);
        }
        let of_fault = |fault: &String| of(Some(fault));
        let generators = plan.faults.iter().map(of_fault);
        Self(generators.filter(|it| !it.is_empty()).collect())
    }

    /// Returns true if none of the faults can strike on the lock's servers.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes the scenario of a seed.
    ///
    /// # Panics
    /// If the source is empty.
    pub(crate) fn scenario(&self, seed: u64) -> Scenario {
        let turns = u64::try_from(self.0.len()).unwrap_or(1);
        let turn = usize::try_from(seed % turns).unwrap_or(0);
        self.0[turn].scenario(seed)
    }
}
