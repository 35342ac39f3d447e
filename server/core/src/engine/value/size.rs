//! Sizes of Redis's own structures with jemalloc, which MEMORY USAGE adds up (`object.c`).

/// Bytes of an object.
pub(crate) const OBJECT: usize = 16;
/// Bytes of an entry of a hash table.
pub(crate) const ENTRY: usize = 24;
/// Bytes of a place of a hash table.
pub(crate) const PLACE: usize = 8;
/// Bytes of a hash table without places.
pub(super) const TABLE: usize = 56;
/// Least number of places of a hash table.
const PLACES_MIN: usize = 4;

/// Bytes that jemalloc gives for a request: steps of 16, and above 128 four steps per doubling.
pub(super) fn allocated(bytes: usize) -> usize {
    match bytes {
        0..=8 => 8,
        9..=128 => bytes.next_multiple_of(16),
        _ => bytes.next_multiple_of(bytes.next_power_of_two() / 8),
    }
}

/// Bytes of a string with its header, which depends on the length (`sds.c: sdsReqType`).
pub(crate) fn string(len: usize, may_be_short: bool) -> usize {
    let header = match len {
        1..32 if may_be_short => 1,
        0..256 => 3,
        256..65_536 => 5,
        _ => 9,
    };
    allocated(header + len + 1)
}

/// Returns the number of places of a hash table with `count` entries.
pub(crate) fn places(count: usize) -> usize {
    match count {
        0 => 0,
        count => count.next_power_of_two().max(PLACES_MIN),
    }
}

/// `count` times the mean of the first `samples` sizes.
pub(super) fn extrapolated(
    sizes: impl Iterator<Item = usize>,
    samples: usize,
    count: usize,
) -> usize {
    let (mut total, mut seen) = (0, 0);
    for size in sizes.take(samples) {
        (total, seen) = (total + size, seen + 1);
    }
    match seen {
        0 => 0,
        seen => (total as f64 / seen as f64 * count as f64) as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_as_jemalloc_does() {
        for (bytes, expected) in [
            (1, 8),
            (9, 16),
            (100, 112),
            (129, 160),
            (257, 320),
            (1006, 1024),
        ] {
            assert_eq!(allocated(bytes), expected, "{bytes}");
        }
    }
}
