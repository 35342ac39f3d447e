//! Ziplists: what listpacks were until Redis 7.0 (`ziplist.c`). They are read, never written.
//!
//! Total bytes (4), offset of the last entry (4), number of entries (2, or 65535 for "count them"), entries, 255.
//! An entry is the length of the one before it (1 byte, or 254 and 4 bytes), an encoding, and its data.

use crate::resp::Blob;

const HEADER_BYTES: usize = 10;
const END: u8 = 0xff;
/// The length of the entry before follows in four bytes.
const LONG: u8 = 0xfe;
/// Number of entries in the header if the real number does not fit.
const COUNT_UNKNOWN: u16 = u16::MAX;

/// Returns the entries; `None` if the bytes are not a ziplist.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<Blob>> {
    let (header, mut rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let total = u32::from_le_bytes(*header.first_chunk()?);
    let last_at = u32::from_le_bytes(*header[4..].first_chunk()?);
    let count = u16::from_le_bytes(*header[8..].first_chunk()?);
    if usize::try_from(total).ok() != Some(bytes.len()) {
        return None;
    }
    let mut entries = Vec::new();
    let mut before = 0;
    while *rest.first()? != END {
        let (said, body) = length_before(rest)?;
        if said != before {
            return None;
        }
        let (entry, behind) = decode_entry(body)?;
        before = rest.len() - behind.len();
        rest = behind;
        entries.push(entry);
    }
    let is_counted = count == COUNT_UNKNOWN || usize::from(count) == entries.len();
    let is_last_said = usize::try_from(last_at).ok()? == bytes.len() - 1 - before;
    (rest.len() == 1 && is_counted && is_last_said).then_some(entries)
}

/// The length of the entry before, and what follows it.
fn length_before(rest: &[u8]) -> Option<(usize, &[u8])> {
    match rest.split_first()? {
        (&LONG, rest) => {
            let (len, rest) = rest.split_first_chunk()?;
            Some((usize::try_from(u32::from_le_bytes(*len)).ok()?, rest))
        }
        (len, rest) => Some((usize::from(*len), rest)),
    }
}

/// An entry behind the length of the one before, and what follows it.
fn decode_entry(rest: &[u8]) -> Option<(Blob, &[u8])> {
    let (first, rest) = rest.split_first()?;
    let text = |len: usize, rest: &'_ [u8]| {
        let (text, _) = rest.split_at_checked(len)?;
        Some(Blob::new(text))
    };
    let integer = |count: usize| {
        let (bytes, rest) = rest.split_at_checked(count)?;
        // The sign of the last byte fills the missing bytes.
        let fill = if bytes.last()? & 0x80 == 0 { 0 } else { 0xff };
        let mut whole = [fill; 8];
        whole[..count].copy_from_slice(bytes);
        Some((Blob::from_integer(i64::from_le_bytes(whole)), rest))
    };
    let (len, rest) = match first {
        0..0x40 => (usize::from(first & 0x3f), rest),
        0x40..0x80 => {
            let (second, rest) = rest.split_first()?;
            (usize::from(first & 0x3f) << 8 | usize::from(*second), rest)
        }
        0x80 => {
            let (len, rest) = rest.split_first_chunk()?;
            (usize::try_from(u32::from_be_bytes(*len)).ok()?, rest)
        }
        0xc0 => return integer(2),
        0xd0 => return integer(4),
        0xe0 => return integer(8),
        0xf0 => return integer(3),
        0xfe => return integer(1),
        0xf1..=0xfd => return Some((Blob::from_integer(i64::from(first & 0x0f) - 1), rest)),
        _ => return None,
    };
    Some((text(len, rest)?, rest.get(len..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ziplist of entries behind the lengths of those before them.
    fn ziplist(entries: &[&[u8]]) -> Vec<u8> {
        let mut body = Vec::new();
        let (mut before, mut last_at) = (0, HEADER_BYTES);
        for entry in entries {
            last_at = HEADER_BYTES + body.len();
            match u8::try_from(before) {
                Ok(len) if len < LONG => body.push(len),
                _ => {
                    body.push(LONG);
                    body.extend((before as u32).to_le_bytes());
                }
            }
            body.extend_from_slice(entry);
            before = HEADER_BYTES + body.len() - last_at;
        }
        let mut out = ((HEADER_BYTES + body.len() + 1) as u32)
            .to_le_bytes()
            .to_vec();
        out.extend((last_at as u32).to_le_bytes());
        out.extend((entries.len() as u16).to_le_bytes());
        out.extend(body);
        out.push(END);
        out
    }

    #[test]
    fn every_encoding_is_read() {
        let long = [&[0x41, 0x2c][..], &[b'x'; 300]].concat();
        let longer = [&[0x80, 0, 0, 0x50, 0][..], &[b'y'; 0x5000]].concat();
        let bytes = ziplist(&[
            b"\x01a",
            b"\xf1",
            b"\xfd",
            b"\xfe\xff",
            b"\xc0\x2c\x01",
            b"\xf0\x00\x00\x80",
            b"\xd0\x00\x00\x01\x00",
            b"\xe0\x00\x00\x00\x00\x00\x00\x00\x80",
            &long,
            &longer,
            b"\x00",
        ]);
        let expected = [
            "a",
            "0",
            "12",
            "-1",
            "300",
            "-8388608",
            "65536",
            "-9223372036854775808",
            &"x".repeat(300),
            &"y".repeat(0x5000),
            "",
        ];
        assert_eq!(decode(&bytes), Some(expected.map(Blob::from).to_vec()));
        for cut in (0..200).chain(bytes.len() - 200..bytes.len()) {
            assert_eq!(decode(&bytes[..cut]), None);
        }
        for at in 0..200 {
            let mut changed = bytes.clone();
            changed[at] ^= 0xff;
            let _either = decode(&changed);
        }
    }
}
