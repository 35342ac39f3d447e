//! Model of counters: an admission counter that admits the first N, and a latch of N counts.
//!
//! Both take N operations. Each operation that its caller knows to have happened took effect. An operation with an
//! unknown outcome may take effect at any time. A caller that learned that all places are taken, or that the latch is
//! at 0, has seen all N. Calls under one name count once. If a counter must be set up, it does not exist before, and it
//! is set up once.

use super::search::{Model, Span};
use crate::history::{Actor, Call, History, Kind, Moment, OpId, Refusal, What};
use std::collections::BTreeMap;

/// A history as operations on a counter.
pub(super) struct Counter {
    size: u32,
    is_latch: bool,
    /// True if the counter exists without a set-up.
    there: bool,
    /// Moment from which the counter may be set up by a call with an unknown outcome.
    perhaps: Moment,
    /// Operations, sorted by start.
    ops: Vec<Op>,
}

pub(super) struct Op {
    pub(super) span: Span,
    pub(super) actor: Actor,
    pub(super) deed: Deed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// The operation counts. `Some`: its caller learned this place.
    Counts(Option<u32>),
    SeesTheEnd,
    SetsUp,
    /// The operation finds that another call has set the counter up.
    FindsSetUp,
    /// The operation finds that no call has set the counter up.
    FindsNothing,
}

/// State of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    is_set_up: bool,
    /// Number of operations that have counted.
    pub(super) counted: u32,
}

impl Counter {
    pub(super) fn of(history: &History, size: u32) -> Self {
        let ends = history.ends();
        let mut counter = Self {
            size,
            is_latch: matches!(history.kind, Kind::Latch(_)),
            there: !history.terms.set_up,
            perhaps: Moment::NEVER,
            ops: Vec::new(),
        };
        let mut names = BTreeMap::new();
        for (op, (from, actor, call)) in history.calls() {
            let end = ends.get(&op);
            let to = end.map(|&(at, _)| at);
            let told = Told::of(end.map(|&(_, what)| what));
            let deed = match (call, told) {
                (Call::SetUp, Told::Yes(_)) => Deed::SetsUp,
                (Call::SetUp, Told::No(Refusal::Contended)) => Deed::FindsSetUp,
                (Call::SetUp, Told::Nothing) => {
                    counter.perhaps = counter.perhaps.min(from);
                    continue;
                }
                (Call::CountDown, Told::No(Refusal::Lost)) => Deed::FindsNothing,
                (
                    Call::Admit | Call::AdmitAgain { .. } | Call::CountDown,
                    Told::No(Refusal::Contended),
                )
                | (Call::Await { .. }, Told::Yes(_)) => Deed::SeesTheEnd,
                (Call::CountDown, Told::Yes(number)) => Deed::Counts(number),
                (Call::CountDown, Told::Nothing) => Deed::Counts(None),
                (Call::Admit, told) => {
                    counter.admits(&mut names, op, (from, to), actor, told);
                    continue;
                }
                (Call::AdmitAgain { of }, told) => {
                    counter.admits(&mut names, of, (from, to), actor, told);
                    continue;
                }
                _ => continue,
            };
            let to = to.filter(|_| told != Told::Nothing);
            let span = Span { from, to };
            counter.ops.push(Op { span, actor, deed });
        }
        counter.ops.sort_by_key(|op| op.span.from);
        counter
    }

    /// Records a call that asked for admission. Each name is one operation: from its first call that was not refused
    /// until the first call that reports its admission.
    fn admits(
        &mut self,
        names: &mut BTreeMap<OpId, usize>,
        name: OpId,
        (from, to): (Moment, Option<Moment>),
        actor: Actor,
        told: Told,
    ) {
        let (to, number) = match told {
            Told::Yes(number) => (to, number),
            Told::Nothing => (None, None),
            Told::No(_) => return,
        };
        let known = *names.entry(name).or_insert_with(|| {
            let (span, deed) = (Span { from, to: None }, Deed::Counts(None));
            self.ops.push(Op { span, actor, deed });
            self.ops.len() - 1
        });
        let first = &mut self.ops[known];
        if first.span.to.is_none() {
            (first.span.to, first.deed) = (to, Deed::Counts(number));
        }
    }

    pub(super) fn spans(&self) -> Vec<Span> {
        self.ops.iter().map(|op| op.span).collect()
    }

    pub(super) fn op(&self, op: usize) -> &Op {
        &self.ops[op]
    }
}

/// Answer that the caller of an operation got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// The operation happened, perhaps with a place.
    Yes(Option<u32>),
    No(Refusal),
    Nothing,
}

impl Told {
    const fn of(end: Option<&What>) -> Self {
        match end {
            Some(&What::Ok { number, .. }) => Self::Yes(number),
            Some(&What::Fail { why, .. }) => Self::No(why),
            _ => Self::Nothing,
        }
    }
}

impl Model for Counter {
    type State = State;

    fn start(&self) -> State {
        State {
            is_set_up: self.there,
            counted: 0,
        }
    }

    fn step(&self, &state: &State, op: usize, by: Moment) -> Option<State> {
        let is_set_up = state.is_set_up || self.perhaps < by;
        let (counted, set_up) = (
            state.counted,
            State {
                is_set_up: true,
                ..state
            },
        );
        match self.ops[op].deed {
            Deed::Counts(number) => {
                let next = counted + 1;
                let fits = is_set_up && next <= self.size && number.is_none_or(|it| it == next);
                fits.then_some(State {
                    counted: next,
                    ..set_up
                })
            }
            Deed::SeesTheEnd if is_set_up && counted == self.size => Some(set_up),
            // A call can take nothing from a stock that is not filled.
            Deed::SeesTheEnd => (!self.is_latch && !state.is_set_up).then_some(state),
            Deed::SetsUp => (!state.is_set_up).then_some(set_up),
            Deed::FindsSetUp => is_set_up.then_some(set_up),
            Deed::FindsNothing => (!state.is_set_up).then_some(state),
        }
    }
}
