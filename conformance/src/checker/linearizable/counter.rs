//! The model of what is counted: the first N that are let in, and a latch of N counts.
//!
//! Both take N operations. Each of them that its caller knows of took effect; of those whose caller
//! does not know any may have, at any time. Whoever was told that the places are taken, or that the
//! latch is at 0, has seen all N.

use super::search::{Model, Span};
use crate::history::Moment;
use crate::history::{Actor, Call, History, Refusal, What};

/// A history as operations on a counter.
pub(super) struct Counter {
    size: u32,
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
    Counts,
    SeesTheEnd,
}

impl Counter {
    pub(super) fn of(history: &History, size: u32) -> Self {
        let ends = history.ends();
        let calls = history.calls().into_iter();
        let ops = calls.filter_map(|(op, (from, actor, call))| {
            let end = ends.get(&op);
            let (deed, to) = match (call, end) {
                (Call::Admit | Call::CountDown, Some(&(at, What::Ok { .. }))) => {
                    (Deed::Counts, Some(at))
                }
                (
                    Call::Admit | Call::CountDown,
                    Some(&(
                        at,
                        What::Fail {
                            why: Refusal::Contended,
                            ..
                        },
                    )),
                )
                | (Call::Await { .. }, Some(&(at, What::Ok { .. }))) => {
                    (Deed::SeesTheEnd, Some(at))
                }
                (Call::Admit | Call::CountDown, None | Some((_, What::Info { .. }))) => {
                    (Deed::Counts, None)
                }
                _ => return None,
            };
            let span = Span { from, to };
            Some(Op { span, actor, deed })
        });
        let mut ops: Vec<Op> = ops.collect();
        ops.sort_by_key(|op| op.span.from);
        Self { size, ops }
    }

    pub(super) fn spans(&self) -> Vec<Span> {
        self.ops.iter().map(|op| op.span).collect()
    }

    pub(super) fn op(&self, op: usize) -> &Op {
        &self.ops[op]
    }
}

impl Model for Counter {
    /// How many have counted.
    type State = u32;

    fn start(&self) -> u32 {
        0
    }

    fn step(&self, &counted: &u32, op: usize, _: Moment) -> Option<u32> {
        match self.ops[op].deed {
            Deed::Counts => (counted < self.size).then_some(counted + 1),
            Deed::SeesTheEnd => (counted == self.size).then_some(counted),
        }
    }
}
