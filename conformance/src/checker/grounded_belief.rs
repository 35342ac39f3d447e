//! P20, grounded belief: at every instant of a belief the server stores the token of this grant, unexpired. If there
//! are several servers, a majority of all servers stores it. The checker needs the double, which the suite observes
//! after each of its steps. One client is enough to break this property.
//!
//! The own token of a grant is the token that the subject named. If the subject names none, it is a token that a
//! request of the holder's process stored between the start of the acquisition and its ok. For a re-entry, it may also
//! be a token of a grant that the same actor has already. If several tasks of a process acquire at once, there may be
//! several candidates: the grant is grounded if one of them is stored throughout. A stored holder does not count if its
//! mode is not the mode of the grant. Several entries of one token stand for the sum of their permits, and an owner that may write
//! may read as well. The depths of an owner's entries add up to at least the number of grants in which it believes.
//!
//! Servers that only count holders must count at least as many holders as believe that they hold the lock.

use super::{Checker, Finding, Property, Witness, seconds};
use crate::{
    history::{
        Belief, Cause, End, History, Holder, Mode, Moment, Owners, Reading, Scope, Tokens, What,
    },
    scenario::Topology,
};
use std::{collections::BTreeSet, time::Duration};

/// Divisor for the clock drift of client and server: a fiftieth of the time for which a grant keeps other clients out.
const DRIFT: u32 = 50;

/// Judges P20.
pub struct GroundedBelief;

/// What a node stores from a moment on.
struct State<'a> {
    since: Moment,
    stored: &'a [Holder],
    cause: Cause,
    /// Number of holders that the node counts without storing their tokens.
    anonymous: u32,
}

impl State<'_> {
    const EMPTY: State<'static> = State {
        since: Moment {
            at: Duration::ZERO,
            place: 0,
        },
        stored: &[],
        cause: Cause::Server,
        anonymous: 0,
    };
}

/// What the servers must store for a belief.
struct Wanted<'a> {
    token: &'a [u8],
    mode: Mode,
    /// Grants of the same owner, if one token stands for all of them.
    shared: Vec<&'a Belief>,
}

/// What the servers stored over time.
struct Record<'a> {
    /// States of each node, in order of time.
    nodes: Vec<Vec<State<'a>>>,
    /// Masters, each with the moment from which it was the master. The first master is node 0.
    owners: &'a Owners<'a>,
    masters: Vec<(Moment, u8)>,
    topology: Topology,
    reentrant: bool,
}

impl Checker for GroundedBelief {
    fn property(&self) -> Property {
        Property::GroundedBelief
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        if !history.observed {
            return Finding::Unknown("the server was not observed");
        }
        let record = Record::of(history);
        let beliefs = history.beliefs();
        let held = beliefs.iter().map(|belief| held(history, belief));
        let held: Vec<Belief> = held.collect();
        let first = if record.counts() {
            record.uncounted(&held)
        } else {
            let witnesses = held
                .iter()
                .filter_map(|belief| record.ungrounded(belief, beliefs, history.tokens()));
            witnesses.min_by_key(|witness| witness.at)
        };
        first.map_or(Finding::Valid, Finding::Violation)
    }
}

/// Extends a belief by the time after its release during which its grant keeps other clients out.
fn held(history: &History, belief: &Belief) -> Belief {
    let hold = history.terms.hold;
    let hold = (hold - hold / DRIFT).saturating_sub(history.terms.timing_tolerance());
    let kept = Moment::at(belief.asked.at + hold);
    let to = match belief.end {
        End::Released if belief.from < belief.to => belief.to.max(kept),
        End::Released | End::Lost | End::Crashed | End::Deadline | End::Open => belief.to,
    };
    Belief { to, ..*belief }
}

impl<'a> Record<'a> {
    fn of(history: &'a Reading<'_>) -> Self {
        let (history, owners) = (history.history(), history.owners());
        let mut nodes = Vec::new();
        nodes.resize_with(usize::from(history.topology.servers()), Vec::new);
        let mut masters = vec![(Moment::at(Duration::ZERO), 0)];
        for (since, what) in history.iter() {
            if let What::Server {
                node,
                cause,
                stored,
                anonymous,
            } = what
            {
                if let Some(states) = nodes.get_mut(usize::from(*node)) {
                    states.push(State {
                        since,
                        stored,
                        cause: *cause,
                        anonymous: *anonymous,
                    });
                }
            } else if let What::Promoted { node } = what {
                masters.push((since, *node));
            }
        }
        Self {
            nodes,
            owners,
            masters,
            topology: history.topology,
            reentrant: history.reentrant,
        }
    }

    fn ungrounded(
        &self,
        belief: &Belief,
        beliefs: &[Belief],
        tokens: &Tokens<'_>,
    ) -> Option<Witness> {
        if belief.from >= belief.to {
            return None;
        }
        let wanted: Vec<Wanted<'_>> = match tokens.named.get(&belief.grant) {
            Some(named) => {
                let same = |of: &&Belief| tokens.named.get(&of.grant) == Some(named);
                let shared = beliefs.iter().filter(same);
                let shared = shared.filter(|_| named.scope == Scope::Owner);
                vec![Wanted {
                    token: &named.bytes,
                    mode: belief.mode,
                    shared: shared.collect(),
                }]
            }
            None => {
                let guessed = self.guessed(belief, beliefs).into_iter();
                let wanted = guessed.map(|token| Wanted {
                    token,
                    mode: belief.mode,
                    shared: Vec::new(),
                });
                wanted.collect()
            }
        };
        // The candidate that is stored longest gives the counterexample.
        let fell = wanted.iter().map(|wanted| self.falls(belief, wanted));
        let at = fell
            .max_by_key(|fell| fell.unwrap_or(Moment::NEVER))
            .unwrap_or(Some(belief.from))?;
        let who = match self.topology {
            Topology::Nodes(0 | 1) => "the server does not store",
            Topology::Nodes(_) => "no majority of the servers stores",
            Topology::Replicated { .. } => "the master does not store",
        };
        let released = beliefs.iter().find(|it| it.grant == belief.grant);
        let released = released.filter(|it| it.end == End::Released && it.to <= at);
        let (from, to, fell) = (belief.from.at, belief.to.at, seconds(at.at));
        let (from, to) = (seconds(from), seconds(to));
        let message = match released {
            Some(released) => format!(
                "{} was granted the lock at {from} and released it at {}: its minimum hold keeps other clients out until {to}, \
                 but from {fell} on {who} its token",
                belief.actor,
                seconds(released.to.at),
            ),
            None => format!(
                "{} believes that it holds the lock from {from} to {to}, but from {fell} on {who} its token",
                belief.actor,
            ),
        };
        Some(Witness {
            at,
            until: Some(belief.to.at),
            grants: vec![belief.grant],
            message,
        })
    }

    /// True if a node counts holders without storing their tokens.
    fn counts(&self) -> bool {
        self.nodes.iter().flatten().any(|state| state.anonymous > 0)
    }

    /// Returns the first moment at which the servers count fewer holders than believe that they hold the lock.
    fn uncounted(&self, held: &[Belief]) -> Option<Witness> {
        let believed = |at: Moment| held.iter().filter(move |it| it.from <= at && at < it.to);
        let begins = held.iter().map(|belief| belief.from);
        let changes = self.nodes.iter().flatten().map(|state| state.since);
        let mut moments: Vec<Moment> = begins.chain(changes).collect();
        moments.sort_unstable();
        let (at, claimed) = moments.into_iter().find_map(|at| {
            let weights = believed(at).map(|belief| belief.mode.permits().max(1));
            let claimed: u32 = weights.sum();
            let counted = |state: &State<'_>| {
                let living = state.stored.iter().filter(|it| it.lives(at.at)).count();
                state
                    .anonymous
                    .saturating_add(u32::try_from(living).unwrap_or(u32::MAX))
            };
            (!self.agree(at, |state| counted(state) >= claimed)).then_some((at, claimed))
        })?;
        let believed: Vec<&Belief> = believed(at).collect();
        let until = believed.iter().map(|belief| belief.to.at).min();
        let permits = if claimed == 1 {
            "permit is"
        } else {
            "permits are"
        };
        Some(Witness {
            at,
            until,
            grants: believed.iter().map(|belief| belief.grant).collect(),
            message: format!(
                "at {} {claimed} {permits} believed to be held, and the servers count fewer",
                seconds(at.at)
            ),
        })
    }

    /// Tokens that may belong to a grant whose token the subject does not name.
    fn guessed(&self, belief: &Belief, beliefs: &[Belief]) -> BTreeSet<&'a [u8]> {
        let mut tokens = self.tokens(belief);
        // An owner that acquires again while it releases uses the same name for both.
        let older = beliefs.iter().filter(|older| {
            let stood = belief.asked < older.to || self.reentrant;
            older.actor == belief.actor && older.from < belief.asked && stood
        });
        tokens.extend(older.flat_map(|older| self.tokens(older)));
        tokens
    }

    /// Tokens that requests of the holder's process stored during the acquisition, and tokens of the process that others stored.
    fn tokens(&self, belief: &Belief) -> BTreeSet<&'a [u8]> {
        let states = self.nodes.iter().flatten();
        let meanwhile =
            states.filter(|state| belief.asked < state.since && state.since < belief.from);
        let host = belief.actor.host;
        let tokens = meanwhile.flat_map(|state| {
            let tokens = state.stored.iter().map(|stored| &*stored.token);
            tokens.filter(move |&token| {
                state.cause == Cause::Client(host)
                    || self.owners.of(token, state.cause) == Some(host)
            })
        });
        tokens.collect()
    }

    /// First moment of the belief at which the token is not stored.
    fn falls(&self, belief: &Belief, wanted: &Wanted<'_>) -> Option<Moment> {
        let mut moments = vec![belief.from];
        for states in &self.nodes {
            let first = states.partition_point(|state| state.since <= belief.from);
            for state in &states[first.saturating_sub(1)..] {
                if state.since >= belief.to {
                    break;
                }
                let theirs = state.stored.iter().filter(|it| it.token == wanted.token);
                let ends = theirs.filter_map(|stored| stored.gone_at()).map(Moment::at);
                moments.extend(ends.chain([state.since]));
            }
        }
        moments.extend(self.masters.iter().map(|&(since, _)| since));
        moments.sort_unstable();
        let within = moments
            .into_iter()
            .filter(|&at| belief.from <= at && at < belief.to);
        within.into_iter().find(|&at| !self.stands(wanted, at))
    }

    /// True if the token counts as stored at a moment.
    fn stands(&self, wanted: &Wanted<'_>, at: Moment) -> bool {
        let shared = wanted.shared.iter();
        let believed = shared.filter(|it| it.from <= at && at < it.to).count();
        let lives = |stored: &&Holder| stored.token == wanted.token && stored.lives(at.at);
        // An owner that may write may read as well.
        let covers = |mode| mode == Mode::Exclusive && !wanted.shared.is_empty();
        let right =
            |stored: &Holder| (stored.mode).is_none_or(|mode| mode == wanted.mode || covers(mode));
        self.agree(at, |state| {
            let mut living = state.stored.iter().filter(lives);
            // The owner's grants to read and to write may have an entry each.
            let mut depths = living.clone().map(|stored| stored.depth);
            let depth = depths.try_fold(0_u32, |sum, depth| Some(sum.saturating_add(depth?)));
            let depth = depth.map(|depth| usize::try_from(depth).unwrap_or(usize::MAX));
            let deep = depth.is_none_or(|depth| depth >= believed);
            deep && living.clone().any(right) || {
                // Several entries of one token stand for the sum of their permits.
                let permits = living.clone().filter_map(|stored| stored.mode);
                let permits = permits.map(Mode::permits).fold(0, u32::saturating_add);
                let asked = wanted.mode.permits();
                asked > 0 && permits >= asked && living.nth(1).is_some()
            }
        })
    }

    /// True if the predicate holds for the master, or for a majority of independent nodes, at a moment.
    fn agree(&self, at: Moment, is: impl Fn(&State<'_>) -> bool) -> bool {
        let on = |states: &Vec<State<'_>>| {
            let latest = states.partition_point(|state| state.since <= at);
            let latest = latest.checked_sub(1).and_then(|latest| states.get(latest));
            match latest {
                Some(state) => is(state),
                None => is(&State::EMPTY),
            }
        };
        match self.topology {
            Topology::Nodes(_) => {
                let count = self.nodes.iter().filter(|states| on(states)).count();
                2 * count > self.nodes.len()
            }
            Topology::Replicated { .. } => {
                let latest = self.masters.partition_point(|&(since, _)| since <= at);
                let master = latest.checked_sub(1).map(|latest| self.masters[latest].1);
                let states = master.and_then(|master| self.nodes.get(usize::from(master)));
                states.is_some_and(on)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::hand_made::*;

    fn verdict(entries: Vec<(u64, What)>) -> Option<(Duration, Option<Duration>)> {
        let finding = GroundedBelief.check(&history(entries));
        finding
            .witness()
            .map(|witness| (witness.at.at, witness.until))
    }

    fn granted_until(deadline: u64, more: Vec<(u64, What)>) -> Vec<(u64, What)> {
        let begin = vec![
            (0, tries(1, 0)),
            (1, stores(0, "a", Some(11))),
            (2, granted(1, Some(deadline))),
        ];
        begin.into_iter().chain(more).collect()
    }

    #[test]
    fn belief_within_the_stored_lease_passes() {
        assert_eq!(verdict(granted_until(10, vec![])), None);
        assert_eq!(
            verdict(granted_until(11, vec![])),
            None,
            "still there in its last millisecond"
        );
        let released = vec![(3, releases(2, 0, 1)), (3, frees(0)), (3, done(2))];
        assert_eq!(verdict(granted_until(10, released)), None);
        let expired = vec![(12, empties(0, Cause::Server))];
        assert_eq!(verdict(granted_until(10, expired)), None);
    }

    #[test]
    fn a_deadline_past_the_expiry_is_caught() {
        let gone = s(11) + Duration::from_millis(1);
        assert_eq!(
            verdict(granted_until(12, vec![])),
            Some((gone, Some(s(12))))
        );
        // A belief that ends with the history counts as well: no other client needs to contend.
        assert_eq!(
            verdict(granted_until(12, vec![(20, tries(2, 1))])),
            Some((gone, Some(s(12))))
        );
    }

    #[test]
    fn several_entries_of_a_token_stand_for_the_sum_of_their_permits() {
        let stored = |entries: &[u32]| {
            let holder = |&permits: &u32| Holder {
                token: b"a".to_vec(),
                mode: Some(Mode::Permits(permits)),
                expires: Some(s(11)),
                ..Holder::default()
            };
            let state = What::Server {
                node: 0,
                cause: Cause::Client(0),
                stored: entries.iter().map(holder).collect(),
                anonymous: 0,
            };
            let call = crate::history::Call::Try {
                mode: Mode::Permits(3),
            };
            let actor = crate::history::Actor::on(0);
            let asks = What::Invoke { op: 1, actor, call };
            verdict(vec![(0, asks), (1, state), (2, granted(1, Some(10)))])
        };
        assert_eq!(stored(&[3]), None);
        assert_eq!(stored(&[1, 1, 1]), None);
        assert_eq!(stored(&[2, 1]), None);
        assert!(stored(&[1, 1]).is_some());
        assert!(stored(&[1]).is_some());
    }

    /// An owner acquires the lock to write, and again to read.
    #[test]
    fn the_depths_of_an_owners_entries_add_up_to_its_grants() {
        let judged = |entries: &[(Mode, u32)]| {
            let holder = |&(mode, depth): &(Mode, u32)| Holder {
                token: b"a".to_vec(),
                mode: Some(mode),
                depth: Some(depth),
                expires: Some(s(11)),
            };
            let state = |entries: &[(Mode, u32)]| What::Server {
                node: 0,
                cause: Cause::Client(0),
                stored: entries.iter().map(holder).collect(),
                anonymous: 0,
            };
            let asks = |op, mode| What::Invoke {
                op,
                actor: crate::history::Actor::on(0),
                call: crate::history::Call::Try { mode },
            };
            let named = |op| What::Ok {
                op,
                deadline: Some(s(10)),
                fence: None,
                number: None,
                token: Some(crate::history::Token::of_owner(b"a".to_vec())),
            };
            let mut history = history(vec![
                (0, asks(1, Mode::Exclusive)),
                (1, state(&[(Mode::Exclusive, 1)])),
                (2, named(1)),
                (3, asks(2, Mode::Shared)),
                (4, state(entries)),
                (5, named(2)),
            ]);
            history.reentrant = true;
            GroundedBelief.check(&history) == Finding::Valid
        };
        assert!(judged(&[(Mode::Exclusive, 1), (Mode::Shared, 1)]));
        assert!(judged(&[(Mode::Exclusive, 2)]));
        assert!(!judged(&[(Mode::Exclusive, 1)]), "a level is missing");
        assert!(!judged(&[(Mode::Shared, 2)]), "a reader may not write");
    }

    #[test]
    fn a_token_that_is_removed_or_replaced_is_caught() {
        assert_eq!(
            verdict(granted_until(10, vec![(4, frees(1))])).map(|at| at.0),
            Some(s(4))
        );
        let replaced = vec![(5, stores(1, "b", Some(15)))];
        assert_eq!(
            verdict(granted_until(10, replaced)).map(|at| at.0),
            Some(s(5))
        );
    }

    #[test]
    fn a_grant_without_a_token_of_its_own_is_caught() {
        let of_thin_air = vec![(0, tries(1, 0)), (1, granted(1, Some(9)))];
        assert_eq!(verdict(of_thin_air).map(|at| at.0), Some(s(1)));
        let foreign = vec![
            (0, tries(1, 0)),
            (1, stores(1, "b", Some(11))),
            (1, granted(1, Some(9))),
        ];
        assert_eq!(verdict(foreign).map(|at| at.0), Some(s(1)));
    }

    #[test]
    fn a_released_token_with_a_minimum_hold_stays_stored_for_that_hold() {
        let given_back = |freed_at| {
            let released = vec![(3, releases(2, 0, 1)), (freed_at, frees(0)), (9, done(2))];
            let mut history = history(granted_until(10, released));
            history.terms.hold = s(5);
            GroundedBelief.check(&history).witness().map(|it| it.at.at)
        };
        assert_eq!(given_back(5), None);
        assert_eq!(given_back(4), Some(s(4)));
        // A lock need not keep a grant after its loss.
        let mut lost = history(granted_until(
            10,
            vec![(3, What::Lost { grant: 1 }), (3, frees(1))],
        ));
        lost.terms.hold = s(5);
        assert_eq!(GroundedBelief.check(&lost), Finding::Valid);
    }

    fn on_three_nodes(deadline: u64, more: Vec<(u64, What)>) -> Option<Duration> {
        let begin = vec![
            (0, tries(1, 0)),
            (1, stores_on(0, 0, "a", Some(11))),
            (1, stores_on(2, 0, "a", Some(11))),
            (2, granted(1, Some(deadline))),
        ];
        let history = History {
            topology: Topology::Nodes(3),
            ..history(begin.into_iter().chain(more).collect())
        };
        let finding = GroundedBelief.check(&history);
        finding.witness().map(|witness| witness.at.at)
    }

    #[test]
    fn of_several_nodes_a_majority_of_all_must_store_it() {
        assert_eq!(on_three_nodes(10, vec![]), None);
        let forgot = (4, empties(2, Cause::Fault));
        assert_eq!(on_three_nodes(10, vec![forgot.clone()]), Some(s(4)));
        let third = (3, stores_on(1, 0, "a", Some(13)));
        assert_eq!(on_three_nodes(10, vec![third, forgot]), None);
    }

    #[test]
    fn after_a_failover_the_new_master_counts() {
        let replicated = |on_replica: u64| {
            let mut entries = granted_until(10, vec![(5, What::Promoted { node: 1 })]);
            let copy = (on_replica, stores_on(1, 0, "a", Some(11)));
            entries.push(copy);
            entries.sort_by_key(|&(at, _)| at);
            let history = History {
                topology: Topology::Replicated { replicas: 1 },
                ..history(entries)
            };
            let finding = GroundedBelief.check(&history);
            finding.witness().map(|witness| witness.at.at)
        };
        assert_eq!(replicated(3), None);
        assert_eq!(replicated(30), Some(s(5)));
    }

    #[test]
    fn an_extended_expiry_carries_a_renewed_deadline() {
        let renewed = |stored| {
            verdict(granted_until(
                10,
                vec![
                    (5, renews(2, 0, 1)),
                    (5, stores(0, "a", Some(stored))),
                    (5, granted(2, Some(14))),
                ],
            ))
        };
        assert_eq!(renewed(15), None);
        assert!(renewed(13).is_some());
    }
}
