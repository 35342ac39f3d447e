//! The search for an order of operations that explains them all: that of Wing and Gong, with Lowe's
//! memory of what was tried. It knows nothing of locks.
//!
//! Every operation took effect at one moment between its start and its end. The search takes
//! operations one after the other; it may take one that began before the end of every operation
//! that is yet to be taken. A set of operations that led nowhere once is not tried again in another
//! order: the state after a set is to be the same in whatever order it was taken.

use crate::history::Moment;
use std::collections::HashSet;

/// When an operation can have taken effect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from: Moment,
    /// Its end; an operation without one may not have happened at all. Those are all alike.
    pub(super) to: Option<Moment>,
}

/// What operations do to the object, and when they may.
pub(super) trait Model {
    /// The object.
    type State: Clone;

    /// The object before all operations.
    fn start(&self) -> Self::State;

    /// The object after one more operation; `None` if it cannot take effect there. `by` is the
    /// latest moment for that.
    fn step(&self, state: &Self::State, op: usize, by: Moment) -> Option<Self::State>;
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome<S> {
    /// There is such an order.
    Explained,
    /// There is none. It got as far as this state, and then nothing explains this operation.
    Stuck { state: S, op: usize },
    /// It took too many steps.
    GivenUp,
}

/// Searches for an order of the operations, which are sorted by their starts.
pub(super) fn search<M: Model>(model: &M, spans: &[Span], steps_max: u32) -> Outcome<M::State> {
    debug_assert!(spans.is_sorted_by_key(|span| span.from));
    let mut taken = Taken::new(spans.len());
    let certain = spans.iter().filter(|span| span.to.is_some()).count();
    let mut led_nowhere = HashSet::new();
    let mut steps = 0;
    let mut path = vec![Frame::at(model.start(), &taken, spans)];
    // The frame with the most certain operations, the earliest one of several: known when the search has left it.
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
        // Most searches never turn back, and remember nothing.
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
    /// The operation that led here.
    came_by: Option<usize>,
    /// The step that led here.
    step: u32,
    /// The operation that ends first, of those that are yet to be taken.
    next_end: Option<usize>,
    /// What can be taken next, the best last.
    choices: Vec<usize>,
    /// The first end of an operation that is yet to be taken.
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
                perhaps = perhaps.or(Some(op)); // one is as good as the next
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
    /// How many of those that happened for certain.
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

    /// The first that may not be in the set: all before it are.
    fn first(&self) -> usize {
        let full = self.words.iter().take_while(|&&word| word == u64::MAX);
        64 * full.count()
    }

    /// The set, short: without the full words at its begin and the empty ones at its end.
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
    fn what_is_unknown_may_have_happened_late_or_not_at_all() {
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
        // 24 writes at once, and then a read of what none has written.
        let mut ops = vec![(0, Some(10), true, 7); 24];
        ops.push((20, Some(30), false, 8));
        assert_eq!(outcome(&ops), Outcome::GivenUp);
    }
}
