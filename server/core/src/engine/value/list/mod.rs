//! Lists: chunks of packed elements, as the nodes of a quicklist are. A small list is one chunk.

mod chunk;
mod chunks;
mod row;

pub(super) use row::ROW;

use crate::engine::value::element::Text;
use crate::engine::value::sequence::Iter;
use crate::resp::Blob;
use chunk::{Chunk, ChunkTexts, PackedChunk};
use chunks::Chunks;
use std::ops::{Deref, Range};

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Head,
    Tail,
}

/// Elements from head to tail.
#[derive(Clone, Debug)]
pub(crate) struct List(Repr);

#[derive(Clone, Debug)]
enum Repr {
    /// One chunk, beside no other allocation. A clone copies it.
    Small(PackedChunk),
    Large(Chunks),
}

impl Default for List {
    fn default() -> Self {
        Self(Repr::Small(PackedChunk::default()))
    }
}

impl List {
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Repr::Small(chunk) => chunk.len(),
            Repr::Large(chunks) => chunks.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The list as a large one.
    fn enlarge(&mut self) -> &mut Chunks {
        if let Repr::Small(chunk) = &mut self.0 {
            self.0 = Repr::Large(Chunks::from(std::mem::take(chunk)));
        }
        match &mut self.0 {
            Repr::Large(chunks) => chunks,
            Repr::Small(_) => unreachable!("it was enlarged"),
        }
    }

    /// Makes a large list a small one if it has become small.
    fn settle(&mut self) {
        let Repr::Large(chunks) = &self.0 else {
            return;
        };
        if chunks.len() == 0 {
            *self = Self::default();
        } else if let Some(chunk) = chunks.only_small() {
            self.0 = Repr::Small(chunk.clone());
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, end: End, element: &[u8]) {
        if let Repr::Small(chunk) = &mut self.0
            && chunk.push(end, element)
        {
            return;
        }
        self.enlarge().push(end, element);
    }

    #[inline]
    pub(crate) fn pop(&mut self, end: End) -> Option<Blob> {
        match &mut self.0 {
            Repr::Small(chunk) => chunk.pop(end),
            Repr::Large(chunks) => {
                let popped = chunks.pop(end);
                self.settle();
                popped
            }
        }
    }

    /// Returns the position of an index that counts from the tail if it is negative.
    pub(crate) fn position(&self, index: i64) -> Option<usize> {
        let len = self.len() as i64;
        let index = if index < 0 { len + index } else { index };
        (0..len).contains(&index).then_some(index as usize)
    }

    pub(crate) fn get(&self, position: usize) -> Option<Text<'_>> {
        match &self.0 {
            Repr::Small(chunk) => chunk.texts().nth(position),
            Repr::Large(chunks) => chunks.get(position),
        }
    }

    /// Replaces the element at a position; false without one.
    pub(crate) fn set(&mut self, position: usize, element: &[u8]) -> bool {
        if let Repr::Small(chunk) = &mut self.0
            && position < chunk.len()
            && chunk.set(position, element)
        {
            return true;
        }
        self.enlarge().set(position, element)
    }

    pub(crate) fn iter(&self) -> Elements<'_> {
        match &self.0 {
            Repr::Small(chunk) => Elements::of_one(chunk),
            Repr::Large(chunks) => chunks.iter(),
        }
    }

    pub(crate) fn range(&self, range: Range<usize>) -> Elements<'_> {
        match &self.0 {
            Repr::Small(chunk) => {
                let end = range.end.min(chunk.len());
                let start = range.start.min(end);
                let mut elements = Elements::of_one(chunk);
                elements.cut(start, chunk.len() - end, end - start);
                elements
            }
            Repr::Large(chunks) => chunks.range(range),
        }
    }

    /// Puts an element before the first one that equals `pivot`, or behind it; false without one.
    pub(crate) fn insert(&mut self, pivot: &[u8], is_before: bool, element: &[u8]) -> bool {
        let is_inserted = self.enlarge().insert(pivot, is_before, element);
        self.settle();
        is_inserted
    }

    /// Removes up to `count` elements that equal `element`, seen from `end`; how many there were.
    pub(crate) fn remove(&mut self, element: &[u8], end: End, count: usize) -> usize {
        let removed = self.enlarge().remove(element, end, count);
        self.settle();
        removed
    }

    /// Removes all elements outside of the range.
    pub(crate) fn trim(&mut self, range: Range<usize>) {
        self.enlarge().trim(range);
        self.settle();
    }
}

impl<T: Deref<Target = [u8]>> FromIterator<T> for List {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut list = Self::default();
        for element in elements {
            list.push(End::Tail, &element);
        }
        list
    }
}

/// Elements of a list, from both ends.
#[derive(Clone)]
pub(crate) struct Elements<'a> {
    chunks: Option<Iter<'a, Chunk>>,
    /// Rest of the chunk of the next element from the front; and from the back.
    front: ChunkTexts<'a>,
    back: ChunkTexts<'a>,
    left: usize,
}

impl<'a> Elements<'a> {
    fn of(chunks: Iter<'a, Chunk>, left: usize) -> Self {
        Self {
            chunks: Some(chunks),
            front: ChunkTexts::default(),
            back: ChunkTexts::default(),
            left,
        }
    }

    fn of_one(chunk: &'a PackedChunk) -> Self {
        Self {
            chunks: None,
            front: chunk.texts(),
            back: ChunkTexts::default(),
            left: chunk.len(),
        }
    }

    /// Leaves out elements at both ends, so that `left` are left.
    fn cut(&mut self, front: usize, back: usize, left: usize) {
        for _ in 0..front {
            self.next();
        }
        for _ in 0..back {
            self.next_back();
        }
        self.left = left;
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Text<'a>;

    #[inline]
    fn next(&mut self) -> Option<Text<'a>> {
        self.left = self.left.checked_sub(1)?;
        loop {
            if let Some(text) = self.front.next() {
                return Some(text);
            }
            match self.chunks.as_mut().and_then(Iterator::next) {
                Some(chunk) => self.front = chunk.texts(),
                None => return self.back.next(),
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl DoubleEndedIterator for Elements<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        loop {
            if let Some(text) = self.back.next_back() {
                return Some(text);
            }
            match self.chunks.as_mut().and_then(Iter::next_back) {
                Some(chunk) => self.back = chunk.texts(),
                None => return self.front.next_back(),
            }
        }
    }
}

impl ExactSizeIterator for Elements<'_> {}

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
    use crate::engine::Rng;
    use crate::engine::value::element::Element;

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
        assert!(list.insert(b"b", true, b"x") && list.insert(b"b", false, b"y"));
        assert!(!list.insert(b"z", true, b"x"));
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

    fn same(list: &List, model: &[Vec<u8>]) {
        assert_eq!(list.len(), model.len());
        if let Repr::Large(chunks) = &list.0 {
            assert!(chunks.is_sound());
        }
        assert!(list.iter().map(Text::bytes).eq(model));
        assert!(list.iter().rev().map(Text::bytes).eq(model.iter().rev()));
    }

    #[test]
    fn it_does_what_a_vector_does_and_clones_stay_as_they_were() {
        let mut rng = Rng::new(17);
        let mut draw = |bound: usize| (rng.next_u64() % bound as u64) as usize;
        let (mut list, mut model) = (List::default(), Vec::<Vec<u8>>::new());
        let mut clones = Vec::new();
        for step in 0..12_000_usize {
            let lengths = [0, 1, 3, 20, 40, 300];
            let mut element = (step % 7).to_string().into_bytes();
            element.resize(lengths[draw(lengths.len())], b'x');
            let (len, grows) = (model.len(), (step / 3000).is_multiple_of(2));
            match draw(24) {
                0..8 if grows => {
                    list.push(End::Tail, &element);
                    model.push(element);
                }
                8..14 if grows => {
                    list.push(End::Head, &element);
                    model.insert(0, element);
                }
                14 if len > 0 => {
                    let at = draw(len);
                    assert!(list.set(at, &element));
                    model[at] = element;
                }
                15 if len > 0 => {
                    let pivot = model[draw(len)].clone();
                    let at = model.iter().position(|other| *other == pivot);
                    let is_before = draw(2) == 0;
                    assert!(list.insert(&pivot, is_before, &element));
                    let at = at.expect("it was drawn") + usize::from(!is_before);
                    model.insert(at, element);
                }
                16..20 => {
                    assert_eq!(list.pop(End::Head).is_some(), !model.is_empty());
                    model.drain(..len.min(1));
                    let popped = list.pop(End::Tail);
                    assert_eq!(popped.as_deref(), model.pop().as_deref());
                }
                20 if len > 0 && step % 5 == 0 => {
                    let (wanted, count) = (model[draw(len)].clone(), draw(4) + 1);
                    let end = [End::Head, End::Tail][draw(2)];
                    let mut left = count;
                    let mut keep = |other: &Vec<u8>| {
                        let goes = left > 0 && *other == wanted;
                        left -= usize::from(goes);
                        !goes
                    };
                    match end {
                        End::Head => model.retain(&mut keep),
                        End::Tail => {
                            model.reverse();
                            model.retain(&mut keep);
                            model.reverse();
                        }
                    }
                    assert_eq!(list.remove(&wanted, end, count), len - model.len());
                }
                21 if len > 0 => {
                    let start = draw(len);
                    let end = start + draw(len - start + 1);
                    let part = &model[start..end];
                    assert!(list.range(start..end).map(Text::bytes).eq(part));
                    let back = list.range(start..end).rev().map(Text::bytes);
                    assert!(back.eq(part.iter().rev()));
                    assert_eq!(list.get(start).map(Text::bytes), Some(&*model[start]));
                    if step % 20 == 0 {
                        let mut part_of_it = list.clone();
                        part_of_it.trim(start..end);
                        same(&part_of_it, part);
                    }
                }
                22 if step % 50 == 0 => clones.push((list.clone(), model.clone())),
                _ => {}
            }
            if step % 500 == 0 {
                same(&list, &model);
            }
        }
        assert!(clones.len() > 3 && list.get(list.len()).is_none());
        clones.iter().for_each(|(list, model)| same(list, model));
    }
}
