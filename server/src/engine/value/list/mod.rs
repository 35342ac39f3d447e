//! Lists: fast at both ends, linear in the middle.

mod row;

pub(super) use row::ROW;

use crate::resp::Blob;
use std::collections::VecDeque;
use std::ops::Range;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Head,
    Tail,
}

/// Elements from head to tail.
#[derive(Clone, Debug, Default)]
pub(crate) struct List(VecDeque<Blob>);

impl List {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub(crate) fn push(&mut self, end: End, element: Blob) {
        if self.0.capacity() == 0 {
            // Most lists are short; a deque would begin with four.
            self.0.reserve_exact(2);
        }
        match end {
            End::Head => self.0.push_front(element),
            End::Tail => self.0.push_back(element),
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self, end: End) -> Option<Blob> {
        match end {
            End::Head => self.0.pop_front(),
            End::Tail => self.0.pop_back(),
        }
    }

    /// Where an index points that counts from the tail if it is negative.
    pub(crate) fn position(&self, index: i64) -> Option<usize> {
        let len = self.0.len() as i64;
        let index = if index < 0 { len + index } else { index };
        (0..len).contains(&index).then_some(index as usize)
    }

    pub(crate) fn get(&self, position: usize) -> Option<&Blob> {
        self.0.get(position)
    }

    pub(crate) fn get_mut(&mut self, position: usize) -> Option<&mut Blob> {
        self.0.get_mut(position)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Blob> + ExactSizeIterator {
        self.0.iter()
    }

    pub(crate) fn range(
        &self,
        range: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = &Blob> + ExactSizeIterator {
        self.0.range(range)
    }

    /// Puts an element before the first one that equals `pivot`, or behind it; false without one.
    pub(crate) fn insert(&mut self, pivot: &[u8], is_before: bool, element: Blob) -> bool {
        let Some(at) = self.0.iter().position(|other| **other == *pivot) else {
            return false;
        };
        self.0.insert(at + usize::from(!is_before), element);
        true
    }

    /// Removes up to `count` elements that equal `element`, seen from `end`; how many there were.
    pub(crate) fn remove(&mut self, element: &[u8], end: End, count: usize) -> usize {
        let mut left = count;
        let mut is_kept = |other: &Blob| {
            let goes = left > 0 && **other == *element;
            left -= usize::from(goes);
            !goes
        };
        match end {
            End::Head => self.0.retain(is_kept),
            End::Tail => {
                let kept = self.0.drain(..).rev().filter(|other| is_kept(other));
                let mut kept: VecDeque<Blob> = kept.collect();
                kept.make_contiguous().reverse();
                self.0 = kept;
            }
        }
        count - left
    }

    /// Keeps what is in the range and nothing else.
    pub(crate) fn trim(&mut self, range: Range<usize>) {
        self.0.truncate(range.end);
        self.0.drain(..range.start.min(self.0.len()));
    }
}

impl FromIterator<Blob> for List {
    fn from_iter<I: IntoIterator<Item = Blob>>(elements: I) -> Self {
        Self(elements.into_iter().collect())
    }
}

/// The part of something of this length from `start` to `stop`, both of it; negative ones count from
/// its end. Empty when nothing of it is there.
pub(crate) fn clamp_range(len: usize, start: i64, stop: i64) -> Range<usize> {
    let len = len as i64;
    let absolute = |index: i64| if index < 0 { len + index } else { index };
    let (start, stop) = (absolute(start).max(0), absolute(stop).min(len - 1));
    if start > stop || start >= len {
        return 0..0;
    }
    start as usize..stop as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> List {
        text.bytes().map(|byte| Blob::new(&[byte])).collect()
    }

    fn text(list: &List) -> String {
        list.iter().map(|element| char::from(element[0])).collect()
    }

    #[test]
    fn ranges_are_clamped() {
        for (start, stop, expected) in [
            (0, -1, 0..5),
            (1, 2, 1..3),
            (-2, -1, 3..5),
            (-100, 100, 0..5),
            (3, 1, 0..0),
            (5, 9, 0..0),
            (0, -6, 0..0),
            (i64::MIN, i64::MAX, 0..5),
            (i64::MAX, i64::MIN, 0..0),
        ] {
            assert_eq!(clamp_range(5, start, stop), expected, "{start} {stop}");
        }
        assert_eq!(clamp_range(0, 0, -1), 0..0);
    }

    #[test]
    fn elements_are_removed_from_the_end_that_was_asked_for() {
        for (end, count, expected, removed) in [
            (End::Head, 2, "bcab", 2),
            (End::Tail, 2, "abcb", 2),
            (End::Head, 9, "bcb", 3),
            (End::Tail, 9, "bcb", 3),
            (End::Tail, 0, "abacab", 0),
        ] {
            let mut list = list("abacab");
            assert_eq!(list.remove(b"a", end, count), removed);
            assert_eq!(text(&list), expected, "{end:?} {count}");
        }
    }

    #[test]
    fn the_middle_can_be_changed() {
        let mut list = list("abc");
        assert!(
            list.insert(b"b", true, Blob::from("x")) && list.insert(b"b", false, Blob::from("y"))
        );
        assert!(!list.insert(b"z", true, Blob::from("x")));
        assert_eq!(text(&list), "axbyc");
        assert_eq!(
            (list.position(-1), list.position(-6), list.position(5)),
            (Some(4), None, None)
        );
        list.trim(1..4);
        assert_eq!(text(&list), "xby");
        list.trim(0..0);
        assert!(list.is_empty());
    }
}
