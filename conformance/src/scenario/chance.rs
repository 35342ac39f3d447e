//! Stateless randomness: every draw is a hash of its purpose.
//!
//! With a shared generator, one draw less would change all later draws. Here a draw names its purpose, for
//! instance (seed, host, event, n), so deleting an event from a scenario leaves all other draws as they were.
//! Shrinking depends on that.

/// Draws 64 bits for the purpose `parts`.
pub(crate) fn draw<const N: usize>(parts: [u64; N]) -> u64 {
    parts
        .into_iter()
        .fold(0x9e37_79b9_7f4a_7c15, |state, part| {
            scramble(state.rotate_left(17) ^ scramble(part))
        })
}

/// Draws a number below `bound` (0 if `bound` is 0).
pub(crate) fn below<const N: usize>(bound: u64, parts: [u64; N]) -> u64 {
    let product = u128::from(draw(parts)) * u128::from(bound);
    u64::try_from(product >> 64).unwrap_or(0)
}

/// The finalizer of SplitMix64.
fn scramble(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_on_every_part_and_its_place() {
        assert_eq!(draw([1, 2, 3]), draw([1, 2, 3]));
        assert_ne!(draw([1, 2, 3]), draw([1, 3, 2]));
        assert_ne!(draw([1, 2]), draw([1, 2, 0]));
    }

    #[test]
    fn bounded_draws_stay_below_their_bound() {
        assert_eq!(below(0, [1]), 0);
        assert!((0..1_000).all(|n| below(7, [n]) < 7));
        assert!((0..7).all(|wanted| (0..1_000).any(|n| below(7, [n]) == wanted)));
    }
}
