//! Counts, finds and combines the bits of byte strings, eight bytes at a time. Knows no key and no command.

use crate::resp::Blob;

/// BITOP works on blocks of this many bytes, which stay in the processor's cache.
const BLOCK: usize = 16 * 1024;

/// Bits of one byte from `from` on, and those before `to`; both are counted from the byte's highest bit.
const fn mask_from(from: usize) -> u8 {
    0xff >> (from % 8)
}

const fn mask_before(to: usize) -> u8 {
    !mask_from(to)
}

fn word(chunk: &[u8; 8]) -> u64 {
    u64::from_be_bytes(*chunk)
}

/// Number of set bits among the bits `from..to`, which must not be empty.
pub(super) fn count(bytes: &[u8], from: usize, to: usize) -> u64 {
    let (first, last) = (from / 8, to / 8);
    let ones = |byte: u8| u64::from(byte.count_ones());
    if first == last {
        return ones(bytes[first] & mask_from(from) & mask_before(to));
    }
    let (words, rest) = bytes[first + 1..last].as_chunks();
    let words: u64 = words
        .iter()
        .map(|it| u64::from(word(it).count_ones()))
        .sum();
    let rest: u64 = rest.iter().copied().map(ones).sum();
    let tail = if to.is_multiple_of(8) {
        0
    } else {
        ones(bytes[last] & mask_before(to))
    };
    ones(bytes[first] & mask_from(from)) + words + rest + tail
}

/// Position of the first bit among `from..to` that equals `bit`; the range must not be empty.
pub(super) fn find(bytes: &[u8], from: usize, to: usize, bit: bool) -> Option<usize> {
    let (first, last) = (from / 8, to / 8);
    // With the bits flipped, the search for a zero is the search for a one.
    let flip = if bit { 0 } else { 0xff };
    let in_byte = |at: usize, mask: u8| {
        let byte = (bytes[at] ^ flip) & mask;
        (byte != 0).then(|| at * 8 + byte.leading_zeros() as usize)
    };
    if first == last {
        return in_byte(first, mask_from(from) & mask_before(to));
    }
    if let Some(found) = in_byte(first, mask_from(from)) {
        return Some(found);
    }
    let start = first + 1;
    let (words, rest) = bytes[start..last].as_chunks();
    let none = u64::from_be_bytes([flip; 8]);
    if let Some(nth) = words.iter().position(|it| word(it) != none) {
        let bits = word(&words[nth]) ^ none;
        return Some((start + nth * 8) * 8 + bits.leading_zeros() as usize);
    }
    let tail = (!to.is_multiple_of(8)).then(|| (last, mask_before(to)));
    let mut rest = (last - rest.len()..last).map(|at| (at, 0xff)).chain(tail);
    rest.find_map(|(at, mask)| in_byte(at, mask))
}

/// Operation of BITOP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    And,
    Or,
    Xor,
    Not,
}

impl Operation {
    /// Combines `target` with the bytes of another source, which counts as followed by zeros.
    fn join(self, target: &mut [u8], other: &[u8]) {
        let common = target.len().min(other.len());
        let (both, alone) = target.split_at_mut(common);
        let pairs = both.iter_mut().zip(&other[..common]);
        match self {
            Self::And => {
                pairs.for_each(|(a, b)| *a &= b);
                alone.fill(0);
            }
            Self::Or => pairs.for_each(|(a, b)| *a |= b),
            Self::Xor => pairs.for_each(|(a, b)| *a ^= b),
            Self::Not => {}
        }
    }
}

/// Combines byte strings to one as long as the longest of them; the shorter ones count as followed by zeros.
/// NOT reads the first alone.
pub(super) fn combine(operation: Operation, sources: &[Blob]) -> Blob {
    let Some((first, others)) = sources.split_first() else {
        return Blob::default();
    };
    if others.is_empty() && operation != Operation::Not {
        return first.clone();
    }
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let part = |source: &Blob, start: usize| {
        let start = start.min(source.len());
        start..source.len().min(start + BLOCK)
    };
    let mut result = Blob::zeroed(len);
    for (nth, target) in result.bytes_mut().chunks_mut(BLOCK).enumerate() {
        let start = nth * BLOCK;
        let own = &first[part(first, start)];
        target[..own.len()].copy_from_slice(own);
        for other in others {
            operation.join(target, &other[part(other, start)]);
        }
        if operation == Operation::Not {
            target.iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn bit_of(bytes: &[u8], at: usize) -> bool {
        bytes
            .get(at / 8)
            .is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1)
    }

    /// Byte strings with long runs of equal bytes, as those in which a search goes far.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = || prop_oneof![8 => Just(0), 8 => Just(0xff), 1 => any::<u8>()];
        let runs = vec((byte(), 1..40_usize), 1..6);
        let runs = runs.prop_map(|runs| {
            let run = |(byte, len)| std::iter::repeat_n(byte, len);
            runs.into_iter().flat_map(run).collect()
        });
        prop_oneof![vec(any::<u8>(), 1..60), runs]
    }

    proptest! {
        #[test]
        fn counts_and_finds_the_bits_of_every_range(bytes in bytes(), a: usize, b: usize, bit: bool) {
            let (a, b) = (a % (bytes.len() * 8), b % (bytes.len() * 8));
            let (from, to) = (a.min(b), a.max(b) + 1);
            let ones = (from..to).filter(|at| bit_of(&bytes, *at)).count() as u64;
            prop_assert_eq!(count(&bytes, from, to), ones);
            let first = (from..to).find(|at| bit_of(&bytes, *at) == bit);
            prop_assert_eq!(find(&bytes, from, to, bit), first);
        }

        #[test]
        fn combines_each_bit_of_its_sources(
            sources in vec(vec(any::<u8>(), 0..100), 1..4),
            scale in prop_oneof![Just(1_usize), Just(400)],
        ) {
            let sources: Vec<Blob> = sources.iter().map(|it| Blob::new(&it.repeat(scale))).collect();
            let len = sources.iter().map(|it| it.len()).max().unwrap_or(0);
            let byte = |source: &Blob, at: usize| source.get(at).copied().unwrap_or(0);
            for operation in [Operation::And, Operation::Or, Operation::Xor, Operation::Not] {
                let sources = if operation == Operation::Not { &sources[..1] } else { &sources };
                let join = |a: u8, b: u8| match operation {
                    Operation::And => a & b,
                    Operation::Or => a | b,
                    Operation::Xor | Operation::Not => a ^ b,
                };
                let not = if operation == Operation::Not { 0xff } else { 0 };
                let len = if operation == Operation::Not { sources[0].len() } else { len };
                let expected: Vec<u8> = (0..len).map(|at| {
                    let others = sources[1..].iter().map(|it| byte(it, at));
                    others.fold(byte(&sources[0], at), join) ^ not
                }).collect();
                prop_assert_eq!(&*combine(operation, sources), &expected[..], "{:?}", operation);
            }
        }
    }
}
