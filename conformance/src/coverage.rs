//! Non-vacuity (P17): the situations that the runs covered. A suite that never saw contention proves nothing.
//!
//! Each probe has a floor: a share of the runs, or one run. A lock has to reach the floors that its kind and
//! its servers allow.

use crate::{
    checker::{Accesses, Checker},
    history::{
        Actor, Belief, CANCELLED, Call, Cause, End, History, Kind, Mode, Moment, OpId, What,
    },
    scenario::Topology,
    simulation::FIRST_PROBE_OP,
    subject::{Fencing, Promises},
};
use std::{collections::BTreeMap, fmt};

/// Number of runs in which each probe saw its situation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Number of runs.
    pub runs: u64,
    /// Number of grants in all runs.
    pub grants: u64,
    /// Largest number of readers that asked after a waiting writer and acquired the lock before it. Judged
    /// only if the lock prefers writers.
    pub bypass: u64,
    seen: [u64; PROBES.len()],
}

/// A situation to cover.
struct CoverageProbe {
    name: &'static str,
    /// Percentage of runs that have to cover it; 0 if one run is enough.
    floor: u64,
    /// True if a lock with these promises can get into the situation.
    possible: fn(&Promises) -> bool,
    sees: fn(&HistoryView<'_>) -> bool,
}

const fn probe(
    name: &'static str,
    floor: u64,
    possible: fn(&Promises) -> bool,
    sees: fn(&HistoryView<'_>) -> bool,
) -> CoverageProbe {
    CoverageProbe {
        name,
        floor,
        possible,
        sees,
    }
}

/// True for locks with holders, unlike counters and latches.
const fn held(promises: &Promises) -> bool {
    !matches!(promises.kind, Kind::Admission(_) | Kind::Latch(_))
}

const fn unfenced(promises: &Promises) -> bool {
    matches!(promises.kind, Kind::Mutex)
        && matches!(promises.fencing, Fencing::None)
        && !promises.reentrant
}

const fn replicated(promises: &Promises) -> bool {
    matches!(promises.topology, Topology::Replicated { .. })
}

/// True unless a working watchdog prevents leases from expiring.
const fn expires(promises: &Promises) -> bool {
    held(promises) && !promises.renews
}

/// True for grants with a deadline, because only these can expire.
const fn is_told(promises: &Promises) -> bool {
    held(promises) && promises.signals
}

/// The probes, in the order of the counters.
const PROBES: [CoverageProbe; 14] = [
    probe("contended", 30, held, |view| view.contended()),
    probe("expiry while held", 10, expires, |view| {
        view.expiry_while_held()
    }),
    probe("expiry in spite of a watchdog", 2, watched, |view| {
        view.expiry_while_held()
    }),
    probe("acquisition unknown (executed)", 5, held, |view| {
        view.unknown_acquire(true)
    }),
    probe("acquisition unknown (not executed)", 5, held, |view| {
        view.unknown_acquire(false)
    }),
    probe("renewal failed", 0, held, |view| {
        view.ended_badly(|call| matches!(call, Call::Renew { .. }))
    }),
    probe("release unknown", 0, held, |view| {
        view.unknown(|call| matches!(call, Call::Release { .. }))
    }),
    probe("stale release", 0, held, |view| view.stale_release()),
    probe("death of a holder", 0, held, |view| {
        view.death_of_a_holder()
    }),
    probe("pause of a holder", 0, held, |view| {
        view.pause_of_a_holder()
    }),
    probe("call cancelled", 0, held, |view| view.cancelled()),
    probe("loss reported", 0, is_told, |view| {
        view.sees(|what| matches!(what, What::Lost { .. }))
    }),
    probe("unfenced accesses interleaved", 0, unfenced, |view| {
        view.interleaved_accesses()
    }),
    probe("failover", 0, replicated, |view| {
        view.sees(|what| matches!(what, What::Promoted { .. }))
    }),
];

/// True for locks that renew their leases.
const fn watched(promises: &Promises) -> bool {
    held(promises) && promises.renews
}

impl Coverage {
    /// Adds one run.
    pub fn see(&mut self, history: &History) {
        let view = HistoryView {
            history,
            beliefs: history.beliefs(),
            calls: history.calls(),
        };
        self.runs += 1;
        self.grants += u64::try_from(view.beliefs.len()).unwrap_or(0);
        self.bypass = self.bypass.max(view.bypass());
        for (count, probe) in self.seen.iter_mut().zip(&PROBES) {
            *count += u64::from((probe.sees)(&view));
        }
    }

    /// Adds the runs of another summary.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.grants += other.grants;
        self.bypass = self.bypass.max(other.bypass);
        for (count, more) in self.seen.iter_mut().zip(other.seen) {
            *count += more;
        }
    }

    /// Returns each probe with the number of runs that covered it.
    pub fn probes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        PROBES.iter().map(|probe| probe.name).zip(self.seen)
    }

    /// Returns each probe whose situation is possible for a lock with these promises, with the number of runs that covered it.
    pub fn possible(&self, promises: &Promises) -> impl Iterator<Item = (&'static str, u64)> {
        let probes = PROBES.iter().zip(self.seen);
        let possible = probes.filter(move |(probe, _)| (probe.possible)(promises));
        possible.map(|(probe, seen)| (probe.name, seen))
    }

    /// Returns the missed floors, of those that apply to a lock with these promises.
    #[must_use]
    pub fn missed(&self, promises: &Promises) -> Vec<Missed> {
        let probes = PROBES.iter().zip(self.seen);
        let possible = probes.filter(|(probe, _)| (probe.possible)(promises));
        let missed = possible.filter(|(probe, count)| {
            *count == 0 || count.saturating_mul(100) < probe.floor.saturating_mul(self.runs)
        });
        let missed = missed.map(|(probe, seen)| Missed {
            probe: probe.name,
            seen,
            runs: self.runs,
            floor: probe.floor,
        });
        missed.collect()
    }
}

/// A missed floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// Name of the probe.
    pub probe: &'static str,
    /// Number of runs that covered it.
    pub seen: u64,
    /// Number of runs.
    pub runs: u64,
    /// Percentage of runs to reach; 0 if one run is enough.
    pub floor: u64,
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            probe,
            seen,
            runs,
            floor,
        } = self;
        write!(f, "{probe} in {seen} of {runs} runs")?;
        if *floor > 0 {
            write!(f, " instead of {floor} %")?;
        }
        Ok(())
    }
}

struct HistoryView<'a> {
    history: &'a History,
    beliefs: Vec<Belief>,
    calls: BTreeMap<OpId, (Moment, Actor, Call)>,
}

impl HistoryView<'_> {
    /// Returns the largest number of readers that overtook one waiting writer.
    fn bypass(&self) -> u64 {
        if self.history.kind != Kind::ReadWrite {
            return 0;
        }
        let ends = self.history.ends();
        let passed = self.calls.iter().filter_map(|(op, &(asked, _, call))| {
            let Call::Acquire {
                mode: Mode::Exclusive,
                ..
            } = call
            else {
                return None;
            };
            let until = ends.get(op).map_or(Moment::NEVER, |&(at, _)| at);
            let readers = self.beliefs.iter().filter(|reader| {
                let reads = reader.mode == Mode::Shared;
                reads && asked < reader.asked && reader.from < until
            });
            u64::try_from(readers.count()).ok()
        });
        passed.max().unwrap_or(0)
    }

    fn contended(&self) -> bool {
        self.calls.values().any(|&(asked, actor, call)| {
            let stands =
                |belief: &Belief| belief.actor != actor && belief.from < asked && asked < belief.to;
            call.acquires() && self.beliefs.iter().any(stands)
        })
    }

    fn expiry_while_held(&self) -> bool {
        self.beliefs
            .iter()
            .any(|belief| belief.end == End::Deadline)
    }

    fn infos(&self) -> impl Iterator<Item = (Moment, OpId)> {
        self.history.iter().filter_map(|(at, what)| {
            let What::Info { op, .. } = what else {
                return None;
            };
            (*op < FIRST_PROBE_OP).then_some((at, *op))
        })
    }

    fn unknown(&self, of: impl Fn(Call) -> bool) -> bool {
        self.infos()
            .any(|(_, op)| self.calls.get(&op).is_some_and(|&(_, _, call)| of(call)))
    }

    /// True if an acquisition has no outcome although its client did (or did not) change the server
    /// meanwhile.
    fn unknown_acquire(&self, executed: bool) -> bool {
        self.history.observed
            && self.infos().any(|(until, op)| {
                let Some(&(asked, actor, call)) = self.calls.get(&op) else {
                    return false;
                };
                let stored = self.history.iter().any(|(at, what)| {
                    let theirs = matches!(what, What::Server {
                        cause: Cause::Client(host), stored, ..
                    } if *host == actor.host && !stored.is_empty());
                    theirs && asked < at && at < until
                });
                call.acquires() && stored == executed
            })
    }

    fn ended_badly(&self, of: impl Fn(Call) -> bool) -> bool {
        self.history.entries.iter().any(|entry| {
            let (What::Fail { op, .. } | What::Info { op, .. }) = entry.what else {
                return false;
            };
            self.calls.get(&op).is_some_and(|&(_, _, call)| of(call))
        })
    }

    fn stale_release(&self) -> bool {
        self.calls.values().any(|&(at, _, call)| {
            self.beliefs.iter().any(|belief| {
                let over = matches!(belief.end, End::Deadline | End::Lost);
                call.gives_back() == Some(belief.grant) && over && belief.to < at
            })
        })
    }

    fn death_of_a_holder(&self) -> bool {
        self.beliefs.iter().any(|belief| belief.end == End::Crashed)
    }

    /// True if accesses interleaved: without fencing tokens a resource cannot be protected.
    fn interleaved_accesses(&self) -> bool {
        let unfenced = self.beliefs.iter().all(|belief| belief.fence.is_none());
        unfenced && Accesses.check(self.history).witness().is_some()
    }

    fn pause_of_a_holder(&self) -> bool {
        self.history.iter().any(|(at, what)| {
            let What::Pause { host } = what else {
                return false;
            };
            let holds =
                |belief: &Belief| belief.actor.host == *host && belief.from < at && at < belief.to;
            self.beliefs.iter().any(holds)
        })
    }

    fn cancelled(&self) -> bool {
        self.sees(|what| matches!(what, What::Info { error, .. } if error == CANCELLED))
    }

    fn sees(&self, what: impl Fn(&What) -> bool) -> bool {
        self.history.entries.iter().any(|entry| what(&entry.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::hand_made::*;

    fn seen(contended: bool) -> Coverage {
        let mut coverage = Coverage::default();
        let rival = contended.then(|| (2, tries(2, 1)));
        let entries = [(0, tries(1, 0)), (1, granted(1, Some(9)))];
        coverage.see(&history(entries.into_iter().chain(rival).collect()));
        coverage
    }

    fn misses(coverage: &Coverage, probe: &str) -> bool {
        let missed = coverage.missed(&Promises::mutex_on_one_node());
        missed.iter().any(|missed| missed.probe == probe)
    }

    #[test]
    fn a_floor_is_a_share_of_the_runs() {
        let mut coverage = Coverage::default();
        (0..3).for_each(|_| coverage.add(&seen(true)));
        (0..7).for_each(|_| coverage.add(&seen(false)));
        assert!(!misses(&coverage, "contended"));
        coverage.add(&seen(false));
        assert!(misses(&coverage, "contended"));
        let missed = coverage.missed(&Promises::mutex_on_one_node());
        let text = missed[0].to_string();
        assert_eq!(text, "contended in 3 of 11 runs instead of 30 %");
    }

    #[test]
    fn impossible_situations_have_no_floor() {
        let nothing = Coverage::default();
        assert!(misses(&nothing, "stale release"));
        assert!(!misses(&nothing, "failover"));
        let latch = Promises::of(Kind::Latch(3));
        assert_eq!(nothing.missed(&latch), []);
        let one_node = Promises::mutex_on_one_node();
        let replicated = one_node.on(Topology::Replicated { replicas: 1 });
        let missed = nothing.missed(&replicated);
        assert!(missed.iter().any(|missed| missed.probe == "failover"));
        let possible = |promises| {
            nothing
                .possible(promises)
                .any(|(name, _)| name == "failover")
        };
        assert!(possible(&replicated) && !possible(&one_node));
    }
}
