//! A chunk of a list: short elements packed in a run of bytes, or one long element.

use super::End;
use crate::engine::value::element::{Element, Text};
use crate::engine::value::run::{Run, Texts, packed_bytes};
use crate::engine::value::sequence::Item;
use crate::resp::Blob;
use std::sync::Arc;

/// Most elements of a chunk, and most bytes that they take.
const LEN_MAX: usize = 128;
const BYTES_MAX: usize = 2048;
/// A longer element is a chunk by itself, and replies share its bytes.
const SHORT_MAX: usize = 254;

/// A chunk. A clone shares its elements.
#[derive(Clone, Debug)]
pub(super) enum Chunk {
    Packed(Arc<PackedChunk>),
    Single(Element),
}

#[derive(Clone, Debug, Default)]
pub(super) struct PackedChunk {
    run: Run,
    len: usize,
}

impl Item for Chunk {
    /// Lists are not sorted, so they have no hints.
    type Hint = ();

    fn hint(&self) {}
}

impl PackedChunk {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn texts(&self) -> ChunkTexts<'_> {
        ChunkTexts {
            packed: self.run.texts(),
            single: None,
        }
    }

    fn takes(&self, element: &[u8]) -> bool {
        element.len() <= SHORT_MAX
            && self.len < LEN_MAX
            && self.run.bytes() + packed_bytes(element) <= BYTES_MAX
    }

    /// True if it is far from full.
    pub(super) fn is_small(&self) -> bool {
        self.len <= LEN_MAX / 2 && self.run.bytes() <= BYTES_MAX / 2
    }

    /// Adds an element at an end; false if there is no room for it.
    #[inline]
    pub(super) fn push(&mut self, end: End, element: &[u8]) -> bool {
        let offset = match end {
            End::Head => 0,
            End::Tail => self.len,
        };
        self.insert(offset, element)
    }

    /// Inserts an element in front of another one; false if there is no room for it.
    #[inline]
    pub(super) fn insert(&mut self, offset: usize, element: &[u8]) -> bool {
        if !self.takes(element) {
            return false;
        }
        if offset == self.len {
            self.run.push(element);
        } else {
            let at = self.run.texts().nth(offset).map_or(0, |it| it.place.start);
            self.run.put(at..at, element);
        }
        self.len += 1;
        true
    }

    /// Replaces an element; false if that does not fit here.
    pub(super) fn set(&mut self, offset: usize, element: &[u8]) -> bool {
        if element.len() > SHORT_MAX {
            return false;
        }
        let place = self.run.texts().nth(offset).map(|it| it.place);
        if let Some(place) = place {
            self.run.put(place, element);
        }
        true
    }

    /// Takes the element at an end.
    #[inline]
    pub(super) fn pop(&mut self, end: End) -> Option<Blob> {
        let mut texts = self.run.texts();
        let found = match end {
            End::Head => texts.next()?,
            End::Tail => texts.next_back()?,
        };
        let (element, place) = (Blob::new(found.text), found.place);
        self.run.remove(place);
        self.len -= 1;
        Some(element)
    }

    fn remove(&mut self, offset: usize) {
        let place = self.run.texts().nth(offset).map(|it| it.place);
        if let Some(place) = place {
            self.run.remove(place);
            self.len -= 1;
        }
    }
}

impl Chunk {
    /// A chunk of one element.
    pub(super) fn new(element: &[u8]) -> Self {
        if element.len() > SHORT_MAX {
            return Self::Single(Element::new(element));
        }
        let mut chunk = PackedChunk::default();
        chunk.push(End::Tail, element);
        Self::from(chunk)
    }

    /// Number of elements.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Packed(chunk) => chunk.len,
            Self::Single(_) => 1,
        }
    }

    pub(super) fn texts(&self) -> ChunkTexts<'_> {
        match self {
            Self::Packed(chunk) => chunk.texts(),
            Self::Single(element) => ChunkTexts {
                packed: Texts::default(),
                single: Some(element),
            },
        }
    }

    /// Adds an element at an end; false if there is no room for it.
    #[inline]
    pub(super) fn push(&mut self, end: End, element: &[u8]) -> bool {
        match self {
            Self::Packed(chunk) => Arc::make_mut(chunk).push(end, element),
            Self::Single(_) => false,
        }
    }

    /// Inserts an element in front of another one; false if there is no room for it.
    pub(super) fn insert(&mut self, offset: usize, element: &[u8]) -> bool {
        match self {
            Self::Packed(chunk) => Arc::make_mut(chunk).insert(offset, element),
            Self::Single(_) => false,
        }
    }

    /// Replaces an element; false if that does not fit here.
    pub(super) fn set(&mut self, offset: usize, element: &[u8]) -> bool {
        match self {
            Self::Packed(chunk) => Arc::make_mut(chunk).set(offset, element),
            Self::Single(_) => {
                *self = Self::new(element);
                true
            }
        }
    }

    /// Takes the element at an end. The caller removes a chunk that is empty then.
    #[inline]
    pub(super) fn pop(&mut self, end: End) -> Option<Blob> {
        match self {
            Self::Packed(chunk) => Arc::make_mut(chunk).pop(end),
            Self::Single(element) => {
                let blob = element.to_blob();
                *self = Self::default();
                Some(blob)
            }
        }
    }

    /// Removes an element. The caller removes a chunk that is empty then.
    pub(super) fn remove(&mut self, offset: usize) {
        match self {
            Self::Packed(chunk) => Arc::make_mut(chunk).remove(offset),
            Self::Single(_) => *self = Self::default(),
        }
    }

    /// Removes up to `count` elements that equal `element`, seen from `end`; how many there were.
    pub(super) fn remove_equal(&mut self, element: &[u8], end: End, count: usize) -> usize {
        let is_it = |(_, text): &(usize, Text<'_>)| **text == *element;
        let texts: Vec<_> = self.texts().enumerate().filter(is_it).collect();
        let offsets = texts.into_iter().map(|(offset, _)| offset);
        let mut offsets: Vec<usize> = match end {
            End::Head => offsets.take(count).collect(),
            End::Tail => offsets.rev().take(count).collect(),
        };
        // The removal starts from the last one, so that the other offsets stay valid.
        offsets.sort_unstable();
        offsets.iter().rev().for_each(|offset| self.remove(*offset));
        offsets.len()
    }

    /// Cuts the chunk; the elements from `offset` on come back, if there are any.
    pub(super) fn split_off(&mut self, offset: usize) -> Option<Self> {
        if offset >= self.len() {
            return None;
        }
        if offset == 0 {
            return Some(std::mem::take(self));
        }
        let Self::Packed(chunk) = self else {
            return None;
        };
        let chunk = Arc::make_mut(chunk);
        let at = chunk.run.texts().nth(offset)?.place.start;
        let rest = PackedChunk {
            run: chunk.run.split_off(at),
            len: chunk.len - offset,
        };
        chunk.len = offset;
        Some(Self::from(rest))
    }

    /// True if the elements of another chunk fit into this one, and both are small.
    pub(super) fn has_room(&self, other: &Self) -> bool {
        let (Self::Packed(chunk), Self::Packed(other)) = (self, other) else {
            return false;
        };
        chunk.len + other.len <= LEN_MAX / 2
            && chunk.run.bytes() + other.run.bytes() <= BYTES_MAX / 2
    }

    /// Takes over the elements of another chunk, for which there is room.
    pub(super) fn append(&mut self, other: &Self) {
        if let (Self::Packed(chunk), Self::Packed(other)) = (self, other) {
            let chunk = Arc::make_mut(chunk);
            chunk.run.append(&other.run);
            chunk.len += other.len;
        }
    }
}

impl Default for Chunk {
    fn default() -> Self {
        Self::Packed(Arc::default())
    }
}

impl From<PackedChunk> for Chunk {
    fn from(chunk: PackedChunk) -> Self {
        Self::Packed(Arc::new(chunk))
    }
}

/// The elements of a chunk, from both ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChunkTexts<'a> {
    packed: Texts<'a>,
    single: Option<&'a Element>,
}

impl<'a> Iterator for ChunkTexts<'a> {
    type Item = Text<'a>;

    #[inline]
    fn next(&mut self) -> Option<Text<'a>> {
        match self.packed.next() {
            Some(packed) => Some(Text::Packed(packed.text)),
            None => self.single.take().map(Text::Own),
        }
    }
}

impl DoubleEndedIterator for ChunkTexts<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        match self.packed.next_back() {
            Some(packed) => Some(Text::Packed(packed.text)),
            None => self.single.take().map(Text::Own),
        }
    }
}
