//! Random elements of collections, as drawn by HRANDFIELD, SRANDMEMBER and similar commands.

use super::CommandError;
use crate::engine::{OutputLimits, Rng};
use std::collections::BTreeSet;

/// Largest number of elements that a command with a negative count returns. Redis writes until its memory
/// ends.
const RANDOM_MAX: usize = 1 << 22;
/// Least number of bytes of an element in a reply: `$0`, an empty line, and the ends of both lines.
const ELEMENT_BYTES_MIN: usize = 6;
/// Share below which elements are drawn until they differ (`HRANDFIELD_SUB_STRATEGY_MUL`).
const FEW: usize = 3;

/// A position below `len`, which is not 0.
pub(super) fn one(rng: &mut Rng, len: usize) -> usize {
    (rng.next_u64() % len as u64) as usize
}

/// Returns how many elements a command draws for a negative count. A client whose reply exceeds the hard limit of its output is
/// disconnected, so the command draws no more than that takes.
pub(super) fn repeated(
    size: usize,
    limits: OutputLimits,
    what: &str,
) -> Result<usize, CommandError> {
    let exceeds = limits.hard_bytes / ELEMENT_BYTES_MIN + 1;
    if size <= RANDOM_MAX {
        Ok(size)
    } else if exceeds <= RANDOM_MAX {
        Ok(exceeds)
    } else {
        let text = format!("ERR redouble gives no more than {RANDOM_MAX} random {what} at once");
        Err(CommandError::Text(text.into()))
    }
}

/// Returns the positions for a command with a count: different ones, or for a negative count any.
pub(super) fn positions(
    rng: &mut Rng,
    len: usize,
    count: i64,
    limits: OutputLimits,
    what: &str,
) -> Result<Vec<usize>, CommandError> {
    let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count >= 0 {
        return Ok(different(rng, len, size));
    }
    let size = repeated(size, limits, what)?;
    Ok((0..size).map(|_| one(rng, len)).collect())
}

/// `count` different positions below `len`, in ascending order.
pub(super) fn different(rng: &mut Rng, len: usize, count: usize) -> Vec<usize> {
    let mut wanted = count.min(len);
    if wanted.saturating_mul(FEW) < len {
        let mut positions = BTreeSet::new();
        while positions.len() < wanted {
            positions.insert((rng.next_u64() % len as u64) as usize);
        }
        return positions.into_iter().collect();
    }
    // Algorithm S (Knuth, 3.4.2): each position is taken with the remaining probability.
    let mut positions = Vec::with_capacity(wanted);
    for at in 0..len {
        if wanted > 0 && rng.next_u64() % ((len - at) as u64) < wanted as u64 {
            positions.push(at);
            wanted -= 1;
        }
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_positions_are_different_and_all_likely() {
        let mut rng = Rng::new(3);
        for (count, expected) in [(2, 160..240), (6, 530..670)] {
            let mut seen = [0; 10];
            for _ in 0..1000 {
                let drawn = different(&mut rng, 10, count);
                assert!(drawn.len() == count && drawn.is_sorted_by(|a, b| a < b));
                drawn.iter().for_each(|at| seen[*at] += 1);
            }
            assert!(
                seen.iter().all(|count| expected.contains(count)),
                "{seen:?}"
            );
        }
        assert_eq!(different(&mut rng, 3, 9), [0, 1, 2]);
    }
}
