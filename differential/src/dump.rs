//! DUMP of a set or a hash that is a table, and FUNCTION DUMP of several libraries. Their members are in
//! random order, so they are compared one by one.

/// Types by the first byte of a DUMP: sets and hashes that are tables, and lists.
const SET: u8 = 2;
const HASH: u8 = 4;
const LIST: u8 = 18;
/// Byte before each library of FUNCTION DUMP.
const LIBRARY: u8 = 0xf5;
/// Length of the version and the checksum at the end.
const FOOTER_LEN: usize = 10;
const VERSION_LEN: usize = 2;

/// The bytes before the members of a table, the sorted members, and the version.
type Parts<'a> = (&'a [u8], Vec<&'a [u8]>, &'a [u8]);

/// Returns true if two dumps mean the same: they have the same bytes, except for the order of a table and the
/// checksum, which depends on it.
pub(super) fn same(real: &[u8], double: &[u8]) -> bool {
    real == double || members(real).is_some_and(|it| Some(it) == members(double))
}

/// Returns true if both are lists in nodes.
pub(super) fn are_lists(real: &[u8], double: &[u8]) -> bool {
    [real, double].iter().all(|it| it.first() == Some(&LIST))
}

fn members(dump: &[u8]) -> Option<Parts<'_>> {
    let (payload, footer) = dump.split_at_checked(dump.len().checked_sub(FOOTER_LEN)?)?;
    let version = &footer[..VERSION_LEN];
    let strings = match *dump.first()? {
        SET => 1,
        HASH => 2,
        LIBRARY => return Some((&[], libraries(payload)?, version)),
        _ => return None,
    };
    let (count, count_len) = length(payload.get(1..)?)?;
    let (head, mut rest) = payload.split_at_checked(1 + count_len)?;
    let mut members = Vec::new();
    for _ in 0..count {
        let len = (0..strings).try_fold(0, |at, _| Some(at + string_len(rest.get(at..)?)?))?;
        let (member, behind) = rest.split_at_checked(len)?;
        members.push(member);
        rest = behind;
    }
    members.sort_unstable();
    rest.is_empty().then_some((head, members, version))
}

fn libraries(mut rest: &[u8]) -> Option<Vec<&[u8]>> {
    let mut libraries = Vec::new();
    while let Some((&LIBRARY, behind)) = rest.split_first() {
        let (library, next) = behind.split_at_checked(string_len(behind)?)?;
        libraries.push(library);
        rest = next;
    }
    libraries.sort_unstable();
    rest.is_empty().then_some(libraries)
}

/// Returns a length, and the number of bytes that it takes; none for a string that is written as a number or
/// compressed.
fn length(bytes: &[u8]) -> Option<(usize, usize)> {
    let &first = bytes.first()?;
    let low = usize::from(first & 0x3f);
    match (first >> 6, first) {
        (0, _) => Some((low, 1)),
        (1, _) => Some((low << 8 | usize::from(*bytes.get(1)?), 2)),
        (2, 0x80) => {
            let four: [u8; 4] = bytes.get(1..5)?.try_into().ok()?;
            Some((usize::try_from(u32::from_be_bytes(four)).ok()?, 5))
        }
        _ => None,
    }
}

/// Returns the number of bytes that a string takes, including its length.
fn string_len(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? {
        0xc0 => Some(2),
        0xc1 => Some(3),
        0xc2 => Some(5),
        0xc3 => {
            let (compressed, first) = length(&bytes[1..])?;
            let (_, second) = length(bytes.get(1 + first..)?)?;
            Some(1 + first + second + compressed)
        }
        _ => length(bytes).map(|(len, taken)| taken + len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_may_come_in_any_order() {
        let one = b"\xf5\x01a\xf5\x02bb\x0a\0checksum";
        let other = b"\xf5\x02bb\xf5\x01a\x0a\0muskcech";
        let different = b"\xf5\x02bc\xf5\x01a\x0a\0muskcech";
        assert!(same(one, other));
        assert!(!same(one, different));
    }

    /// A dump in the form of 7.0.15, with a checksum that is ignored.
    fn dump(kind: u8, count: u8, members: &[&[u8]], checksum: u8) -> Vec<u8> {
        let mut text = vec![kind, count];
        text.extend(members.concat());
        text.extend([10, 0]);
        text.extend([checksum; 8]);
        text
    }

    #[test]
    fn a_table_has_no_order_and_everything_else_has() {
        let (a, b): (&[u8], &[u8]) = (b"\x01a\xc0\x07", b"\x01b\x03xyz");
        let squeezed: &[u8] = b"\x01c\xc3\x04\x40\x64\x01aa\xe0";
        let hash = dump(HASH, 3, &[a, b, squeezed], 1);
        assert!(same(&hash, &dump(HASH, 3, &[squeezed, b, a], 2)));
        assert!(!same(&hash, &dump(HASH, 3, &[a, b, b], 2)));
        assert!(!same(&hash, &dump(HASH, 2, &[a, b], 2)));
        // A field must not move to the value of another one.
        let swapped: &[u8] = b"\x01a\x03xyz\x01b\xc0\x07";
        assert!(!same(
            &dump(HASH, 2, &[a, b], 1),
            &dump(HASH, 2, &[swapped], 1)
        ));
        let (x, y): (&[u8], &[u8]) = (b"\x01x", b"\xc1\x00\x10");
        assert!(same(&dump(SET, 2, &[x, y], 1), &dump(SET, 2, &[y, x], 2)));
        // Lists have an order; their nodes are compared elsewhere.
        let lists = [[x, y], [y, x]].map(|members| dump(LIST, 2, &members, 1));
        assert!(!same(&lists[0], &lists[1]) && are_lists(&lists[0], &lists[1]));
        assert!(!are_lists(&lists[0], &hash) && !are_lists(&[], &lists[1]));
        assert!(!same(&hash, &hash[..hash.len() - 1]));
        for end in 0..hash.len() {
            assert!(!same(&hash[..end], &[]) || end == 0);
        }
    }
}
