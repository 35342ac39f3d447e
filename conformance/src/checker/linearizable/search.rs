//! Search for an order of operations that explains them all: the algorithm of Wing and Gong, with Lowe's memory of sets
//! that were tried. It knows nothing about locks.
//!
//! Every operation took effect at one moment between its start and its end. The search takes operations one after the
//! other. It may take an operation that began before the end of every operation that is not taken yet. If a set of
//! operations led nowhere once, the search does not try it again in another order. This requires that the state after a
//! set does not depend on the order in which the search took it.

use crate::history::Moment;
use std::collections::HashSet;

/// Span in which an operation can have taken effect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from: Moment,
    /// End of the operation. `None` if the operation may not have happened at all; all such operations must be alike.
    pub(super) to: Option<Moment>,
}

/// What operations do to the object, and when they may take effect.
pub(super) trait Model {
    /// The object.
    type State: Clone;

    /// The object before all operations.
    fn start(&self) -> Self::State;

    /// State of the object after one more operation; `None` if the operation cannot take effect there. `by` is the
    /// latest moment at which it can take effect.
    fn step(&self, state: &Self::State, op: usize, by: Moment) -> Option<Self::State>;
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome<S> {
    /// An order explains all operations.
    Explained,
    /// No order explains them. The search reached this state at best, and then nothing explains this operation.
    Stuck { state: S, op: usize },
    /// The search took too many steps.
    GivenUp,
}

/// Searches for an order of the operations. `spans` must be sorted by start.
pub(super) fn search<M: Model>(model: &M, spans: &[Span], steps_max: u32) -> Outcome<M::State> {
    debug_assert!(spans.is_sorted_by_key(|span| span.from));
    let mut taken = Taken::new(spans.len());
    let certain = spans.iter().filter(|span| span.to.is_some()).count();
    let mut led_nowhere = HashSet::new();
    let mut steps = 0;
    let mut path = vec![Frame::at(model.start(), &taken, spans)];
    // Frame with the most certain operations, the earliest one if there are several. A frame is compared when the
    // search leaves it.
    let mut farthest: Option<(usize, Frame<M::State>)> = None;
    while let Some(frame) = path.last_mut() {
        if taken.certain == certain {
            return Outcome::Explained;
        }
        let Some(op) = frame.choices.pop() else {
            led_nowhere.insert(taken.key());
            let Some(left) = path.pop() else { break };
            let (reached, came_by) = (taken.certain, left.came_by);
            if let Some(op) = came_by {
                taken.give_back(op, spans);
            }
            let is_nearer = |(most, first): &(usize, Frame<M::State>)| {
                *most < reached || *most == reached && left.step < first.step
            };
            if farthest.as_ref().is_none_or(is_nearer) {
                farthest = Some((reached, left));
            }
            continue;
        };
        steps += 1;
        if steps > steps_max {
            return Outcome::GivenUp;
        }
        let Some(state) = model.step(&frame.state, op, frame.by) else {
            continue;
        };
        taken.take(op, spans);
        // Most searches never turn back, and remember no set.
        if led_nowhere.is_empty() || !led_nowhere.contains(&taken.key()) {
            let mut next = Frame::at(state, &taken, spans);
            (next.came_by, next.step) = (Some(op), steps);
            path.push(next);
        } else {
            taken.give_back(op, spans);
        }
    }
    let stuck = farthest.and_then(
        |(
            _,
            Frame {
                state, next_end, ..
            },
        )| {
            let op = next_end?;
            Some(Outcome::Stuck { state, op })
        },
    );
    stuck.unwrap_or(Outcome::Explained)
}

/// A point of the search.
struct Frame<S> {
    state: S,
    /// Operation that led to this frame.
    came_by: Option<usize>,
    /// Step that led to this frame.
    step: u32,
    /// Operation that ends first among those that are not taken yet.
    next_end: Option<usize>,
    /// Operations that the search can take next, the best one last.
    choices: Vec<usize>,
    /// First end among the operations that are not taken yet.
    by: Moment,
}

impl<S> Frame<S> {
    fn at(state: S, taken: &Taken, spans: &[Span]) -> Self {
        let (mut choices, mut by) = (Vec::new(), Moment::NEVER);
        let mut perhaps = None;
        for (op, span) in spans.iter().enumerate().skip(taken.first()) {
            if span.from >= by {
                break;
            }
            if taken.has(op) {
                continue;
            }
            if let Some(to) = span.to {
                choices.push(op);
                by = by.min(to);
            } else {
                perhaps = perhaps.or(Some(op)); // all operations without an end are alike
            }
        }
        choices.sort_by_key(|&op| std::cmp::Reverse(spans[op].to));
        let next_end = choices.last().copied();
        choices.splice(0..0, perhaps);
        Self {
            state,
            came_by: None,
            step: 0,
            next_end,
            choices,
            by,
        }
    }
}

/// A set of operations.
struct Taken {
    words: Vec<u64>,
    /// Number of operations in the set that happened for certain.
    certain: usize,
}

impl Taken {
    fn new(count: usize) -> Self {
        Self {
            words: vec![0; count.div_ceil(64)],
            certain: 0,
        }
    }

    fn has(&self, op: usize) -> bool {
        self.words[op / 64] & 1 << (op % 64) != 0
    }

    fn take(&mut self, op: usize, spans: &[Span]) {
        self.words[op / 64] |= 1 << (op % 64);
        self.certain += usize::from(spans[op].to.is_some());
    }

    fn give_back(&mut self, op: usize, spans: &[Span]) {
        self.words[op / 64] &= !(1 << (op % 64));
        self.certain -= usize::from(spans[op].to.is_some());
    }

    /// Returns an index such that the set contains all operations before it.
    fn first(&self) -> usize {
        let full = self.words.iter().take_while(|&&word| word == u64::MAX);
        64 * full.count()
    }

    /// Returns the set in a short form: without the full words at its start and the empty words at its end.
    fn key(&self) -> Vec<u64> {
        let first = self.first() / 64;
        let rest = &self.words[first..];
        let last = rest
            .iter()
            .rposition(|&word| word != 0)
            .map_or(0, |at| at + 1);
        let mut key = vec![first as u64];
        key.extend_from_slice(&rest[..last]);
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A register: the operations write a number or read it.
    struct Register(Vec<(bool, u64)>);

    impl Model for Register {
        type State = u64;

        fn start(&self) -> u64 {
            0
        }

        fn step(&self, &state: &u64, op: usize, _: Moment) -> Option<u64> {
            let (writes, value) = self.0[op];
            (writes || state == value).then_some(value)
        }
    }

    fn at(ms: u64) -> Moment {
        Moment::at(Duration::from_millis(ms))
    }

    fn outcome(ops: &[(u64, Option<u64>, bool, u64)]) -> Outcome<u64> {
        let spans: Vec<Span> = ops
            .iter()
            .map(|&(from, to, ..)| Span {
                from: at(from),
                to: to.map(at),
            })
            .collect();
        let register = Register(
            ops.iter()
                .map(|&(.., writes, value)| (writes, value))
                .collect(),
        );
        search(&register, &spans, 1_000)
    }

    #[test]
    fn a_read_sees_what_was_written_before_or_meanwhile() {
        let write = (0, Some(10), true, 7);
        assert_eq!(
            outcome(&[write, (2, Some(4), false, 0)]),
            Outcome::Explained
        );
        assert_eq!(
            outcome(&[write, (2, Some(4), false, 7)]),
            Outcome::Explained
        );
        let stale = outcome(&[write, (12, Some(14), false, 0)]);
        assert_eq!(stale, Outcome::Stuck { state: 7, op: 1 });
    }

    #[test]
    fn reads_cannot_go_back_and_forth() {
        let write = (0, Some(100), true, 7);
        let forth = [write, (1, Some(2), false, 0), (3, Some(4), false, 7)];
        assert_eq!(outcome(&forth), Outcome::Explained);
        let back = [write, (1, Some(2), false, 7), (3, Some(4), false, 0)];
        assert!(matches!(outcome(&back), Outcome::Stuck { .. }));
    }

    #[test]
    fn an_operation_with_an_unknown_outcome_may_take_effect_late_or_never() {
        let unknown = (0, None, true, 7);
        assert_eq!(
            outcome(&[unknown, (2, Some(4), false, 0)]),
            Outcome::Explained
        );
        let late = [unknown, (2, Some(4), false, 0), (5, Some(6), false, 7)];
        assert_eq!(outcome(&late), Outcome::Explained);
        let early = [(2, Some(4), false, 7), (5, None, true, 7)];
        assert!(matches!(outcome(&early), Outcome::Stuck { .. }));
    }

    #[test]
    fn it_gives_up_in_the_end() {
        // 24 concurrent writes, and then a read of a value that none of them wrote.
        let mut ops = vec![(0, Some(10), true, 7); 24];
        ops.push((20, Some(30), false, 8));
        assert_eq!(outcome(&ops), Outcome::GivenUp);
    }
}
