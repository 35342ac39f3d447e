//! Ids of stream entries: a time in milliseconds and a sequence number within it.

use crate::resp::{Blob, parse_integer};
use std::fmt;

/// The id of an entry (`stream.h: streamID`). Ordered by time, then by sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamId {
    /// Milliseconds.
    pub(crate) ms: u64,
    /// Sequence number within the millisecond.
    pub(crate) seq: u64,
}

/// An id as XADD takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewId {
    /// `*`
    Auto,
    /// `ms-*`
    AutoSeq(u64),
    /// `ms` or `ms-seq`
    Given(StreamId),
}

impl StreamId {
    pub(crate) const MIN: Self = Self { ms: 0, seq: 0 };
    pub(crate) const MAX: Self = Self {
        ms: u64::MAX,
        seq: u64::MAX,
    };

    pub(crate) const fn new(ms: u64, seq: u64) -> Self {
        Self { ms, seq }
    }

    /// Reads `ms` or `ms-seq`. `missing_seq` stands for a sequence number that is not given.
    pub(crate) fn parse(text: &[u8], missing_seq: u64) -> Option<Self> {
        // Redis copies the text to a buffer of this size.
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let text = c_text(text);
        match text.iter().position(|byte| *byte == b'-') {
            Some(at) => Some(Self::new(number(&text[..at])?, number(&text[at + 1..])?)),
            None => Some(Self::new(number(text)?, missing_seq)),
        }
    }

    /// The next id; `None` behind the last one.
    pub(crate) fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self::new(self.ms, seq)),
            None => Some(Self::new(self.ms.checked_add(1)?, 0)),
        }
    }

    /// The id before this one; `None` before the first one.
    pub(crate) fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Self::new(self.ms, seq)),
            None => Some(Self::new(self.ms.checked_sub(1)?, u64::MAX)),
        }
    }

    /// The text of the id.
    pub(crate) fn to_blob(self) -> Blob {
        let mut text = [0; 2 * DIGITS_MAX + 1];
        let mut len = 0;
        let mut write = |part: &[u8]| {
            text[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        };
        let mut digits = itoa::Buffer::new();
        write(digits.format(self.ms).as_bytes());
        write(b"-");
        write(digits.format(self.seq).as_bytes());
        Blob::new(&text[..len])
    }

    /// Sixteen bytes that sort as the id does (`t_stream.c: streamEncodeID`).
    pub(super) fn to_bytes(self) -> [u8; 16] {
        ((u128::from(self.ms) << 64) | u128::from(self.seq)).to_be_bytes()
    }

    pub(super) fn from_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_be_bytes(bytes);
        Self::new((both >> 64) as u64, both as u64)
    }
}

impl NewId {
    /// Reads `*`, `ms-*`, `ms` or `ms-seq`.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if c_text(text) == b"*" {
            return Some(Self::Auto);
        }
        if text.len() <= TEXT_BYTES_MAX
            && let Some(ms) = c_text(text).strip_suffix(b"-*")
            && !ms.contains(&b'-')
        {
            return number(ms).map(Self::AutoSeq);
        }
        StreamId::parse(text, 0).map(Self::Given)
    }

    /// The id of an entry that is added now; `None` if the stream has an entry with this id or a greater one
    /// (`t_stream.c: streamAppendItem`, `streamNextID`).
    pub(crate) fn resolve(self, last: StreamId, now_ms: u64) -> Option<StreamId> {
        let id = match self {
            Self::Auto if now_ms > last.ms => StreamId::new(now_ms, 0),
            Self::Auto => last.next()?,
            Self::AutoSeq(ms) if ms == last.ms => StreamId::new(ms, last.seq.checked_add(1)?),
            Self::AutoSeq(ms) => StreamId::new(ms, 0),
            Self::Given(id) => id,
        };
        (id > last).then_some(id)
    }
}

/// Digits of the greatest part of an id.
const DIGITS_MAX: usize = 20;
/// Longest text of an id.
const TEXT_BYTES_MAX: usize = 127;

/// `util.c: string2ull`: what C's `strtoull` reads, but nothing below zero in its plain spelling.
fn number(text: &[u8]) -> Option<u64> {
    if parse_integer(text).is_some_and(|value| value < 0) {
        return None;
    }
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let begin = text.iter().position(|byte| !is_space(byte))?;
    let (is_negative, digits) = match &text[begin..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let value = digits.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })?;
    Some(if is_negative {
        value.wrapping_neg()
    } else {
        value
    })
}

/// The part of a text that C reads: up to its first zero byte.
fn c_text(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_redis_reads_them() {
        let max = u64::MAX;
        for (text, id) in [
            ("5", Some(StreamId::new(5, 7))),
            ("5-3", Some(StreamId::new(5, 3))),
            ("0-0", Some(StreamId::MIN)),
            (
                "18446744073709551615-18446744073709551615",
                Some(StreamId::MAX),
            ),
            ("18446744073709551616", None),
            ("-5", None),
            ("5-", None),
            ("-", None),
            ("", None),
            ("5-3-1", None),
            ("a-1", None),
            ("1-*", None),
            ("007-03", Some(StreamId::new(7, 3))),
            ("+7-3", Some(StreamId::new(7, 3))),
            (" 7-\t3", Some(StreamId::new(7, 3))),
            ("7- -1", Some(StreamId::new(7, u64::MAX))),
            ("7--1", None),
            ("7-3\0x", Some(StreamId::new(7, 3))),
        ] {
            assert_eq!(StreamId::parse(text.as_bytes(), 7), id, "{text}");
        }
        assert_eq!(StreamId::parse(b"5", max), Some(StreamId::new(5, max)));
    }

    #[test]
    fn neighbours_meet_at_the_milliseconds() {
        assert_eq!(StreamId::new(1, u64::MAX).next(), Some(StreamId::new(2, 0)));
        assert_eq!(
            StreamId::new(2, 0).previous(),
            Some(StreamId::new(1, u64::MAX))
        );
        assert_eq!(
            (StreamId::MAX.next(), StreamId::MIN.previous()),
            (None, None)
        );
        let id = StreamId::new(3, 9);
        assert_eq!(StreamId::from_bytes(id.to_bytes()), id);
    }

    #[test]
    fn new_ids_are_greater_than_the_last_one() {
        let last = StreamId::new(10, 5);
        for (text, now, id) in [
            ("*", 11, Some(StreamId::new(11, 0))),
            ("*", 10, Some(StreamId::new(10, 6))),
            ("*", 3, Some(StreamId::new(10, 6))),
            ("10-*", 3, Some(StreamId::new(10, 6))),
            ("11-*", 3, Some(StreamId::new(11, 0))),
            ("9-*", 3, None),
            ("10-5", 3, None),
            ("10-6", 3, Some(StreamId::new(10, 6))),
        ] {
            let new = NewId::parse(text.as_bytes()).expect(text);
            assert_eq!(new.resolve(last, now), id, "{text}");
        }
        assert_eq!(NewId::Auto.resolve(StreamId::MAX, 5), None);
    }
}
