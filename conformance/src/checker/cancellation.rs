//! P12, cancellation: when a caller drops an acquisition or a release before its end, or drops a guard,
//! nothing of it remains at any server: no token, no place in a queue, no renewer that keeps it alive.
//!
//! Two round trips are enough where the process ran and was heard, three if several nodes are asked; or as many as it makes
//! requests one after the other, for instance to dial anew and to load a script again. Otherwise the bound is one lease after the
//! last fault. A request may land when its process has closed the connection, after the one that is to undo it: then the process has an
//! eighth of a lease more. A place in a queue has no time to live: after a fault it may stay until another client asks and the place no
//! longer counts as a waiter (`Promises::skipping_after`). A process that never runs again is left to deadlock freedom. A lock
//! with a minimum hold stays taken for that time. A token that ends with its lease in the last fiftieth of it may stay. If several
//! nodes are asked, a request that one of them executes more than a lease later does not count: its client has long treated the
//! answer as lost.

use super::{Checker, Finding, Property, Witness, seconds};
use crate::history::{Belief, Call, Excuse, Moment, Operation, Outcome, Reading, TokenSpan, What};
use crate::vocabulary::{Scope, Topology};
use std::time::Duration;

/// Judges P12.
pub struct Cancellation;

/// The most dials and requests, one after the other, that a client may need to undo a call on all servers.
const STEPS: u32 = 16;

/// A client that has to undo a call once more pauses for this part of a lease at most.
const PAUSES_PER_LEASE: u32 = 8;

/// A client's own deadline may come before the end of the lease by this part of it.
const LAST: u32 = 50;

struct Facts<'a>(&'a Reading<'a>);

/// Times by which nothing of a call may be left on a node.
struct Due {
    /// For a token of a holder.
    tokens: Duration,
    /// For a place in a queue after a fault: the next client that gets a place or the lock after this time removes it. `None` if
    /// the place has to be gone at the same time as a token.
    places: Option<Duration>,
}

impl Checker for Cancellation {
    fn property(&self) -> Property {
        Property::Cancellation
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        if !history.observed {
            return Finding::Unknown("the server was not observed");
        }
        let facts = Facts(history);
        let dropped = facts.0.operations().iter().filter(|it| was_dropped(it));
        let left = dropped.filter_map(|it| facts.left(it));
        left.min_by_key(|left| left.at)
            .map_or(Finding::Valid, Finding::Violation)
    }
}

/// Returns true if its caller left it to the lock to clean up.
fn was_dropped(it: &Operation) -> bool {
    match it.call {
        Call::Drop { .. } => it.outcome == Outcome::Ok,
        Call::Try { .. } | Call::Acquire { .. } | Call::Release { .. } => {
            it.outcome == Outcome::Cancelled
        }
        // A grant whose renewal is cancelled is still held.
        Call::Renew { .. }
        | Call::Access { .. }
        | Call::SetUp
        | Call::Admit
        | Call::AdmitAgain { .. }
        | Call::CountDown
        | Call::Await { .. } => false,
    }
}

/// The nodes that answer clients, and from when on: all of several nodes; of a master and its replicas the master, and a replica from
/// its promotion on.
fn masters<'a>(history: &'a Reading<'_>) -> impl Iterator<Item = (u8, Moment)> + 'a {
    let always = match history.topology {
        Topology::Nodes(nodes) => nodes,
        Topology::Replicated { .. } => 1,
    };
    let begins = Moment::at(Duration::ZERO);
    let promoted = history.iter().filter_map(|(at, what)| {
        let What::Promoted { node } = what else {
            return None;
        };
        Some((*node, at))
    });
    (0..always).map(move |node| (node, begins)).chain(promoted)
}

impl Facts<'_> {
    fn left(&self, it: &Operation) -> Option<Witness> {
        let left = masters(self.0).filter_map(|(node, since)| self.left_on(node, since, it));
        left.min_by_key(|left| left.at)
    }

    /// What the call left on a node that answers clients from a moment on.
    fn left_on(&self, node: u8, since: Moment, it: &Operation) -> Option<Witness> {
        let mut due = self.gone_by(node, it)?;
        due.tokens = due.tokens.max(self.late_level_ends(node, it, due.tokens));
        let end = self.0.entries.last()?.at;
        if end <= due.tokens || due.tokens < since.at {
            return None; // the history ends before
        }
        let by = Moment::at(due.tokens);
        let several = matches!(self.0.topology, Topology::Nodes(2..));
        let stands = |span: &&TokenSpan<'_>| {
            let belated = several && self.0.arrived_after_lease(span);
            span.node == node && span.stood(by) && !belated && !self.ends_with_lease(span, by)
        };
        let span = match it.call.gives_back() {
            Some(grant) => self.of_grant(it, grant, by).into_iter().find(stands),
            None => {
                let (tokens, queued) = (self.0.tokens(), self.0.queued());
                let put = tokens.put_by(it, self.0.operations(), by);
                let mut put = put.filter(|span| !self.is_held_again(span, it, by));
                let places = || {
                    let mut places = queued.put_by(it, self.0.operations(), by);
                    let Some(places_by) = due.places else {
                        return places.find(stands);
                    };
                    places.find(|span| {
                        let met = self.next_client(node, it.actor.host, places_by);
                        stands(span) && met.is_some_and(|at| span.stood(at))
                    })
                };
                put.find(stands).or_else(places)
            }
        };
        span.map(|span| Witness {
            at: by,
            until: Some(span.gone.0.at),
            grants: it.call.gives_back().into_iter().collect(),
            message: format!(
                "at {} {} {}; at {} the server still stores its token",
                seconds(it.ended.at),
                it.actor,
                if matches!(it.call, Call::Drop { .. }) {
                    "dropped its guard".to_owned()
                } else {
                    format!("cancelled its call of {}", seconds(it.asked.at))
                },
                seconds(by.at)
            ),
        })
    }

    /// True if nearly all of the token's lease is over, and the token ends with it: the client's own deadline has passed, and it leaves
    /// the rest to the server.
    fn ends_with_lease(&self, span: &TokenSpan<'_>, by: Moment) -> bool {
        let tolerance = self.0.terms.timing_tolerance();
        let soon = by.at + self.0.lease / LAST + tolerance;
        let ends = span.expiry(by).filter(|&ends| ends <= soon);
        self.0.accepts(Excuse::EndsWithLease)
            && ends.is_some_and(|ends| span.gone.0.at <= ends + tolerance)
    }

    /// When another client process first got a place in the queue of a node, or its lock, from a time on.
    fn next_client(&self, node: u8, host: u8, from: Duration) -> Option<Moment> {
        let all = self.0.tokens().spans.iter();
        let all = all.chain(&self.0.queued().spans);
        let others = all.filter(|span| {
            let other = span.owner.is_some_and(|owner| owner != host);
            span.node == node && other && from < span.from.at
        });
        others.map(|span| span.from).min()
    }

    /// When nothing of it may be left on a node.
    fn gone_by(&self, node: u8, it: &Operation) -> Option<Due> {
        let host = it.actor.host;
        let hold = self.0.terms.longest_hold();
        let since = it.asked.at.saturating_sub(self.0.recovery());
        // One of several may yet have a request under way that the others have answered.
        let several = matches!(self.0.topology, Topology::Nodes(2..));
        let at_least = it.ended.at + self.0.terms.round_trips(2 + u32::from(several));
        // What is made good by more requests than two takes as long as they do: to dial anew, to load a script again. Of
        // several servers one may be asked after the other.
        let asked = Some(node).filter(|_| !several);
        let patience = self.0.request_timeout();
        let steps = match self.0.accepts(Excuse::RequestsInARow) {
            true => STEPS,
            false => 0,
        };
        let busy = self.0.busy_until(host, asked, it.ended.at, patience, steps);
        let soon = at_least.max(busy + self.0.terms.timing_tolerance()) + hold;
        // A process that finds a connection broken tries again when it likes.
        let found_broken = self.0.is_broken(host, node, it.ended.at);
        if !found_broken && self.0.fault_intervals().heard_by(node, host, since, soon) {
            // If it has closed the connection of the call, the request may land after the one that is to undo it, and it tries again after
            // a pause.
            let again =
                if self.0.accepts(Excuse::ClosedConnection) && self.lands_when_closed(node, it) {
                    self.0.lease / PAUSES_PER_LEASE + self.0.terms.round_trips(2)
                } else {
                    Duration::ZERO
                };
            return Some(Due {
                tokens: soon + again,
                places: None,
            });
        }
        let well = self
            .0
            .fault_intervals()
            .last(host, since, soon + self.0.lease);
        let well = well.or_else(|| found_broken.then_some(soon))?;
        let last = soon.max(well);
        let spare = self.0.terms.round_trips(2) + hold;
        let counts_as_alive = self.0.lease.max(self.0.terms.skip);
        let places = last.saturating_add(counts_as_alive).saturating_add(spare);
        Some(Due {
            tokens: last.checked_add(self.0.lease + spare)?,
            places: self.0.accepts(Excuse::PlaceInQueue).then_some(places),
        })
    }

    /// True if a server executed a request of the call after the process had closed the connection.
    fn lands_when_closed(&self, node: u8, it: &Operation) -> bool {
        self.0.requests_of(it.actor.host).any(|request| {
            let session = self.0.session(request);
            let of_call = it.asked.at <= request.sent && request.sent <= it.ended.at;
            let landed = request.executed.zip(session.closed);
            let late = landed.is_some_and(|(executed, closed)| closed <= executed);
            of_call && late && request.replied.is_none() && self.0.leads_to(session, node)
        })
    }

    /// The tokens of a grant, unless the actor holds it by another grant as well, or again by then.
    fn of_grant(&self, it: &Operation, grant: u32, by: Moment) -> Vec<&TokenSpan<'_>> {
        let belief = self.0.beliefs().iter().find(|belief| belief.grant == grant);
        let Some(belief) = belief.filter(|belief| !self.is_shared(belief, it, by)) else {
            return Vec::new();
        };
        self.0
            .tokens()
            .surely_of_grant(belief, self.0.operations())
            .collect()
    }

    /// True if the owner of a reentrant lock acquired it again under the same token.
    fn is_held_again(&self, span: &TokenSpan<'_>, it: &Operation, by: Moment) -> bool {
        self.0.reentrant
            && self.0.accepts(Excuse::AcquiredAgain)
            && self.0.beliefs().iter().any(|other| {
                let theirs = other.actor.host == it.actor.host && other.grant != it.op;
                let mut names = self.0.tokens().of_grant(other);
                let held_until = other.to.at.saturating_add(self.0.terms.round_trips(1));
                theirs
                    && other.asked < by
                    && by.at < held_until
                    && names.any(|its| its.node == span.node && its.token == span.token)
            })
    }

    /// Until when the token of a reentrant lock may stand on a node because of a late level: a request of an earlier acquisition
    /// by its owner had no reply, and the node executed it when that call had ended. The level lasts for a lease. Returns zero
    /// if there is none that began by `due`.
    fn late_level_ends(&self, node: u8, it: &Operation, due: Duration) -> Duration {
        let named = &self.0.tokens().named;
        let grant = it.call.gives_back().and_then(|grant| named.get(&grant));
        let is_owners = grant.is_some_and(|token| token.scope == Scope::Owner);
        if !(self.0.reentrant && is_owners && self.0.accepts(Excuse::LateLevel)) {
            return Duration::ZERO;
        }
        let earlier = self.0.operations().iter().filter(|other| {
            other.actor == it.actor && other.call.acquires() && other.asked < it.asked
        });
        let landed = earlier.flat_map(|call| {
            self.0.requests_of(call.actor.host).filter_map(|request| {
                let of_call = call.asked.at <= request.sent && request.sent <= call.ended.at;
                let session = self.0.session(request);
                let here = self.0.leads_to(session, node) && request.replied.is_none();
                let at = request
                    .executed
                    .filter(|&at| call.ended.at < at && at <= due);
                at.filter(|_| of_call && here)
            })
        });
        let spare = self.0.lease + self.0.terms.round_trips(2);
        landed
            .max()
            .map_or(Duration::ZERO, |at| at.saturating_add(spare))
    }

    fn is_shared(&self, belief: &Belief, it: &Operation, by: Moment) -> bool {
        self.0.reentrant
            && self.0.beliefs().iter().any(|other| {
                let theirs = other.actor == belief.actor && other.grant != belief.grant;
                theirs && other.asked < by && it.asked < other.to
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::hand_made::*,
        history::CANCELLED,
        scenario::{Fault, Lost},
    };

    fn passes(entries: Vec<(u64, What)>) -> bool {
        let mut history = history(entries);
        // Two round trips take 4 s.
        history.terms.latency = s(1);
        history.push(s(100), What::Crash { host: 9 });
        Cancellation.check(&history) == Finding::Valid
    }

    fn cancelled(op: u32) -> What {
        What::Info {
            op,
            error: CANCELLED.to_owned(),
        }
    }

    #[test]
    fn a_replica_is_not_asked_before_its_promotion() {
        let left = |promoted: Option<u64>| {
            let mut entries = vec![
                (1, waits(1, 0, 9)),
                (2, stores_on(0, 0, "a", Some(30))),
                (2, stores_on(1, 0, "a", Some(30))),
                (3, cancelled(1)),
                (4, frees(0)),
            ];
            entries.extend(promoted.map(|at| (at, What::Promoted { node: 1 })));
            entries.push((100, What::Crash { host: 9 }));
            let mut history = history(entries);
            history.terms.latency = s(1);
            history.topology = Topology::Replicated { replicas: 1 };
            Cancellation.check(&history) != Finding::Valid
        };
        assert!(!left(None));
        assert!(!left(Some(50)));
        assert!(left(Some(5)), "it is the master");
    }

    #[test]
    fn an_owner_that_acquires_again_keeps_the_token_of_a_cancelled_call() {
        let left = |reentrant, released: Option<u64>| {
            let mut entries = vec![
                (1, waits(1, 0, 9)),
                (2, stores(0, "a", Some(40))),
                (3, cancelled(1)),
                (3, tries(2, 0)),
                (
                    4,
                    What::Ok {
                        op: 2,
                        deadline: Some(s(39)),
                        fence: None,
                        number: None,
                        token: Some(crate::history::Token::of_owner("a")),
                    },
                ),
            ];
            entries.extend(
                released
                    .into_iter()
                    .flat_map(|at| [(at, releases(5, 0, 2)), (at, done(5))]),
            );
            let mut history = history(entries);
            (history.terms.latency, history.reentrant) = (s(1), reentrant);
            history.push(s(100), What::Crash { host: 9 });
            Cancellation.check(&history) != Finding::Valid
        };
        assert!(!left(true, None));
        assert!(left(true, Some(4)), "it holds nothing any more");
        assert!(left(false, None));
    }

    /// The owner of a reentrant lock drops its guards; a request of an earlier call lands later, and its level stands.
    #[test]
    fn a_level_that_landed_late_may_stand_for_a_lease() {
        let stands_until = |end: u64| {
            let owned = |op| What::Ok {
                op,
                deadline: Some(s(90)),
                fence: None,
                number: None,
                token: Some(crate::history::Token::of_owner("a")),
            };
            let drops = What::Invoke {
                op: 3,
                actor: crate::history::Actor::on(0),
                call: Call::Drop { grant: 1 },
            };
            let mut history = history(vec![
                (0, tries(1, 0)),
                (1, stores(0, "a", Some(90))),
                (1, owned(1)),
                (4, drops),
                (4, done(3)),
                (6, stores(0, "a", Some(90))),
                (end, frees(0)),
                (100, What::Crash { host: 9 }),
            ]);
            (history.reentrant, history.terms.latency) = (true, s(1));
            history.dials(0, 0, 0, Some(0));
            history.asks(0, 0, Some(6), None);
            history.dials(0, 0, 1, None);
            history.asks(1, 1, Some(1), Some(1));
            Cancellation.check(&history) != Finding::Valid
        };
        assert!(!stands_until(19));
        assert!(stands_until(40), "more than a lease after it landed");
    }

    #[test]
    fn a_cancelled_acquisition_leaves_nothing() {
        let freed_at = |at| {
            passes(vec![
                (1, waits(1, 0, 9)),
                (2, stores(0, "a", Some(12))),
                (3, cancelled(1)),
                (at, frees(0)),
            ])
        };
        assert!(freed_at(7));
        assert!(!freed_at(8));
    }

    /// Seed 5948 of `fenced-redlock`: its number was still on the way to the slowest node.
    #[test]
    fn of_several_nodes_one_may_have_a_request_more_under_way() {
        let freed_at = |at, nodes| {
            let mut history = history(vec![
                (1, waits(1, 0, 9)),
                (2, stores(0, "a", Some(12))),
                (3, cancelled(1)),
                (at, frees(0)),
                (50, What::Crash { host: 9 }),
            ]);
            (history.terms.latency, history.topology) = (s(1), Topology::Nodes(nodes));
            Cancellation.check(&history) == Finding::Valid
        };
        assert!(!freed_at(9, 1));
        assert!(freed_at(9, 3));
        assert!(!freed_at(10, 3));
    }

    /// Seed 18590 of `fenced-redlock` under `node-pause`: a try that was given up, carried out after 37 s.
    #[test]
    fn a_request_that_one_of_several_nodes_executes_a_lease_later_is_no_leftover() {
        let dropped = |silent_until, nodes| {
            let (fault, call) = (Fault::NodePause { node: 0 }, Call::Drop { grant: 1 });
            let actor = crate::history::Actor::on(0);
            let mut history = history(vec![
                (1, waits(1, 0, 60)),
                (2, What::Strikes { fault }),
                (silent_until, What::Heals { fault }),
                (silent_until, stores(0, "a", Some(silent_until + 12))),
                (17, granted(1, Some(28))),
                (20, What::Invoke { op: 2, actor, call }),
                (20, done(2)),
                (50, What::Crash { host: 9 }),
            ]);
            history.terms.latency = Duration::from_millis(100);
            (history.lease, history.topology) = (s(12), Topology::Nodes(nodes));
            Cancellation.check(&history) == Finding::Valid
        };
        assert!(dropped(14, 3));
        assert!(!dropped(13, 3), "that is within a lease");
        assert!(!dropped(14, 1));
    }

    #[test]
    fn a_token_of_another_task_or_a_later_call_is_no_leftover() {
        assert!(passes(vec![
            (1, waits(1, 0, 9)),
            (3, cancelled(1)),
            (3, tries(2, 0)),
            (4, stores(0, "a", Some(14))),
            (5, granted(2, Some(13))),
        ]));
    }

    #[test]
    fn a_place_in_a_queue_is_given_up_as_well() {
        let queue = |waiting: &[&str]| What::Queue {
            node: 0,
            cause: crate::history::Cause::Client(0),
            waiting: waiting
                .iter()
                .map(|token| token.as_bytes().to_vec())
                .collect(),
        };
        let left_at = |at| {
            passes(vec![
                (1, waits(1, 0, 9)),
                (2, queue(&["a"])),
                (3, cancelled(1)),
                (at, queue(&[])),
            ])
        };
        assert!(left_at(7));
        assert!(!left_at(9));
    }

    fn given_back(how: Call, ends: What, freed_at: u64, cut: bool) -> bool {
        let invoke = What::Invoke {
            op: 2,
            actor: crate::history::Actor::on(0),
            call: how,
        };
        let mut entries = vec![
            (1, tries(1, 0)),
            (1, stores(0, "a", Some(40))),
            (2, granted(1, Some(11))),
            (5, invoke),
            (5, ends),
        ];
        if cut {
            let (node, lost) = (0, Lost::Request);
            entries.push((
                5,
                What::Cut {
                    host: 0,
                    node,
                    lost,
                },
            ));
        }
        entries.push((freed_at, frees(0)));
        passes(entries)
    }

    #[test]
    fn a_dropped_guard_and_a_cancelled_release_free_the_lock() {
        let (release, dropped) = (Call::Release { grant: 1 }, Call::Drop { grant: 1 });
        assert!(given_back(release, cancelled(2), 9, false));
        assert!(!given_back(release, cancelled(2), 10, false));
        assert!(given_back(dropped, done(2), 9, false));
        assert!(!given_back(dropped, done(2), 10, false));
        // A call that was not cancelled returns its result.
        assert!(given_back(release, done(2), 10, false));
    }

    #[test]
    fn a_cleanup_takes_as_long_as_its_consecutive_requests() {
        let freed_at = |at, asked: &[(u64, u64)]| {
            let call = Call::Drop { grant: 1 };
            let actor = crate::history::Actor::on(0);
            let mut history = history(vec![
                (1, tries(1, 0)),
                (1, stores(0, "a", Some(90))),
                (2, granted(1, Some(61))),
                (50, What::Invoke { op: 2, actor, call }),
                (50, done(2)),
                (at, frees(0)),
                (100, What::Crash { host: 9 }),
            ]);
            history.lease = s(90);
            // Two round trips take 4 s.
            history.terms.latency = s(1);
            history.dials(0, 0, 1, None);
            for &(sent, replied) in asked {
                history.asks(0, sent, Some(sent), Some(replied));
            }
            Cancellation.check(&history) == Finding::Valid
        };
        let reconnects = [(50, 52), (52, 54), (54, 56)];
        assert!(freed_at(54, &[]));
        assert!(!freed_at(56, &[]));
        assert!(freed_at(56, &reconnects));
        assert!(!freed_at(58, &reconnects));
        // It waits for a second before it cleans up.
        assert!(!freed_at(56, &[(51, 52)]));
        assert!(!freed_at(56, &[(51, 52), (53, 56)]));
    }

    #[test]
    fn a_lock_with_a_minimum_hold_is_free_after_that_hold() {
        let freed_at = |at| {
            let call = Call::Drop { grant: 1 };
            let actor = crate::history::Actor::on(0);
            let mut history = history(vec![
                (1, tries(1, 0)),
                (1, stores(0, "a", Some(40))),
                (2, granted(1, Some(11))),
                (5, What::Invoke { op: 2, actor, call }),
                (5, done(2)),
                (at, frees(0)),
                (100, What::Crash { host: 9 }),
            ]);
            history.terms.hold = s(6);
            Cancellation.check(&history) == Finding::Valid
        };
        assert!(freed_at(11));
        assert!(!freed_at(12));
    }

    #[test]
    fn a_place_of_a_late_request_is_removed_by_the_next_client() {
        let queue = |host, waiting: &[&str]| What::Queue {
            node: 0,
            cause: crate::history::Cause::Client(host),
            waiting: waiting
                .iter()
                .map(|token| token.as_bytes().to_vec())
                .collect(),
        };
        // The lease is 10 s, and two round trips take 4 s.
        let meets = |at, then: &[&str]| {
            let (node, lost) = (0, Lost::Reply);
            let mut history = history(vec![
                (1, waits(1, 0, 9)),
                (
                    2,
                    What::Cut {
                        host: 0,
                        node,
                        lost,
                    },
                ),
                (3, cancelled(1)),
                (4, queue(0, &["a"])),
                (at, waits(2, 1, 9)),
                (at, queue(1, then)),
                (100, What::Crash { host: 9 }),
            ]);
            history.terms.latency = s(1);
            (history.lease, history.terms.skip) = (s(10), s(30));
            Cancellation.check(&history) == Finding::Valid
        };
        assert!(meets(41, &["a", "b"]), "it still counts as a waiter");
        assert!(!meets(42, &["a", "b"]));
        assert!(meets(42, &["b"]));
    }

    /// Seed 20 of a lock that closes the connection of a call that is dropped: its DEL on a new one overtakes the SET.
    #[test]
    fn a_client_may_pause_before_it_undoes_what_landed_on_a_connection_that_it_closed() {
        let freed_at = |at, closed: Option<u64>| {
            let mut history = history(vec![
                (1, waits(1, 0, 9)),
                (3, cancelled(1)),
                (4, stores(0, "a", Some(40))),
                (at, frees(0)),
                (100, What::Crash { host: 9 }),
            ]);
            (history.terms.latency, history.lease) = (s(1), s(40));
            history.dials(0, 0, 0, None);
            history.sessions[0].closed = closed.map(s);
            history.asks(0, 2, Some(4), None);
            Cancellation.check(&history) == Finding::Valid
        };
        // Two round trips take 4 s.
        assert!(freed_at(16, Some(3)));
        assert!(!freed_at(20, Some(3)), "it pauses for too long");
        assert!(!freed_at(16, Some(5)), "the server had executed it");
        assert!(!freed_at(16, None));
    }

    #[test]
    fn a_client_whose_connection_broke_has_a_lease_to_clean_up() {
        let dropped = Call::Drop { grant: 1 };
        assert!(given_back(dropped, done(2), 20, true));
        assert!(!given_back(dropped, done(2), 30, true));
    }
}
