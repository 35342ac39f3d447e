//! Lists: a sequence of elements.

mod row;

pub(super) use row::ROW;

use crate::engine::value::element::Element;
use crate::engine::value::sequence::{Item, Sequence};
use std::ops::Range;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Head,
    Tail,
}

/// Elements from head to tail.
#[derive(Clone, Debug, Default)]
pub(crate) struct List(Sequence<Element>);

impl Item for Element {
    /// Lists are not ordered by what they hold.
    type Hint = ();

    fn hint(&self) {}
}

impl List {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(crate) fn push(&mut self, end: End, element: Element) {
        match end {
            End::Head => self.0.insert(0, element),
            End::Tail => self.0.push_back(element),
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self, end: End) -> Option<Element> {
        match end {
            End::Head => self.0.remove(0),
            End::Tail => self.0.remove(self.len().checked_sub(1)?),
        }
    }

    /// Where an index points that counts from the tail if it is negative.
    pub(crate) fn position(&self, index: i64) -> Option<usize> {
        let len = self.len() as i64;
        let index = if index < 0 { len + index } else { index };
        (0..len).contains(&index).then_some(index as usize)
    }

    pub(crate) fn get(&self, position: usize) -> Option<&Element> {
        self.0.get(position)
    }

    pub(crate) fn get_mut(&mut self, position: usize) -> Option<&mut Element> {
        self.0.get_mut(position)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Element> + ExactSizeIterator {
        self.0.iter()
    }

    pub(crate) fn range(
        &self,
        range: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = &Element> + ExactSizeIterator {
        self.0.range(range)
    }

    /// Puts an element before the first one that equals `pivot`, or behind it; false without one.
    pub(crate) fn insert(&mut self, pivot: &[u8], is_before: bool, element: Element) -> bool {
        let Some(at) = self.iter().position(|other| **other == *pivot) else {
            return false;
        };
        self.0.insert(at + usize::from(!is_before), element);
        true
    }

    /// Removes up to `count` elements that equal `element`, seen from `end`; how many there were.
    pub(crate) fn remove(&mut self, element: &[u8], end: End, count: usize) -> usize {
        let is_it = |(_, other): &(usize, &Element)| ***other == *element;
        let mut places: Vec<usize> = match end {
            End::Head => {
                let found = self.iter().enumerate().filter(is_it);
                found.map(|(at, _)| at).take(count).collect()
            }
            End::Tail => {
                let found = self.iter().enumerate().rev().filter(is_it);
                found.map(|(at, _)| at).take(count).collect()
            }
        };
        // From the tail on, so that the other places stay what they are.
        places.sort_unstable();
        for at in places.iter().rev() {
            self.0.remove(*at);
        }
        places.len()
    }

    /// Keeps what is in the range and nothing else.
    pub(crate) fn trim(&mut self, range: Range<usize>) {
        self.0.keep(range);
    }
}

impl FromIterator<Element> for List {
    fn from_iter<I: IntoIterator<Item = Element>>(elements: I) -> Self {
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
        text.bytes().map(|byte| Element::new(&[byte])).collect()
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
            list.insert(b"b", true, Element::new(b"x"))
                && list.insert(b"b", false, Element::new(b"y"))
        );
        assert!(!list.insert(b"z", true, Element::new(b"x")));
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
