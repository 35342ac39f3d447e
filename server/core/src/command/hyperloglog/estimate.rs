//! Arithmetic of HyperLogLog: which register an element concerns, and the estimate from the registers. Knows no
//! bytes of a sketch.
//!
//! The estimator is the one of Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017).

/// Number of registers.
pub(super) const REGISTERS: usize = 1 << 14;
/// Number of values that six bits have.
pub(super) const RANKS: usize = 64;
/// Number of registers with each value.
pub(super) type Histogram = [usize; RANKS];

/// Bits of a hash that choose a register.
const INDEX_BITS: u32 = REGISTERS.trailing_zeros();
/// Bits of a hash that make the value of a register.
const VALUE_BITS: u32 = u64::BITS - INDEX_BITS;
/// Seed of the hash.
const SEED: u64 = 0xadc8_3b19;
/// `1 / (2 ln 2)`.
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// MurmurHash64A of Austin Appleby, with Redis's seed.
fn hash(bytes: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(M);
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word = word
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
        let word = word.wrapping_mul(M);
        hash = (hash ^ (word ^ word >> 47).wrapping_mul(M)).wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let word = rest
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
        hash = (hash ^ word).wrapping_mul(M);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(M);
    hash ^ hash >> 47
}

/// Returns the register of an element, and the value that the element sets there.
pub(super) fn register_of(element: &[u8]) -> (usize, u8) {
    let hash = hash(element);
    let index = hash as usize & (REGISTERS - 1);
    let rest = hash >> INDEX_BITS | 1 << VALUE_BITS;
    (index, rest.trailing_zeros() as u8 + 1)
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

/// The estimated number of different elements.
pub(super) fn estimate(histogram: &Histogram) -> u64 {
    let m = REGISTERS as f64;
    let highest = VALUE_BITS as usize + 1;
    let mut z = m * tau((m - histogram[highest] as f64) / m);
    for count in histogram[1..highest].iter().rev() {
        z = (z + *count as f64) * 0.5;
    }
    z += m * sigma(histogram[0] as f64 / m);
    (ALPHA * m * m / z).round() as u64
}
