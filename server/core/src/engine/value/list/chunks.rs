//! A large list: chunks in a sequence.
//!
//! An element far from both ends is found by counting the elements of the chunks before it, as in Redis.

use super::chunk::{Chunk, PackedChunk};
use super::{Elements, End};
use crate::engine::value::element::Text;
use crate::engine::value::sequence::Sequence;
use crate::resp::Blob;
use std::ops::Range;

/// Elements in chunks. No chunk is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunks {
    chunks: Sequence<Chunk>,
    len: usize,
}

impl From<PackedChunk> for Chunks {
    fn from(chunk: PackedChunk) -> Self {
        let len = chunk.len();
        let chunks = (len > 0).then(|| Chunk::from(chunk));
        Self {
            chunks: chunks.into_iter().collect(),
            len,
        }
    }
}

impl Chunks {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The only chunk, if it is packed and far from full.
    pub(super) fn only_small(&self) -> Option<&PackedChunk> {
        if self.chunks.len() != 1 {
            return None;
        }
        match self.chunks.get(0)? {
            Chunk::Packed(chunk) => Some(&**chunk).filter(|chunk| chunk.is_small()),
            Chunk::Single(_) => None,
        }
    }

    /// The number of the chunk at an end.
    fn last_at(&self, end: End) -> Option<usize> {
        let last = self.chunks.len().checked_sub(1)?;
        Some(if end == End::Head { 0 } else { last })
    }

    #[inline]
    pub(super) fn push(&mut self, end: End, element: &[u8]) {
        self.len += 1;
        if let Some(at) = self.last_at(end)
            && let Some(chunk) = self.chunks.get_mut(at)
            && chunk.push(end, element)
        {
            return;
        }
        let at = if end == End::Head {
            0
        } else {
            self.chunks.len()
        };
        self.chunks.insert(at, Chunk::new(element));
    }

    #[inline]
    pub(super) fn pop(&mut self, end: End) -> Option<Blob> {
        let at = self.last_at(end)?;
        let chunk = self.chunks.get_mut(at)?;
        let element = chunk.pop(end);
        if chunk.len() == 0 {
            self.chunks.remove(at);
        }
        self.len -= 1;
        element
    }

    /// The number of the chunk that holds the element at a position, and the element's number in the chunk.
    fn locate(&self, position: usize) -> Option<(usize, usize)> {
        if position >= self.len {
            return None;
        }
        if position < self.len / 2 {
            let mut before = 0;
            for (at, chunk) in self.chunks.iter().enumerate() {
                if position < before + chunk.len() {
                    return Some((at, position - before));
                }
                before += chunk.len();
            }
            return None;
        }
        let mut begin = self.len;
        for (back, chunk) in self.chunks.iter().rev().enumerate() {
            begin -= chunk.len();
            if position >= begin {
                return Some((self.chunks.len() - 1 - back, position - begin));
            }
        }
        None
    }

    pub(super) fn get(&self, position: usize) -> Option<Text<'_>> {
        let (at, offset) = self.locate(position)?;
        self.chunks.get(at)?.texts().nth(offset)
    }

    /// Replaces the element at a position; false without one.
    pub(super) fn set(&mut self, position: usize, element: &[u8]) -> bool {
        let Some((at, offset)) = self.locate(position) else {
            return false;
        };
        let is_set = self
            .chunks
            .get_mut(at)
            .is_some_and(|chunk| chunk.set(offset, element));
        if !is_set {
            self.remove_at(at, offset);
            self.insert_at(position, element);
        }
        true
    }

    /// Inserts an element in front of the one at a position, or at the end.
    fn insert_at(&mut self, position: usize, element: &[u8]) {
        let Some((at, offset)) = self.locate(position) else {
            return self.push(End::Tail, element);
        };
        let Some(chunk) = self.chunks.get_mut(at) else {
            return;
        };
        self.len += 1;
        if chunk.insert(offset, element) {
            return;
        }
        let behind = chunk.split_off(offset);
        let is_empty = chunk.len() == 0;
        if let Some(behind) = behind {
            self.chunks.insert(at + 1, behind);
        }
        let place = if is_empty { at } else { at + 1 };
        if is_empty {
            self.chunks.remove(at);
        }
        self.chunks.insert(place, Chunk::new(element));
    }

    /// Removes an element of a chunk.
    fn remove_at(&mut self, at: usize, offset: usize) {
        let Some(chunk) = self.chunks.get_mut(at) else {
            return;
        };
        chunk.remove(offset);
        self.len -= 1;
        if chunk.len() == 0 {
            self.chunks.remove(at);
        } else {
            self.join(at);
        }
    }

    /// Joins a chunk to the next one if both are small.
    fn join(&mut self, at: usize) {
        let fits = |next: &Chunk| {
            self.chunks
                .get(at)
                .is_some_and(|chunk| chunk.has_room(next))
        };
        if self.chunks.get(at + 1).is_some_and(fits)
            && let Some(next) = self.chunks.remove(at + 1)
            && let Some(chunk) = self.chunks.get_mut(at)
        {
            chunk.append(&next);
        }
    }

    pub(super) fn iter(&self) -> Elements<'_> {
        Elements::of(self.chunks.iter(), self.len)
    }

    pub(super) fn range(&self, range: Range<usize>) -> Elements<'_> {
        let end = range.end.min(self.len);
        let left = end.saturating_sub(range.start);
        let (Some((first, offset)), Some((last, last_offset))) =
            (self.locate(range.start), self.locate(end.wrapping_sub(1)))
        else {
            return Elements::of(self.chunks.range(0..0), 0);
        };
        let behind = self.chunks.get(last).map_or(0, Chunk::len) - last_offset - 1;
        let mut elements = Elements::of(self.chunks.range(first..last + 1), self.len);
        elements.cut(offset, behind, left);
        elements
    }

    /// Puts an element before the first one that equals `pivot`, or behind it; false without one.
    pub(super) fn insert(&mut self, pivot: &[u8], is_before: bool, element: &[u8]) -> bool {
        let Some(at) = self.iter().position(|other| *other == *pivot) else {
            return false;
        };
        self.insert_at(at + usize::from(!is_before), element);
        true
    }

    /// Removes up to `count` elements that equal `element`, seen from `end`; how many there were.
    pub(super) fn remove(&mut self, element: &[u8], end: End, count: usize) -> usize {
        let (mut removed, mut seen) = (0, 0);
        let chunks = self.chunks.len();
        while seen < chunks && removed < count {
            // Chunks that become empty go, which does not move those that were not seen.
            let at = match end {
                End::Head => self.chunks.len() - (chunks - seen),
                End::Tail => chunks - 1 - seen,
            };
            seen += 1;
            let holds_it = |chunk: &Chunk| chunk.texts().any(|text| *text == *element);
            if !self.chunks.get(at).is_some_and(holds_it) {
                continue;
            }
            if let Some(chunk) = self.chunks.get_mut(at) {
                removed += chunk.remove_equal(element, end, count - removed);
                if chunk.len() == 0 {
                    self.chunks.remove(at);
                }
            }
        }
        self.len -= removed;
        if removed > 0 {
            self.join_all();
        }
        removed
    }

    /// Joins all small neighbours.
    fn join_all(&mut self) {
        let mut at = 0;
        while at + 1 < self.chunks.len() {
            let before = self.chunks.len();
            self.join(at);
            at += usize::from(self.chunks.len() == before);
        }
    }

    /// Removes all elements outside of the range.
    pub(super) fn trim(&mut self, range: Range<usize>) {
        let end = range.end.min(self.len);
        let (Some((first, offset)), Some((last, last_offset)), true) = (
            self.locate(range.start),
            self.locate(end.wrapping_sub(1)),
            range.start < end,
        ) else {
            *self = Self::default();
            return;
        };
        self.chunks.keep(first..last + 1);
        if let Some(chunk) = self.chunks.get_mut(last - first) {
            chunk.split_off(last_offset + 1);
        }
        if let Some(chunk) = self.chunks.get_mut(0).filter(|_| offset > 0)
            && let Some(kept) = chunk.split_off(offset)
        {
            *chunk = kept;
        }
        self.len = end - range.start;
    }
}

#[cfg(test)]
impl Chunks {
    /// True if the chunks hold as many elements as they say, and none is empty.
    pub(super) fn is_sound(&self) -> bool {
        let counts: usize = self.chunks.iter().map(Chunk::len).sum();
        counts == self.len && self.chunks.iter().all(|chunk| chunk.len() > 0)
    }
}
