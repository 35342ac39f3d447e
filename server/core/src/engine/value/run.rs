//! Strings one behind the other in one run of bytes, as a listpack holds them. Small collections consist of runs.
//!
//! A string stands between its length and its length: one byte each, or 255 and four bytes. So a run is read from
//! both ends.

use super::size::allocated;
use std::ops::Range;

/// The length stands in four more bytes, towards the string.
const LONG: u8 = 255;
/// Bytes of a length that does not fit into one byte.
const LONG_BYTES: usize = 5;

/// Strings in a run of bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Run(Vec<u8>);

/// Bytes that a string takes.
pub(super) fn packed_bytes(text: &[u8]) -> usize {
    text.len()
        + if text.len() < LONG.into() {
            2
        } else {
            2 * LONG_BYTES
        }
}

/// Writes a string into bytes that are as long as it takes.
fn write(text: &[u8], into: &mut [u8]) {
    let len = text.len();
    let header = (into.len() - len) / 2;
    into[header..header + len].copy_from_slice(text);
    match u8::try_from(len) {
        Ok(len) if len != LONG => (into[0], into[into.len() - 1]) = (len, len),
        Ok(_) | Err(_) => {
            let bytes = u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes();
            let end = into.len();
            (into[0], into[end - 1]) = (LONG, LONG);
            into[1..LONG_BYTES].copy_from_slice(&bytes);
            into[end - LONG_BYTES..end - 1].copy_from_slice(&bytes);
        }
    }
}

impl Run {
    /// Bytes of all strings.
    pub(super) fn bytes(&self) -> usize {
        self.0.len()
    }

    pub(super) fn texts(&self) -> Texts<'_> {
        Texts {
            bytes: &self.0,
            front: 0,
            back: self.0.len(),
        }
    }

    /// Reserves room for `more` bytes, rounded up to what an allocator returns anyway.
    pub(super) fn reserve(&mut self, more: usize) {
        let len = self.0.len();
        if self.0.capacity() - len < more {
            self.0.reserve_exact(allocated(len + more) - len);
        }
    }

    /// Appends a string.
    #[inline]
    pub(super) fn push(&mut self, text: &[u8]) {
        self.put(self.0.len()..self.0.len(), text);
    }

    /// Puts a string in the place of the bytes of some strings.
    pub(super) fn put(&mut self, place: Range<usize>, text: &[u8]) {
        let (old, new) = (place.len(), packed_bytes(text));
        let len = self.0.len();
        if new > old {
            let more = new - old;
            self.reserve(more);
            self.0.resize(len + more, 0);
        }
        if new != old {
            self.0.copy_within(place.end..len, place.start + new);
            self.0.truncate(len - old + new);
        }
        write(text, &mut self.0[place.start..place.start + new]);
    }

    /// Removes the bytes of some strings.
    pub(super) fn remove(&mut self, place: Range<usize>) {
        self.0.drain(place);
        if self.0.len() < self.0.capacity() / 2 {
            self.0.shrink_to_fit();
        }
    }

    /// Cuts the run; the strings from `at` on come back.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let rest = Self(self.0[at..].to_vec());
        self.0.truncate(at);
        self.0.shrink_to_fit();
        rest
    }

    /// Adds the strings of another run.
    pub(super) fn append(&mut self, other: &Self) {
        self.0.reserve_exact(other.0.len());
        self.0.extend_from_slice(&other.0);
    }
}

/// A string of a run, and where its bytes stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packed<'a> {
    pub(super) text: &'a [u8],
    pub(super) place: Range<usize>,
}

/// The strings of a run, from both ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Texts<'a> {
    bytes: &'a [u8],
    front: usize,
    back: usize,
}

impl<'a> Iterator for Texts<'a> {
    type Item = Packed<'a>;

    #[inline]
    fn next(&mut self) -> Option<Packed<'a>> {
        if self.front >= self.back {
            return None;
        }
        let start = self.front;
        let (header, len) = match self.bytes[start] {
            LONG => {
                let bytes = *self.bytes.get(start + 1..)?.first_chunk()?;
                (LONG_BYTES, u32::from_le_bytes(bytes) as usize)
            }
            len => (1, usize::from(len)),
        };
        let begin = start + header;
        let text = self.bytes.get(begin..begin + len)?;
        self.front = begin + len + header;
        Some(Packed {
            text,
            place: start..self.front,
        })
    }
}

impl DoubleEndedIterator for Texts<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front >= self.back {
            return None;
        }
        let end = self.back;
        let (header, len) = match self.bytes[end - 1] {
            LONG => {
                let bytes = *self.bytes.get(end - LONG_BYTES..)?.first_chunk()?;
                (LONG_BYTES, u32::from_le_bytes(bytes) as usize)
            }
            len => (1, usize::from(len)),
        };
        let begin = end.checked_sub(len + header)?;
        let text = self.bytes.get(begin..begin + len)?;
        self.back = begin.checked_sub(header)?;
        Some(Packed {
            text,
            place: self.back..end,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Rng;

    #[test]
    fn it_does_what_a_vector_of_strings_does() {
        let mut rng = Rng::new(21);
        let mut draw = |bound: usize| (rng.next_u64() % bound as u64) as usize;
        let (mut run, mut model) = (Run::default(), Vec::<Vec<u8>>::new());
        for step in 0..3000_usize {
            let lengths = [0, 1, 5, 253, 254, 255, 256, 700];
            let text = vec![step as u8; lengths[draw(lengths.len())]];
            let places: Vec<Range<usize>> = run.texts().map(|packed| packed.place).collect();
            let at = draw(model.len() + 1);
            match places.get(at).cloned() {
                None => {
                    run.push(&text);
                    model.push(text);
                }
                Some(place) => match draw(5) {
                    0 => {
                        run.put(place, &text);
                        model[at] = text;
                    }
                    1 | 2 => {
                        run.put(place.start..place.start, &text);
                        model.insert(at, text);
                    }
                    3 => {
                        run.remove(place);
                        model.remove(at);
                    }
                    _ => {
                        let rest = run.split_off(place.start);
                        run.append(&rest);
                    }
                },
            }
            assert!(run.texts().map(|packed| packed.text).eq(&model));
            let back: Vec<_> = run.texts().rev().collect();
            let front: Vec<_> = run.texts().collect();
            assert!(back.iter().rev().eq(&front));
        }
    }

    #[test]
    fn both_ends_meet() {
        let mut run = Run::default();
        for text in ["a", "bb", "ccc"] {
            run.push(text.as_bytes());
        }
        let mut texts = run.texts();
        let mut next = |is_front: bool| {
            let packed = if is_front {
                texts.next()
            } else {
                texts.next_back()
            };
            packed.map(|packed| packed.text.len())
        };
        let found = [next(true), next(false), next(true), next(false), next(true)];
        assert_eq!(found, [Some(1), Some(3), Some(2), None, None]);
    }
}
