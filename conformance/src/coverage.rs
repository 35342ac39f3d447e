//! Non-vacuity: what the runs have seen. A suite that never saw contention proves nothing.

use crate::{
    checker::{Accesses, Checker},
    history::{Actor, Belief, Call, Cause, End, History, Moment, OpId, What},
    simulation::PROBE_OP,
};
use std::collections::BTreeMap;

/// In how many runs something was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// All runs.
    pub runs: u64,
    /// All grants, not runs.
    pub grants: u64,
    seen: [u64; SIGHTS.len()],
}

type Sees = fn(&Eyes<'_>) -> bool;

/// What there is to see, in the order of the counters.
const SIGHTS: [(&str, Sees); 9] = [
    ("contended", |eyes| eyes.contended()),
    ("expiry while held", |eyes| eyes.expiry_while_held()),
    ("acquire unknown, executed", |eyes| {
        eyes.unknown_acquire(true)
    }),
    ("acquire unknown, not executed", |eyes| {
        eyes.unknown_acquire(false)
    }),
    ("renewal failed", |eyes| {
        eyes.ended_badly(|call| matches!(call, Call::Renew { .. }))
    }),
    ("release unknown", |eyes| {
        eyes.unknown(|call| matches!(call, Call::Release { .. }))
    }),
    ("stale release", |eyes| eyes.stale_release()),
    ("death of a holder", |eyes| eyes.death_of_a_holder()),
    ("accesses interleaved, unfenced", |eyes| {
        eyes.interleaved_accesses()
    }),
];

impl Coverage {
    /// Takes in one run.
    pub fn see(&mut self, history: &History) {
        let eyes = Eyes {
            history,
            beliefs: history.beliefs(),
            calls: history.calls(),
        };
        self.runs += 1;
        self.grants += u64::try_from(eyes.beliefs.len()).unwrap_or(0);
        for (count, (_, sees)) in self.seen.iter_mut().zip(SIGHTS) {
            *count += u64::from(sees(&eyes));
        }
    }

    /// Adds what other runs have seen.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.grants += other.grants;
        for (count, more) in self.seen.iter_mut().zip(other.seen) {
            *count += more;
        }
    }

    /// What was seen, and in how many runs.
    pub fn sights(&self) -> impl Iterator<Item = (&'static str, u64)> {
        SIGHTS.iter().map(|&(name, _)| name).zip(self.seen)
    }

    /// What was never seen.
    pub fn missed(&self) -> impl Iterator<Item = &'static str> {
        self.sights()
            .filter(|&(_, count)| count == 0)
            .map(|(name, _)| name)
    }
}

struct Eyes<'a> {
    history: &'a History,
    beliefs: Vec<Belief>,
    calls: BTreeMap<OpId, (Moment, Actor, Call)>,
}

impl Eyes<'_> {
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
            (*op != PROBE_OP).then_some((at, *op))
        })
    }

    fn unknown(&self, of: impl Fn(Call) -> bool) -> bool {
        self.infos()
            .any(|(_, op)| self.calls.get(&op).is_some_and(|&(_, _, call)| of(call)))
    }

    /// An acquire without an outcome, whose client did or did not change the server meanwhile.
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

    /// Without fencing tokens a resource cannot be protected: that is to be seen.
    fn interleaved_accesses(&self) -> bool {
        let unfenced = self.beliefs.iter().all(|belief| belief.fence.is_none());
        unfenced && Accesses.check(self.history).witness().is_some()
    }
}
