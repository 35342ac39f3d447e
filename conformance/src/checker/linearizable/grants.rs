//! Model of everything that clients can hold: a mutex, a read-write lock, a semaphore; with re-entry and fencing
//! tokens.
//!
//! The operations are those that a holder knows to have happened: an acquisition, a renewal, a release. An acquisition
//! that failed has no effect. An acquisition with an unknown outcome can only keep other clients out until its grant is
//! gone, so an order that leaves it out explains as much.
//!
//! What ends by itself is a step of the system: from some moment on a grant may be gone. This moment is the end of its
//! lease, or an act by which the holder let go of it without learning the outcome, or by which its process removed it after its
//! own deadline. A grant that is gone hinders no client. So the model drops it as soon as it may be gone, unless a later operation
//! needs it.

use super::search::{Model, Span};
use crate::{
    checker::exclusion::get_along,
    history::{Actor, Belief, Call, Cause, End, Excuse, Kind, Mode, Moment, OpId, Reading, What},
    scenario::nemesis::DRIFT_PPM_MAX,
};
use std::{collections::BTreeMap, time::Duration};

/// A history as operations on an object that clients can hold.
pub(super) struct Grants {
    kind: Kind,
    reentrant: bool,
    grants: Vec<Grant>,
    /// Operations, sorted by start.
    ops: Vec<Op>,
}

/// A grant, as its holder knows it.
pub(super) struct Grant {
    pub(super) id: OpId,
    pub(super) actor: Actor,
    mode: Mode,
    fence: Option<u64>,
    /// Moment from which the grant may be gone by itself.
    gone: Moment,
    /// Number of operations of its holder that need the grant.
    needed: u32,
}

/// An operation that happened.
pub(super) struct Op {
    pub(super) span: Span,
    pub(super) grant: usize,
    pub(super) deed: Deed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Takes,
    Extends,
    GivesBack,
}

/// Grants that are held, and fencing tokens that were issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) held: Vec<Held>,
    /// Highest fencing token, with its owner.
    mark: Option<(u64, Actor)>,
    /// Highest fencing token of a grant that was not shared: tokens of readers are in no order among themselves.
    alone: Option<u64>,
    /// True if a grant of the owner of `mark` is gone without a release.
    lapsed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) grant: usize,
    /// Number of later operations that need the grant.
    needed: u32,
}

impl Grants {
    pub(super) fn of(history: &Reading<'_>) -> Self {
        // If a server loses the last fencing token, the next ones may be lower. P3 judges which locks have to survive that.
        let forgot = history
            .iter()
            .any(|(_, what)| matches!(what, What::Strikes { fault } if fault.loses_data()));
        let ends = history.ends();
        let calls = history.calls();
        let mut index: BTreeMap<OpId, usize> = BTreeMap::new();
        let (mut grants, mut ops) = (Vec::new(), Vec::new());
        let mut cleared: BTreeMap<OpId, Moment> = BTreeMap::new();
        for belief in history.beliefs() {
            index.insert(belief.grant, grants.len());
            cleared.extend(cleared_away(history, belief).map(|gone| (belief.grant, gone)));
            let to = ends.get(&belief.grant).map(|&(at, _)| at);
            ops.push(Op {
                span: Span {
                    from: belief.asked,
                    to,
                },
                grant: grants.len(),
                deed: Deed::Takes,
            });
            grants.push(Grant {
                id: belief.grant,
                actor: belief.actor,
                mode: belief.mode,
                fence: belief.fence.filter(|_| !forgot),
                gone: Moment::NEVER,
                needed: 0,
            });
        }
        for (op, &(from, _, call)) in calls {
            let (grant, deed) = match call {
                Call::Renew { grant } => (grant, Deed::Extends),
                Call::Release { grant } => (grant, Deed::GivesBack),
                Call::Try { .. }
                | Call::Acquire { .. }
                | Call::Drop { .. }
                | Call::Access { .. }
                | Call::SetUp
                | Call::Admit
                | Call::AdmitAgain { .. }
                | Call::CountDown
                | Call::Await { .. } => continue,
            };
            if let (Some(&(to, What::Ok { .. })), Some(&grant)) = (ends.get(op), index.get(&grant))
            {
                grants[grant].needed += 1;
                let to = Some(to);
                ops.push(Op {
                    span: Span { from, to },
                    grant,
                    deed,
                });
            }
        }
        for (grant, gone) in ends_of_leases(history, calls) {
            if let Some(&at) = index.get(&grant) {
                let cleared = cleared.get(&grant).copied();
                grants[at].gone = cleared.map_or(gone, |cleared| cleared.min(gone));
            }
        }
        ops.sort_by_key(|op| op.span.from);
        Self {
            kind: history.kind,
            reentrant: history.reentrant,
            grants,
            ops,
        }
    }

    pub(super) fn spans(&self) -> Vec<Span> {
        self.ops.iter().map(|op| op.span).collect()
    }

    pub(super) fn op(&self, op: usize) -> (&Op, &Grant) {
        let op = &self.ops[op];
        (op, &self.grants[op.grant])
    }

    /// Returns the grants of which a client knows at a moment that they are not over.
    pub(super) fn holding<'a>(
        &'a self,
        state: &'a State,
        at: Moment,
    ) -> impl Iterator<Item = &'a Grant> {
        let stays = move |held: &&Held| held.needed > 0 || at <= self.grant(**held).gone;
        state
            .held
            .iter()
            .filter(stays)
            .map(|&held| self.grant(held))
    }

    pub(super) fn grant(&self, held: Held) -> &Grant {
        &self.grants[held.grant]
    }

    fn take(&self, state: &State, taken: usize, by: Moment) -> Option<State> {
        let mut state = state.clone();
        let new = &self.grants[taken];
        state.held.retain(|held| {
            let grant = self.grant(*held);
            let stays = held.needed > 0 || by <= grant.gone;
            state.lapsed |= !stays && state.mark.is_some_and(|(_, of)| of == grant.actor);
            stays
        });
        if !self.admits(&state, new) {
            return None;
        }
        if let Some(fence) = new.fence {
            if !self.rises(&state, new, fence) {
                return None;
            }
            if state.mark.is_none_or(|(mark, _)| mark < fence) {
                (state.mark, state.lapsed) = (Some((fence, new.actor)), false);
            }
            if new.mode != Mode::Shared {
                state.alone = state.alone.max(Some(fence));
            }
        }
        state.held.push(Held {
            grant: taken,
            needed: new.needed,
        });
        Some(state)
    }

    /// True if the current holders leave room for one more grant.
    fn admits(&self, state: &State, new: &Grant) -> bool {
        let mut held = state.held.iter().map(|&held| self.grant(held));
        match (self.kind, new.mode) {
            (Kind::Semaphore(permits), Mode::Permits(count)) => {
                let out: u64 = held.map(|grant| u64::from(grant.mode.permits())).sum();
                out + u64::from(count) <= u64::from(permits)
            }
            _ => held.all(|grant| {
                get_along(grant.mode, new.mode) || (self.reentrant && grant.actor == new.actor)
            }),
        }
    }

    /// True if the fencing token may follow those that were issued.
    fn rises(&self, state: &State, new: &Grant, fence: u64) -> bool {
        let mine = state.held.iter().map(|&held| self.grant(held));
        let mut mine = mine.filter(|grant| self.reentrant && grant.actor == new.actor);
        if let Some(outer) = mine.find_map(|grant| grant.fence) {
            return outer == fence;
        }
        if new.mode == Mode::Shared {
            return state.alone.is_none_or(|alone| alone < fence);
        }
        state.mark.is_none_or(|(mark, of)| {
            let again = self.reentrant && state.lapsed && of == new.actor;
            mark < fence || (again && mark == fence)
        })
    }
}

impl Model for Grants {
    type State = State;

    fn start(&self) -> State {
        State {
            held: Vec::new(),
            mark: None,
            alone: None,
            lapsed: false,
        }
    }

    fn step(&self, state: &State, op: usize, by: Moment) -> Option<State> {
        let Op { grant, deed, .. } = self.ops[op];
        if deed == Deed::Takes {
            return self.take(state, grant, by);
        }
        let mut state = state.clone();
        let at = state.held.iter().position(|held| held.grant == grant)?;
        if deed == Deed::GivesBack {
            state.held.remove(at);
        } else {
            state.held[at].needed -= 1;
        }
        Some(state)
    }
}

impl Grant {
    pub(super) const fn fence(&self) -> Option<u64> {
        self.fence
    }
}

/// Returns when the process of a holder removed what the servers still stored of a grant whose own deadline had passed. The process
/// needs no release for this, since the holder no longer relies on the grant.
fn cleared_away(history: &Reading<'_>, belief: &Belief) -> Option<Moment> {
    if belief.end != End::Deadline || !history.accepts(Excuse::ClearedAway) {
        return None;
    }
    let spans = history.tokens().of_grant(belief);
    let left: Vec<_> = spans.filter(|span| span.stood(belief.to)).collect();
    let own = Cause::Client(belief.actor.host);
    let cleared = left.iter().any(|span| span.gone.1 == own);
    let gone = left.iter().map(|span| span.gone.0).max();
    gone.filter(|_| cleared)
}

/// Returns the moment from which each grant may be gone.
///
/// A lease begins when the server grants or extends it: after the client asked, and early enough for the holder's
/// deadline.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "most of what happens is no matter here"
)]
fn ends_of_leases(
    history: &Reading<'_>,
    calls: &BTreeMap<OpId, (Moment, Actor, Call)>,
) -> BTreeMap<OpId, Moment> {
    let lasts = history.shortest_lease()
        - history
            .shortest_lease()
            .mul_f64(2e-6 * DRIFT_PPM_MAX as f64);
    let mut asked: BTreeMap<OpId, Moment> = calls.iter().map(|(&op, call)| (op, call.0)).collect();
    let mut leases: BTreeMap<OpId, Duration> = BTreeMap::new();
    // Calls by which a holder let go of its grant.
    let mut lets_go: BTreeMap<OpId, (Moment, OpId)> = BTreeMap::new();
    let mut lost: BTreeMap<OpId, Moment> = BTreeMap::new();
    // Grants that are held, with their holders.
    let mut held: BTreeMap<OpId, Actor> = BTreeMap::new();
    for (at, what) in history.iter() {
        match *what {
            What::Invoke { op, call, .. } => {
                if let Some(grant) = call.gives_back() {
                    held.remove(&grant);
                    lets_go.entry(grant).or_insert((at, op));
                }
            }
            What::Attempt { op } => {
                asked.insert(op, at);
            }
            What::Ok { op, deadline, .. } => match calls.get(&op) {
                // The renewal may have extended the grant by less than a lease: a subject with deadlines names the new
                // one.
                Some(&(.., Call::Renew { grant })) => {
                    let until = deadline.map_or(asked[&op].at + lasts, |_| Duration::ZERO);
                    lengthen(&mut leases, grant, until, deadline)
                }
                Some(&(_, actor, call)) if call.acquires() => {
                    // An owner that enters again need not extend its lease: a subject with deadlines names the rest of it.
                    let again = history.reentrant
                        && (held.values().any(|it| *it == actor)
                            || history.accepts(Excuse::OwnTokenFound)
                                && finds_own_token(history, op, asked[&op]));
                    let until = match (again, deadline) {
                        (true, Some(_)) => Duration::ZERO,
                        (true, None) | (false, _) => asked[&op].at + lasts,
                    };
                    held.insert(op, actor);
                    lengthen(&mut leases, op, until, deadline)
                }
                Some(&(.., Call::Release { grant })) => {
                    lets_go.remove(&grant);
                }
                _ => {}
            },
            What::Deadline { grant, deadline } => {
                lengthen(&mut leases, grant, Duration::ZERO, deadline)
            }
            What::Lost { grant } => {
                lost.entry(grant).or_insert(at);
            }
            _ => {}
        }
    }
    let ends = leases.into_iter().map(|(grant, until)| {
        let earlier = [
            lost.get(&grant).copied(),
            lets_go.get(&grant).map(|&(at, _)| at),
        ];
        let gone = earlier
            .into_iter()
            .flatten()
            .fold(Moment::at(until), Moment::min);
        (grant, gone)
    });
    ends.collect()
}

/// Returns true if the servers stored the token of a grant when its call began: for a guard that was dropped and is not undone yet, or
/// for an earlier call of the owner that had no answer. Of a token that the subject does not name, only the process is known.
fn finds_own_token(history: &Reading<'_>, grant: OpId, asked: Moment) -> bool {
    let belief = history.beliefs().iter().find(|it| it.grant == grant);
    belief.is_some_and(|belief| {
        let tokens = history.tokens();
        let named = tokens.named.get(&grant);
        tokens.spans.iter().any(|span| {
            let theirs = match named {
                Some(token) => span.token == token.bytes,
                None => span.owner == Some(belief.actor.host),
            };
            theirs && span.stood(asked)
        })
    })
}

fn lengthen(
    leases: &mut BTreeMap<OpId, Duration>,
    grant: OpId,
    until: Duration,
    deadline: Option<Duration>,
) {
    let lease = leases.entry(grant).or_default();
    *lease = (*lease).max(until).max(deadline.unwrap_or_default());
}
