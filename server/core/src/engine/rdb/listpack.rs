//! Listpacks: strings and integers in one run of bytes, each followed by its length (`listpack.c`).
//!
//! Total bytes (4), number of entries (2, or 65535 for "count them"), entries, 255. An entry is an
//! encoding with its data, and the length of both, written so that it can be read backwards.

use crate::resp::{Blob, parse_integer};

/// The header and the end.
pub(in crate::engine) const EMPTY_BYTES: usize = HEADER_BYTES + 1;
pub(super) const HEADER_BYTES: usize = 6;
pub(super) const END: u8 = 0xff;
/// Number of entries in the header if the real number does not fit.
const COUNT_UNKNOWN: u16 = u16::MAX;
/// Longer texts are never integers.
const INTEGER_BYTES_MAX: usize = 20;

pub(super) fn encode<'a>(entries: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = vec![0; HEADER_BYTES];
    let mut count = 0_u16;
    for entry in entries {
        let begin = out.len();
        push_data(entry, &mut out);
        let len = out.len() - begin;
        push_backward(len, &mut out);
        count = count.saturating_add(1);
    }
    out.push(END);
    let total = u32::try_from(out.len()).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&total.to_le_bytes());
    out[4..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
    out
}

/// Size of an entry, bytes.
pub(in crate::engine) fn entry_bytes(entry: &[u8]) -> usize {
    let data = match integer(entry) {
        Some(value) => integer_bytes(value),
        None => match entry.len() {
            len @ 0..64 => 1 + len,
            len @ 64..4096 => 2 + len,
            len => 5 + len,
        },
    };
    data + backward_bytes(data)
}

pub(super) fn integer(entry: &[u8]) -> Option<i64> {
    parse_integer(entry).filter(|_| entry.len() <= INTEGER_BYTES_MAX)
}

pub(super) fn integer_bytes(value: i64) -> usize {
    const INT24: std::ops::Range<i64> = -(1 << 23)..1 << 23;
    match value {
        0..=127 => 1,
        -4096..=4095 => 2,
        -32768..=32767 => 3,
        _ if INT24.contains(&value) => 4,
        _ if i32::try_from(value).is_ok() => 5,
        _ => 9,
    }
}

fn push_data(entry: &[u8], out: &mut Vec<u8>) {
    match integer(entry) {
        Some(value) => push_integer(value, out),
        None => push_text(entry, out),
    }
}

pub(super) fn push_text(text: &[u8], out: &mut Vec<u8>) {
    match text.len() {
        len @ 0..64 => out.push(0x80 | len as u8),
        len @ 64..4096 => out.extend((0xe000 | len as u16).to_be_bytes()),
        len => {
            out.push(0xf0);
            out.extend(u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
        }
    }
    out.extend_from_slice(text);
}

pub(super) fn push_integer(value: i64, out: &mut Vec<u8>) {
    let bytes = value.to_le_bytes();
    match integer_bytes(value) {
        1 => out.push(value as u8),
        2 => out.extend((0xc000 | (value as u16 & 0x1fff)).to_be_bytes()),
        count => {
            out.push(match count {
                3 => 0xf1,
                4 => 0xf2,
                5 => 0xf3,
                _ => 0xf4,
            });
            out.extend_from_slice(&bytes[..count - 1]);
        }
    }
}

/// `listpack.c: lpEncodeBacklen`.
pub(super) fn backward_bytes(len: usize) -> usize {
    match len {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// Seven bits a byte, the lowest last; all but the first are marked.
pub(super) fn push_backward(len: usize, out: &mut Vec<u8>) {
    for at in (0..backward_bytes(len)).rev() {
        let is_first = at + 1 == backward_bytes(len);
        let bits = (len >> (7 * at)) as u8 & 0x7f;
        out.push(bits | if is_first { 0 } else { 0x80 });
    }
}

/// Returns the entries; `None` if the bytes are not a listpack.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<Blob>> {
    let (header, mut rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let total = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let count = u16::from_le_bytes([header[4], header[5]]);
    if usize::try_from(total).ok() != Some(bytes.len()) {
        return None;
    }
    let mut entries = Vec::new();
    while *rest.first()? != END {
        let (entry, len) = decode_entry(rest)?;
        entries.push(entry);
        let mut backward = Vec::with_capacity(5);
        push_backward(len, &mut backward);
        rest = rest.get(len..)?.strip_prefix(&backward[..])?;
    }
    let is_counted = count == COUNT_UNKNOWN || usize::from(count) == entries.len();
    (rest.len() == 1 && is_counted).then_some(entries)
}

/// An entry, and the bytes of its encoding and data.
fn decode_entry(rest: &[u8]) -> Option<(Blob, usize)> {
    let first = *rest.first()?;
    let text = |at: usize, len: usize| {
        let end = at.checked_add(len)?;
        Some((Blob::new(rest.get(at..end)?), end))
    };
    let integer = |count: usize| {
        let bytes = rest.get(1..=count)?;
        // The sign of the last byte fills the missing bytes.
        let fill = if bytes.last()? & 0x80 == 0 { 0 } else { 0xff };
        let mut whole = [fill; 8];
        whole[..count].copy_from_slice(bytes);
        Some((Blob::from_integer(i64::from_le_bytes(whole)), count + 1))
    };
    match first {
        0..0x80 => Some((Blob::from_integer(i64::from(first)), 1)),
        0x80..0xc0 => text(1, usize::from(first & 0x3f)),
        0xc0..0xe0 => {
            let bits = u16::from_be_bytes([first & 0x1f, *rest.get(1)?]);
            // 13 bits, the highest of them the sign.
            let value = i64::from((bits << 3) as i16 >> 3);
            Some((Blob::from_integer(value), 2))
        }
        0xe0..0xf0 => text(
            2,
            usize::from(u16::from_be_bytes([first & 0x0f, *rest.get(1)?])),
        ),
        0xf0 => {
            let len: [u8; 4] = rest.get(1..5)?.try_into().ok()?;
            text(5, usize::try_from(u32::from_le_bytes(len)).ok()?)
        }
        0xf1 => integer(2),
        0xf2 => integer(3),
        0xf3 => integer(4),
        0xf4 => integer(8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_and_take_what_was_said() {
        let integers = [
            0,
            127,
            128,
            -1,
            -4096,
            4095,
            4096,
            -4097,
            32767,
            32768,
            -32769,
            8_388_607,
            8_388_608,
            -8_388_609,
            i64::from(i32::MAX),
            i64::from(i32::MAX) + 1,
            i64::MIN,
            i64::MAX,
        ];
        let sizes = [0, 1, 63, 64, 125, 126, 4095, 4096, 16_380, 16_384, 70_000];
        let texts = sizes.map(|len| Blob::from("x".repeat(len)));
        let entries: Vec<Blob> = integers
            .map(Blob::from_integer)
            .into_iter()
            .chain(texts)
            .collect();
        let bytes = encode(entries.iter().map(|entry| &**entry));
        let said: usize = entries.iter().map(|entry| entry_bytes(entry)).sum();
        assert_eq!(bytes.len(), EMPTY_BYTES + said);
        assert_eq!(decode(&bytes), Some(entries));
    }

    #[test]
    fn many_entries_are_not_counted() {
        let entries: Vec<Blob> = (0..70_000).map(Blob::from_integer).collect();
        assert_eq!(
            decode(&encode(entries.iter().map(|entry| &**entry))),
            Some(entries)
        );
    }

    #[test]
    fn bytes_are_those_of_redis() {
        let entries = [
            Blob::from("a"),
            Blob::from("1"),
            Blob::from("-1"),
            Blob::from("300"),
        ];
        assert_eq!(
            encode(entries.iter().map(|entry| &**entry)),
            [
                18, 0, 0, 0, 4, 0, 0x81, b'a', 2, 1, 1, 0xdf, 0xff, 2, 0xc1, 0x2c, 2, 0xff
            ]
        );
    }

    #[test]
    fn bytes_that_are_no_listpack_are_refused() {
        let bytes = encode([&b"abc"[..], b"70000"].into_iter());
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]), None);
        }
        for (at, value) in [
            (0, 0),
            (4, 7),
            (6, 0xf5),
            (6, 0xff),
            (10, 9),
            (bytes.len() - 1, 0),
        ] {
            let mut changed = bytes.clone();
            changed[at] = value;
            assert_eq!(decode(&changed), None, "{at}");
        }
    }
}
