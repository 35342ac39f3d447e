//! The order of a big sorted set: scores and places in a sequence that counts, so ranks are found in O(log n).
//!
//! It compares nothing: its caller's predicate decides which elements are before a position.

use crate::engine::value::sequence::{self, Sequence};
use std::cmp::Ordering;
use std::ops::Range;

/// An element: its score, and its place among the members.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) score: f64,
    pub(super) place: u32,
}

impl sequence::Item for Item {
    type Hint = Self;

    #[inline]
    fn hint(&self) -> Self {
        *self
    }
}

/// Elements in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct ScoreOrder(Sequence<Item>);

impl ScoreOrder {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Number of elements at the beginning that stand before a position: `is_before` holds for them and for
    /// none behind them.
    pub(super) fn rank_where(&self, is_before: impl Fn(Item) -> bool) -> usize {
        let compare = |item: Item| match is_before(item) {
            true => Ordering::Less,
            false => Ordering::Greater,
        };
        self.0.seek(compare, |_| false).position()
    }

    /// Inserts an element in front of the one at `rank`.
    pub(super) fn insert(&mut self, rank: usize, item: Item) {
        self.0.insert(rank, item);
    }

    /// Removes the element at a rank, if there is one.
    pub(super) fn remove(&mut self, rank: usize) -> Option<Item> {
        self.0.remove(rank)
    }

    /// The elements of a range of ranks.
    pub(super) fn range(&self, ranks: Range<usize>) -> impl DoubleEndedIterator<Item = Item> {
        self.0.range(ranks).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(number: u32) -> Item {
        Item {
            score: f64::from(number),
            place: number,
        }
    }

    #[test]
    fn ranks_are_those_of_a_vector() {
        let (mut order, mut model) = (ScoreOrder::default(), Vec::new());
        let mut state = 7_u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(99);
            (state >> 33) as usize % below
        };
        let mut snapshots = Vec::new();
        for step in 0..40_000_u32 {
            let grows = step % 20_000 < 10_000;
            if model.is_empty() || draw(10) < if grows { 7 } else { 3 } {
                let rank = match draw(4) {
                    0 => model.len(),
                    1 => 0,
                    _ => draw(model.len() + 1),
                };
                order.insert(rank, item(step));
                model.insert(rank, item(step));
            } else {
                let rank = draw(model.len());
                assert_eq!(order.remove(rank), Some(model.remove(rank)));
            }
            assert_eq!(order.len(), model.len());
            if step % 997 == 0 {
                let (from, to) = (draw(model.len() + 1), draw(model.len() + 1));
                let ranks = from.min(to)..from.max(to);
                let expected = &model[ranks.clone()];
                assert!(order.range(ranks.clone()).eq(expected.iter().copied()));
                assert!(order.range(ranks).rev().eq(expected.iter().rev().copied()));
                snapshots.push((order.clone(), model.clone()));
            }
        }
        for (order, model) in snapshots {
            assert!(order.range(0..model.len()).eq(model));
        }
    }

    #[test]
    fn positions_are_found_by_what_stands_before_them() {
        let mut order = ScoreOrder::default();
        for number in 0..5000 {
            order.insert(order.len(), item(number * 2));
        }
        for bound in 0..10_001_u32 {
            let rank = order.rank_where(|item| item.score < f64::from(bound));
            assert_eq!(rank, (bound as usize).div_ceil(2).min(5000));
        }
    }

    #[test]
    fn both_ends_meet() {
        let mut order = ScoreOrder::default();
        for number in 0..300 {
            order.insert(order.len(), item(number));
        }
        let mut items = order.range(10..290);
        let mut seen = Vec::new();
        while let Some(first) = items.next() {
            seen.push(first.place);
            seen.extend(items.next_back().map(|last| last.place));
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(10..290));
    }
}
