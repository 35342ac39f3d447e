//! The bytes of a HyperLogLog, as Redis keeps them in a string. Knows no key and no command.
//!
//! A header of 16 bytes is followed by 16,384 registers: `HYLL`, the encoding, three unused bytes, and the cached
//! estimate in little-endian order. The highest bit of the estimate is set while the cache is out of date.
//! * *Dense*: six bits a register, the lowest bits of a byte first.
//! * *Sparse*: runs of equal registers. `00xxxxxx` is a run of 1 to 64 zeros (ZERO), `01xxxxxx xxxxxxxx` a run of
//!   1 to 16,384 zeros (XZERO), `1vvvvvxx` a run of 1 to 4 registers of a value from 1 to 32 (VAL).
//!
//! Two servers that add the same elements in the same order must hold the same bytes, so a change of a sparse
//! sketch splits and joins runs exactly as `hyperloglog.c: hllSparseSet` does.

use super::estimate::{Histogram, RANKS, REGISTERS};

const MAGIC: &[u8; 4] = b"HYLL";
const HEADER: usize = 16;
/// Place of the encoding.
const ENCODING: usize = 4;
/// Place of the cached estimate.
const CACHE: usize = 8;
/// Bit of the last byte of the cache.
const STALE: u8 = 1 << 7;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
const DENSE_BYTES: usize = HEADER + REGISTERS * 6 / 8;
const ZERO_MAX: usize = 64;
const VALUE_MAX: u8 = 32;
const VALUE_RUN_MAX: usize = 4;
/// Number of opcodes in which a change looks for runs to join.
const JOINED: usize = 5;

/// The runs of a sparse sketch do not make 16,384 registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Corrupted;

/// A run of registers in a sparse sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    Zero { len: usize },
    LongZero { len: usize },
    Value { value: u8, len: usize },
}

impl Run {
    /// Reads the run that begins with the first of `bytes`; a missing second byte counts as zero.
    fn read(bytes: &[u8]) -> Option<Self> {
        let first = *bytes.first()?;
        Some(if first & 0x80 != 0 {
            Self::Value {
                value: ((first >> 2) & 0x1f) + 1,
                len: usize::from(first & 3) + 1,
            }
        } else if first & 0x40 != 0 {
            let second = bytes.get(1).copied().unwrap_or(0);
            Self::LongZero {
                len: (usize::from(first & 0x3f) << 8 | usize::from(second)) + 1,
            }
        } else {
            Self::Zero {
                len: usize::from(first & 0x3f) + 1,
            }
        })
    }

    fn len(self) -> usize {
        match self {
            Self::Zero { len } | Self::LongZero { len } | Self::Value { len, .. } => len,
        }
    }

    fn value(self) -> u8 {
        match self {
            Self::Zero { .. } | Self::LongZero { .. } => 0,
            Self::Value { value, .. } => value,
        }
    }

    /// Number of bytes that the run takes.
    fn width(self) -> usize {
        match self {
            Self::Zero { .. } | Self::Value { .. } => 1,
            Self::LongZero { .. } => 2,
        }
    }

    /// A run of registers with one value, none if its length is zero.
    fn write(value: u8, len: usize, to: &mut Vec<u8>) {
        if len == 0 {
            return;
        }
        let less = len - 1;
        if value > 0 {
            to.push(value_run(value, len));
        } else if len > ZERO_MAX {
            to.extend([0x40 | (less >> 8) as u8, less as u8]);
        } else {
            to.push(less as u8);
        }
    }
}

fn value_run(value: u8, len: usize) -> u8 {
    0x80 | (value - 1) << 2 | (len - 1) as u8
}

/// A string that has the form of a sketch, to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Reads a string; `None` if it is not a sketch (`hyperloglog.c: isHLLObjectOrReply`).
    pub(super) fn of(bytes: &'a [u8]) -> Option<Self> {
        let is_sketch = bytes.len() >= HEADER
            && bytes.starts_with(MAGIC)
            && match bytes[ENCODING] {
                DENSE => bytes.len() == DENSE_BYTES,
                SPARSE => true,
                _ => false,
            };
        is_sketch.then_some(Self(bytes))
    }

    pub(super) fn is_sparse(self) -> bool {
        self.0[ENCODING] == SPARSE
    }

    /// The cached estimate; `None` if it is out of date.
    pub(super) fn cached(self) -> Option<u64> {
        let cache: [u8; 8] = self.0[CACHE..HEADER].try_into().ok()?;
        (cache[7] & STALE == 0).then(|| u64::from_le_bytes(cache))
    }

    pub(super) fn to_sketch(self) -> Sketch {
        Sketch(self.0.to_vec())
    }

    /// The runs of a sparse sketch.
    pub(super) fn runs(self) -> impl Iterator<Item = Run> + use<'a> {
        let mut rest = &self.0[HEADER..];
        std::iter::from_fn(move || {
            let run = Run::read(rest)?;
            rest = rest.get(run.width()..).unwrap_or_default();
            Some(run)
        })
    }

    /// The registers of a dense sketch.
    fn dense_registers(self) -> impl Iterator<Item = u8> + use<'a> {
        self.0[HEADER..].chunks_exact(3).flat_map(|bytes| {
            let bits = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
            [0, 6, 12, 18].map(|shift| (bits >> shift & 0x3f) as u8)
        })
    }

    /// Calls `found` for each run of registers with one value, in order: its start, its value, its length.
    fn each_run(self, mut found: impl FnMut(usize, u8, usize)) -> Result<(), Corrupted> {
        if !self.is_sparse() {
            for (index, value) in self.dense_registers().enumerate() {
                found(index, value, 1);
            }
            return Ok(());
        }
        let mut index = 0;
        for run in self.runs() {
            if index + run.len() > REGISTERS {
                return Err(Corrupted);
            }
            found(index, run.value(), run.len());
            index += run.len();
        }
        if index == REGISTERS {
            Ok(())
        } else {
            Err(Corrupted)
        }
    }

    /// Returns the number of registers with each value.
    pub(super) fn histogram(self) -> Result<Histogram, Corrupted> {
        let mut histogram = [0; RANKS];
        self.each_run(|_, value, len| histogram[usize::from(value)] += len)?;
        Ok(histogram)
    }

    /// Raises registers to those of this sketch.
    pub(super) fn merge_into(self, registers: &mut [u8]) -> Result<(), Corrupted> {
        self.each_run(|from, value, len| {
            for register in &mut registers[from..from + len] {
                *register = value.max(*register);
            }
        })
    }

    /// Returns true if a dense sketch already has all these values; false for a sparse one.
    pub(super) fn has_all(self, values: &[(usize, u8)]) -> bool {
        let has = |(index, value): &(usize, u8)| dense_register(self.0, *index) >= *value;
        !self.is_sparse() && values.iter().all(has)
    }
}

/// Place and shift of a register of a dense sketch.
fn dense_place(index: usize) -> (usize, usize) {
    (HEADER + index * 6 / 8, index * 6 % 8)
}

fn dense_register(bytes: &[u8], index: usize) -> u8 {
    let (at, shift) = dense_place(index);
    let next = bytes.get(at + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([bytes[at], next]) >> shift & 0x3f) as u8
}

/// A sketch that may change.
#[derive(Clone, Debug)]
pub(super) struct Sketch(Vec<u8>);

impl Sketch {
    /// Makes an empty, sparse sketch.
    pub(super) fn new() -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[..MAGIC.len()].copy_from_slice(MAGIC);
        bytes[ENCODING] = SPARSE;
        Run::write(0, REGISTERS, &mut bytes);
        Self(bytes)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn view(&self) -> View<'_> {
        View(&self.0)
    }

    /// Marks the cached estimate as out of date.
    pub(super) fn invalidate(&mut self) {
        self.0[HEADER - 1] |= STALE;
    }

    /// Caches an estimate.
    pub(super) fn cache(&mut self, estimate: u64) {
        self.0[CACHE..HEADER].copy_from_slice(&estimate.to_le_bytes());
    }

    /// Makes a sparse sketch dense; false if it was.
    pub(super) fn make_dense(&mut self) -> Result<bool, Corrupted> {
        if !self.view().is_sparse() {
            return Ok(false);
        }
        let mut dense = Self(vec![0; DENSE_BYTES]);
        dense.0[..HEADER].copy_from_slice(&self.0[..HEADER]);
        dense.0[ENCODING] = DENSE;
        self.view().each_run(|from, value, len| {
            if value > 0 {
                for index in from..from + len {
                    dense.set_dense(index, value);
                }
            }
        })?;
        *self = dense;
        Ok(true)
    }

    /// Raises a register to a value; true if it was lower. A sparse sketch becomes dense if the value is too
    /// high for it, or if it would grow beyond `sparse_bytes_max`.
    pub(super) fn raise(
        &mut self,
        index: usize,
        value: u8,
        sparse_bytes_max: usize,
    ) -> Result<bool, Corrupted> {
        if !self.view().is_sparse() {
            return Ok(self.raise_dense(index, value));
        }
        if value <= VALUE_MAX
            && let Some(changed) = self.raise_sparse(index, value, sparse_bytes_max)?
        {
            return Ok(changed);
        }
        self.make_dense()?;
        Ok(self.raise_dense(index, value))
    }

    fn raise_dense(&mut self, index: usize, value: u8) -> bool {
        let is_lower = dense_register(&self.0, index) < value;
        if is_lower {
            self.set_dense(index, value);
        }
        is_lower
    }

    fn set_dense(&mut self, index: usize, value: u8) {
        let (at, shift) = dense_place(index);
        let bits = u16::from(value) << shift;
        let [mask, next_mask] = (0x3f_u16 << shift).to_le_bytes();
        let [low, high] = bits.to_le_bytes();
        self.0[at] = self.0[at] & !mask | low;
        if let Some(next) = self.0.get_mut(at + 1) {
            *next = *next & !next_mask | high;
        }
    }

    /// The same for a sparse sketch; `None` if the sketch has to become dense.
    fn raise_sparse(
        &mut self,
        index: usize,
        value: u8,
        bytes_max: usize,
    ) -> Result<Option<bool>, Corrupted> {
        let (mut at, mut first, mut before) = (HEADER, 0, None);
        let run = loop {
            let run = Run::read(&self.0[at..]).ok_or(Corrupted)?;
            if index < first + run.len() {
                break run;
            }
            before = Some(at);
            at = (at + run.width()).min(self.0.len());
            first += run.len();
        };
        if run.value() >= value {
            return Ok(Some(false));
        }
        let mut parts = Vec::with_capacity(5);
        Run::write(run.value(), index - first, &mut parts);
        Run::write(value, 1, &mut parts);
        Run::write(run.value(), first + run.len() - 1 - index, &mut parts);
        let len = self.0.len() + parts.len() - run.width();
        if parts.len() > run.width() && len > bytes_max {
            return Ok(None);
        }
        let end = (at + run.width()).min(self.0.len());
        self.0.splice(at..end, parts);
        // A run without its second byte leaves a last part without one.
        self.0.truncate(len);
        self.join_runs(before.unwrap_or(HEADER));
        self.invalidate();
        Ok(Some(true))
    }

    /// Joins neighbours with one value among a few runs from `at` on.
    fn join_runs(&mut self, mut at: usize) {
        for _ in 0..JOINED {
            let Some(run) = self.0.get(at..).and_then(Run::read) else {
                return;
            };
            let next = self.0.get(at + 1..).and_then(Run::read);
            if let (
                Run::Value { value, len },
                Some(Run::Value {
                    value: other,
                    len: more,
                }),
            ) = (run, next)
                && value == other
                && len + more <= VALUE_RUN_MAX
            {
                self.0.remove(at);
                self.0[at] = value_run(value, len + more);
            } else {
                at += run.width();
            }
        }
    }
}
