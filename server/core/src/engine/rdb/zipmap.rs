//! Zipmaps: small hashes of Redis before 2.6 (`zipmap.c`). They are read, never written.
//!
//! Number of pairs (1 byte, 254 for "count them"), pairs, 255. A pair is the length of the field (1 byte, or 254 and 4
//! bytes), the field, the length of the value, the number of unused bytes behind it (1), the value, the unused bytes.

use crate::resp::Blob;

const END: u8 = 0xff;
/// The length follows in four bytes; a number of pairs that is not counted.
const LONG: u8 = 0xfe;

/// Returns fields and values; `None` if the bytes are not a zipmap.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<Blob>> {
    let (count, mut rest) = bytes.split_first()?;
    let mut entries = Vec::new();
    while *rest.first()? != END {
        let (len, behind) = length(rest)?;
        let (field, behind) = behind.split_at_checked(len)?;
        let (len, behind) = length(behind)?;
        let (unused, behind) = behind.split_first()?;
        let (value, behind) = behind.split_at_checked(len)?;
        let (_, behind) = behind.split_at_checked(usize::from(*unused))?;
        entries.extend([Blob::new(field), Blob::new(value)]);
        rest = behind;
    }
    let is_counted = *count >= LONG || usize::from(*count) == entries.len() / 2;
    (rest.len() == 1 && is_counted).then_some(entries)
}

fn length(rest: &[u8]) -> Option<(usize, &[u8])> {
    match rest.split_first()? {
        (&END, _) => None,
        (&LONG, rest) => {
            let (len, rest) = rest.split_first_chunk()?;
            Some((usize::try_from(u32::from_le_bytes(*len)).ok()?, rest))
        }
        (len, rest) => Some((usize::from(*len), rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_and_nonsense_is_refused() {
        let good = b"\x02\x01a\x01\x00b\x01c\x02\x01de\x00\xff";
        let entries = decode(good).expect("a zipmap");
        let entries: Vec<&[u8]> = entries.iter().map(|entry| &**entry).collect();
        assert_eq!(entries, [&b"a"[..], b"b", b"c", b"de"]);
        for cut in 0..good.len() {
            assert!(decode(&good[..cut]).is_none());
        }
        assert!(decode(b"\x03\x01a\x01\x00b\xff").is_none());
    }
}
