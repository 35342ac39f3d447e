//! A small sorted set: its elements in order in one run of bytes, as a listpack holds them.
//!
//! An element is the length of its member (1 byte, or 255 and 4 bytes), the member, and its score: a byte that is
//! the score itself, or says how many bytes of it follow. As in a listpack, -0 becomes 0.

use crate::engine::value::size::allocated;
use crate::resp::Blob;
use std::ops::Range;

/// The length follows in 4 bytes.
const LONG: u8 = 255;
/// Markers of scores that take 2, 4 and 8 bytes; a smaller byte is the score itself.
const SCORE_16: u8 = 253;
const SCORE_32: u8 = 254;
const SCORE_DOUBLE: u8 = 255;
const SCORE_BYTES_MAX: usize = 9;

/// A small sorted set.
#[derive(Clone, Debug, Default)]
pub(super) struct Packed {
    /// A clone copies them: the limits keep them few.
    bytes: Vec<u8>,
    len: u32,
}

/// An element, and where its bytes stand.
#[derive(Clone, Debug)]
pub(super) struct Element<'a> {
    pub(super) member: &'a [u8],
    pub(super) score: f64,
    bytes: Range<usize>,
}

impl Packed {
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn iter(&self) -> Elements<'_> {
        Elements {
            bytes: &self.bytes,
            at: 0,
        }
    }

    /// An element with its rank.
    pub(super) fn find(&self, member: &[u8]) -> Option<(usize, f64)> {
        let found = self
            .iter()
            .enumerate()
            .find(|(_, element)| element.member == member);
        found.map(|(rank, element)| (rank, element.score))
    }

    /// Inserts an element in front of the one at `rank`.
    pub(super) fn insert(&mut self, rank: usize, member: &[u8], score: f64) {
        let at = match self.iter().nth(rank) {
            Some(element) => element.bytes.start,
            None => self.bytes.len(),
        };
        let mut score_bytes = [0; SCORE_BYTES_MAX];
        let score_len = write_score(score, &mut score_bytes);
        let header = if member.len() < LONG.into() { 1 } else { 5 };
        let (len, more) = (self.bytes.len(), header + member.len() + score_len);
        if self.bytes.capacity() - len < more {
            // As many as an allocator gives anyway: most small sorted sets stay small.
            self.bytes.reserve_exact(allocated(len + more) - len);
        }
        self.bytes.resize(len + more, 0);
        self.bytes.copy_within(at..len, at + more);
        let place = &mut self.bytes[at..at + more];
        match u8::try_from(member.len()) {
            Ok(len) if len != LONG => place[0] = len,
            Ok(_) | Err(_) => {
                place[0] = LONG;
                place[1..header].copy_from_slice(&(member.len() as u32).to_le_bytes());
            }
        }
        place[header..more - score_len].copy_from_slice(member);
        place[more - score_len..].copy_from_slice(&score_bytes[..score_len]);
        self.len += 1;
    }

    /// Removes the elements of a range of ranks.
    pub(super) fn remove(&mut self, ranks: Range<usize>) {
        let mut elements = self.iter().skip(ranks.start).take(ranks.len());
        let Some(first) = elements.next() else {
            return;
        };
        let start = first.bytes.start;
        let (count, end) = elements.fold((1, first.bytes.end), |(count, _), element| {
            (count + 1, element.bytes.end)
        });
        self.bytes.drain(start..end);
        self.len -= count;
    }
}

/// Writes a score; the number of its bytes.
fn write_score(score: f64, into: &mut [u8; SCORE_BYTES_MAX]) -> usize {
    // The comparison takes away the sign of a zero.
    let fits = |bound: f64| score.fract() == 0.0 && score >= -bound && score < bound;
    let mut write = |kind: u8, bytes: &[u8]| {
        into[0] = kind;
        into[1..=bytes.len()].copy_from_slice(bytes);
        1 + bytes.len()
    };
    if (0.0..f64::from(SCORE_16)).contains(&score) && fits(256.0) {
        write(score as u8, &[])
    } else if fits(32_768.0) {
        write(SCORE_16, &(score as i16).to_le_bytes())
    } else if fits(2_147_483_648.0) {
        write(SCORE_32, &(score as i32).to_le_bytes())
    } else {
        write(SCORE_DOUBLE, &score.to_le_bytes())
    }
}

/// The elements of a small sorted set.
#[derive(Clone, Debug)]
pub(super) struct Elements<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Elements<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = *self.bytes.get(self.at..)?.first_chunk()?;
        self.at += N;
        Some(taken)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        let start = self.at;
        let len = match self.take()? {
            [LONG] => u32::from_le_bytes(self.take()?) as usize,
            [len] => usize::from(len),
        };
        let member = self.bytes.get(self.at..self.at + len)?;
        self.at += len;
        let score = match self.take()? {
            [SCORE_16] => f64::from(i16::from_le_bytes(self.take()?)),
            [SCORE_32] => f64::from(i32::from_le_bytes(self.take()?)),
            [SCORE_DOUBLE] => f64::from_le_bytes(self.take()?),
            [small] => f64::from(small),
        };
        Some(Element {
            member,
            score,
            bytes: start..self.at,
        })
    }
}

/// The members and scores of some elements.
pub(super) fn owned(elements: Vec<Element<'_>>) -> impl DoubleEndedIterator<Item = (Blob, f64)> {
    elements
        .into_iter()
        .map(|element| (Blob::new(element.member), element.score))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_back() {
        let scores = [
            0.0,
            1.0,
            252.0,
            253.0,
            255.0,
            256.0,
            -1.0,
            -32_768.0,
            32_768.0,
            -32_769.0,
            2_147_483_647.0,
            2_147_483_648.0,
            -2_147_483_648.0,
            0.5,
            -1e300,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MIN_POSITIVE,
        ];
        let lengths = [0, 1, 254, 255, 256, 70_000];
        let (mut packed, mut model) = (Packed::default(), Vec::new());
        for (number, score) in scores.iter().enumerate() {
            for len in lengths {
                let rank = (number * 7 + len) % (model.len() + 1);
                let member = vec![b'a' + number as u8; len];
                packed.insert(rank, &member, *score);
                model.insert(rank, (member, *score));
            }
        }
        let same = |packed: &Packed, model: &[(Vec<u8>, f64)]| {
            let pairs = packed
                .iter()
                .map(|element| (element.member.to_vec(), element.score));
            packed.len() == model.len() && pairs.eq(model.iter().cloned())
        };
        assert!(same(&packed, &model));
        let before = packed.clone();
        for ranks in [3..3, 0..1, 5..20, 70..86] {
            packed.remove(ranks.clone());
            model.drain(ranks);
            assert!(same(&packed, &model));
        }
        assert_eq!(before.len(), scores.len() * lengths.len());
        assert_eq!(packed.find(b"no"), None);
    }

    #[test]
    fn negative_zero_becomes_zero() {
        let mut packed = Packed::default();
        packed.insert(0, b"a", -0.0);
        assert!(
            packed
                .find(b"a")
                .is_some_and(|(_, score)| score.is_sign_positive())
        );
    }
}
