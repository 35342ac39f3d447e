//! The model of what is counted: the first N that are let in, and a latch of N counts.
//!
//! Both take N operations. Each of them that its caller knows of took effect; of those whose caller
//! does not know any may have, at any time. Whoever was told that the places are taken, or that the
//! latch is at 0, has seen all N. Calls under one name count once. What has to be set up is nothing
//! before that, and it is set up once.

use super::search::{Model, Span};
use crate::history::{Actor, Call, History, Kind, Moment, OpId, Refusal, What};
use std::collections::BTreeMap;

/// A history as operations on a counter.
pub(super) struct Counter {
    size: u32,
    is_latch: bool,
    /// Whether it is there without anybody setting it up.
    there: bool,
    /// From when on it may be set up by somebody who does not know.
    perhaps: Moment,
    /// By start.
    ops: Vec<Op>,
}

pub(super) struct Op {
    pub(super) span: Span,
    pub(super) actor: Actor,
    pub(super) deed: Deed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// It counts, as this one if its caller was told.
    Counts(Option<u32>),
    SeesTheEnd,
    SetsUp,
    /// It sees that another has set it up.
    FindsSetUp,
    /// It sees that nobody has.
    FindsNothing,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    is_set_up: bool,
    /// How many have counted.
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

    /// Notes that somebody asked to be let in: once for each name, from the first call on whose outcome is not known until
    /// the first that tells.
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

/// What the caller of an operation was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// It happened, perhaps with a number.
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
            // From a stock that is not filled nothing can be taken.
            Deed::SeesTheEnd => (!self.is_latch && !state.is_set_up).then_some(state),
            Deed::SetsUp => (!state.is_set_up).then_some(set_up),
            Deed::FindsSetUp => is_set_up.then_some(set_up),
            Deed::FindsNothing => (!state.is_set_up).then_some(state),
        }
    }
}
