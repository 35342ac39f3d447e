//! LZF, the compression of RDB: literals, and references to what was up to 8 KiB before.
//!
//! `000LLLLL` and L + 1 literal bytes; `LLLooooo oooooooo` for L + 2 bytes from o + 1 bytes before;
//! `111ooooo LLLLLLLL oooooooo` for L + 9 of them. The choices are those of the library that Redis
//! brings, with its table of 2^16 places, so that the bytes are the same.

const PLACES_LOG: u32 = 16;
const LITERALS_MAX: usize = 1 << 5;
const OFFSET_END: usize = 1 << 13;
const MATCH_MAX: usize = (1 << 8) + (1 << 3);
/// Largest expansion of a reference of three bytes; nothing expands more.
const EXPANSION_MAX: usize = MATCH_MAX;

/// The place of the three bytes at the beginning.
fn place(bytes: &[u8]) -> usize {
    let three = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
    let mixed = (three >> (24 - PLACES_LOG)).wrapping_sub(three.wrapping_mul(5));
    (mixed & ((1 << PLACES_LOG) - 1)) as usize
}

/// The output, with a run of literals that is still open: its first byte tells how long it is.
struct Output {
    bytes: Vec<u8>,
    literals: usize,
}

impl Output {
    fn open(&mut self) {
        self.literals = 0;
        self.bytes.push(0);
    }

    /// Ends the run; an empty one leaves nothing.
    fn close(&mut self) {
        if self.literals == 0 {
            self.bytes.pop();
        } else {
            let head = self.bytes.len() - self.literals - 1;
            self.bytes[head] = (self.literals - 1) as u8;
        }
    }

    fn literal(&mut self, byte: u8) {
        self.bytes.push(byte);
        self.literals += 1;
        if self.literals == LITERALS_MAX {
            self.close();
            self.open();
        }
    }
}

/// How many bytes at `from` repeat at `at`, three at least. As the library does, it looks at the first
/// ones without asking where the match has to end.
fn match_len(input: &[u8], from: usize, at: usize) -> usize {
    /// Comparisons that it makes in one go, if there is so much left.
    const UNROLLED: usize = 16;
    let most = (input.len() - at - 2).min(MATCH_MAX);
    let is_same = |len: usize| input[from + len] == input[at + len];
    let mut len = 2;
    if most > UNROLLED {
        for _ in 0..UNROLLED {
            len += 1;
            if !is_same(len) {
                return len;
            }
        }
    }
    loop {
        len += 1;
        if len >= most || !is_same(len) {
            return len;
        }
    }
}

/// Returns the compressed bytes, if they are at most `bytes_max`.
pub(super) fn compress(input: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    // Positions are 32 bits wide.
    if input.is_empty() || bytes_max == 0 || u32::try_from(input.len()).is_err() {
        return None;
    }
    // Positions of three bytes; 0 is none, for the very first position is never referred to.
    let mut places = vec![0_u32; 1 << PLACES_LOG];
    let mut out = Output {
        bytes: Vec::with_capacity(bytes_max + 4),
        literals: 0,
    };
    out.open();
    let mut at = 0;
    while at + 2 < input.len() {
        let found = &mut places[place(&input[at..])];
        let from = std::mem::replace(found, at as u32) as usize;
        let is_match =
            from > 0 && at - from - 1 < OFFSET_END && input[from..from + 3] == input[at..at + 3];
        if !is_match {
            if out.bytes.len() >= bytes_max {
                return None;
            }
            out.literal(input[at]);
            at += 1;
            continue;
        }
        let empty_run = usize::from(out.literals == 0);
        if out.bytes.len() - empty_run + 4 >= bytes_max {
            return None;
        }
        let (offset, len) = (at - from - 1, match_len(input, from, at));
        out.close();
        let (high, low) = ((offset >> 8) as u8, offset as u8);
        match len - 2 {
            short @ 0..7 => out.bytes.extend([high | (short as u8) << 5, low]),
            long => out.bytes.extend([high | 7 << 5, (long - 7) as u8, low]),
        }
        out.open();
        at += len;
        if at + 2 >= input.len() {
            break;
        }
        for behind in [at - 2, at - 1] {
            places[place(&input[behind..])] = behind as u32;
        }
    }
    if out.bytes.len() + 3 > bytes_max {
        return None;
    }
    input[at..].iter().for_each(|byte| out.literal(*byte));
    out.close();
    Some(out.bytes)
}

/// Decompresses to `len` bytes; `None` if the length differs or the data is invalid.
pub(super) fn decompress(mut input: &[u8], len: usize) -> Option<Vec<u8>> {
    if len > input.len().saturating_mul(EXPANSION_MAX) {
        return None;
    }
    let mut out = Vec::with_capacity(len.min(input.len() * 4));
    while let [control, rest @ ..] = input {
        input = rest;
        let control = usize::from(*control);
        if control < LITERALS_MAX {
            let (literals, rest) = input.split_at_checked(control + 1)?;
            out.extend_from_slice(literals);
            input = rest;
        } else {
            let mut count = control >> 5;
            if count == 7 {
                let (more, rest) = input.split_first()?;
                count += usize::from(*more);
                input = rest;
            }
            let (low, rest) = input.split_first()?;
            input = rest;
            let offset = ((control & 0x1f) << 8 | usize::from(*low)) + 1;
            let from = out.len().checked_sub(offset)?;
            if out.len() + count + 2 > len {
                return None;
            }
            for at in from..from + count + 2 {
                out.push(out[at]);
            }
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Rng;

    #[test]
    fn compressed_bytes_decompress_to_the_original() {
        let mut rng = Rng::new(11);
        let mut count = 0;
        for round in 0..2000 {
            let len = (rng.next_u64() % 600) as usize + 5;
            let letters = round % 7 + 1;
            let input: Vec<u8> = (0..len)
                .map(|_| (rng.next_u64() % letters) as u8 + b'a')
                .collect();
            if let Some(compressed) = compress(&input, len - 4) {
                assert!(compressed.len() <= len - 4);
                assert_eq!(decompress(&compressed, len), Some(input));
                count += 1;
            }
        }
        assert!(count > 1000, "{count}");
    }

    #[test]
    fn nonsense_is_refused() {
        let mut rng = Rng::new(5);
        for _ in 0..20_000 {
            let input: Vec<u8> = (0..rng.next_u64() % 12)
                .map(|_| rng.next_u64() as u8)
                .collect();
            if let Some(out) = decompress(&input, (rng.next_u64() % 40) as usize) {
                assert!(out.len() < 40);
            }
        }
        assert_eq!(decompress(&[0, b'a'], usize::MAX), None);
        assert_eq!(
            decompress(&[0x20, 0], 3),
            None,
            "nothing is before the beginning"
        );
    }
}
