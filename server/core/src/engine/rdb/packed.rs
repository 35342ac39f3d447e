//! A listpack that is read and changed in place, for values that keep their elements in one.
//!
//! Positions are offsets of elements in the bytes. A change before a position moves it.

use super::listpack::{
    END, HEADER_BYTES, backward_bytes, integer, integer_bytes, push_backward, push_integer,
    push_text,
};
use crate::resp::Blob;

/// The position of the first element.
pub(crate) const FIRST: usize = HEADER_BYTES;

/// A listpack. It is well-formed, or its methods return `None`.
#[derive(Clone, Debug)]
pub(crate) struct Listpack(Vec<u8>);

/// An element.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Element<'a> {
    Integer(i64),
    Text(&'a [u8]),
}

impl Element<'_> {
    pub(crate) fn to_blob(self) -> Blob {
        match self {
            Self::Integer(value) => Blob::from_integer(value),
            Self::Text(text) => Blob::new(text),
        }
    }

    /// True if the element stands for these bytes.
    pub(crate) fn is(self, bytes: &[u8]) -> bool {
        match self {
            Self::Integer(value) => integer(bytes) == Some(value),
            Self::Text(text) => text == bytes,
        }
    }
}

/// Bytes of the header of an element, and of the data behind it.
struct Span {
    header: usize,
    data: usize,
}

impl Listpack {
    pub(crate) fn new() -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.push(END);
        let mut pack = Self(bytes);
        pack.count_bytes();
        pack
    }

    /// `None` if the bytes are not a listpack.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        // Reads everything once.
        super::listpack::decode(bytes)?;
        Some(Self(bytes.to_vec()))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Frees memory that no element uses.
    pub(crate) fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }

    /// The position behind the last element.
    pub(crate) fn end(&self) -> usize {
        self.0.len() - 1
    }

    fn span(&self, at: usize) -> Option<Span> {
        let first = *self.0.get(at)?;
        let (header, data) = match first {
            0..0x80 => (1, 0),
            0x80..0xc0 => (1, usize::from(first & 0x3f)),
            0xc0..0xe0 => (2, 0),
            0xe0..0xf0 => (
                2,
                usize::from(u16::from_be_bytes([first & 0x0f, *self.0.get(at + 1)?])),
            ),
            0xf0 => {
                let len = self.0.get(at + 1..at + 5)?.try_into().ok()?;
                (5, usize::try_from(u32::from_le_bytes(len)).ok()?)
            }
            0xf1 => (1, 2),
            0xf2 => (1, 3),
            0xf3 => (1, 4),
            0xf4 => (1, 8),
            _ => return None,
        };
        Some(Span { header, data })
    }

    /// The position of the next element.
    #[inline]
    pub(crate) fn skip(&self, at: usize) -> Option<usize> {
        let Span { header, data } = self.span(at)?;
        let len = header + data;
        Some(at + len + backward_bytes(len))
    }

    /// The element at a position, and the position of the next one.
    pub(crate) fn element(&self, at: usize) -> Option<(Element<'_>, usize)> {
        let Span { header, data } = self.span(at)?;
        let first = self.0[at];
        let bytes = self.0.get(at + header..at + header + data)?;
        let element = match first {
            0..0x80 => Element::Integer(first.into()),
            0xc0..0xe0 => {
                let bits = u16::from_be_bytes([first & 0x1f, *self.0.get(at + 1)?]);
                // 13 bits, the highest of them the sign.
                Element::Integer(i64::from((bits << 3) as i16 >> 3))
            }
            0xf1.. => {
                // The sign of the last byte fills the other bytes.
                let fill = if bytes.last()? & 0x80 == 0 { 0 } else { 0xff };
                let mut whole = [fill; 8];
                whole[..data].copy_from_slice(bytes);
                Element::Integer(i64::from_le_bytes(whole))
            }
            _ => Element::Text(bytes),
        };
        let len = header + data;
        Some((element, at + len + backward_bytes(len)))
    }

    /// The integer at a position, and the position of the next element.
    pub(crate) fn integer(&self, at: usize) -> Option<(i64, usize)> {
        match self.element(at)? {
            (Element::Integer(value), next) => Some((value, next)),
            (Element::Text(_), _) => None,
        }
    }

    /// The position of the element that ends before this position.
    pub(crate) fn back(&self, end: usize) -> Option<usize> {
        let (mut len, mut shift, mut at) = (0_usize, 0, end);
        loop {
            at = at.checked_sub(1)?;
            let byte = *self.0.get(at)?;
            len |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
            if shift > 28 {
                return None;
            }
        }
        at.checked_sub(len).filter(|at| *at >= FIRST)
    }

    /// Appends an element, as an integer if the text is one.
    pub(crate) fn push(&mut self, text: &[u8]) {
        match integer(text) {
            Some(value) => self.push_integer(value),
            None => self.push_with(|out| push_text(text, out)),
        }
    }

    pub(crate) fn push_integer(&mut self, value: i64) {
        self.push_with(|out| push_integer(value, out));
    }

    fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.0.pop();
        let begin = self.0.len();
        write(&mut self.0);
        push_backward(self.0.len() - begin, &mut self.0);
        self.0.push(END);
        let count = u16::from_le_bytes([self.0[4], self.0[5]]);
        // The greatest number means that the number is unknown.
        self.0[4..HEADER_BYTES].copy_from_slice(&count.saturating_add(1).to_le_bytes());
        self.count_bytes();
    }

    fn count_bytes(&mut self) {
        let total = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&total.to_le_bytes());
    }

    /// Replaces an element by an integer.
    pub(crate) fn set_integer(&mut self, at: usize, value: i64) {
        let Some(next) = self.skip(at) else {
            return;
        };
        let len = integer_bytes(value);
        let mut element = Vec::with_capacity(len + 1);
        push_integer(value, &mut element);
        push_backward(len, &mut element);
        if element.len() == next - at {
            self.0[at..next].copy_from_slice(&element);
        } else {
            self.0.splice(at..next, element);
            self.count_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> Vec<Blob> {
        let texts = [0, 1, 63, 64, 4095, 4096, 20_000].map(|len| "x".repeat(len));
        let integers = [
            0,
            127,
            128,
            -1,
            -5000,
            40_000,
            9_000_000,
            i64::MIN,
            i64::MAX,
        ];
        let integers = integers.map(Blob::from_integer);
        texts.map(Blob::from).into_iter().chain(integers).collect()
    }

    #[test]
    fn pushed_elements_are_found_in_both_directions() {
        let mut pack = Listpack::new();
        texts().iter().for_each(|text| pack.push(text));
        assert_eq!(
            super::super::listpack::decode(pack.as_bytes()),
            Some(texts())
        );
        let (mut at, mut places) = (FIRST, Vec::new());
        for text in texts() {
            let (element, next) = pack.element(at).expect("an element");
            assert!(element.is(&text) && element.to_blob() == text);
            assert_eq!(pack.skip(at), Some(next));
            places.push(at);
            at = next;
        }
        assert_eq!(at, pack.end());
        for place in places.into_iter().rev() {
            at = pack.back(at).expect("an element before");
            assert_eq!(at, place);
        }
        assert_eq!(pack.back(at), None);
    }

    #[test]
    fn an_integer_takes_the_place_of_another() {
        let mut pack = Listpack::new();
        for text in ["1", "abc", "2"] {
            pack.push(text.as_bytes());
        }
        for value in [127, 128, 5, i64::MAX, -1] {
            pack.set_integer(FIRST, value);
            let expected = [
                Blob::from_integer(value),
                Blob::from("abc"),
                Blob::from("2"),
            ];
            let found = super::super::listpack::decode(pack.as_bytes());
            assert_eq!(found, Some(expected.to_vec()));
        }
    }
}
