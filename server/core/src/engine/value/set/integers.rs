//! Sets of integers as Redis packs them (`intset.c`): sorted, each as wide as the widest has ever been.

use std::ops::Range;

/// Bytes of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Width {
    Two = 2,
    Four = 4,
    Eight = 8,
}

impl Width {
    fn of(value: i64) -> Self {
        if i16::try_from(value).is_ok() {
            Self::Two
        } else if i32::try_from(value).is_ok() {
            Self::Four
        } else {
            Self::Eight
        }
    }

    fn by_bytes(bytes: u32) -> Option<Self> {
        match bytes {
            2 => Some(Self::Two),
            4 => Some(Self::Four),
            8 => Some(Self::Eight),
            _ => None,
        }
    }
}

/// Bytes of the header: the width and the number of integers.
pub(super) const HEADER_BYTES: usize = 8;

/// Integers in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct IntegerSet {
    width: Width,
    bytes: Vec<u8>,
}

impl Default for IntegerSet {
    fn default() -> Self {
        Self {
            width: Width::Two,
            bytes: Vec::new(),
        }
    }
}

impl IntegerSet {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() / self.width as usize
    }

    fn place(&self, position: usize) -> Range<usize> {
        let width = self.width as usize;
        position * width..(position + 1) * width
    }

    pub(crate) fn at(&self, position: usize) -> Option<i64> {
        self.bytes
            .get(self.place(position))
            .map(|bytes| read(bytes, self.width))
    }

    /// The position of an integer, or the one where it belongs.
    fn find(&self, value: i64) -> Result<usize, usize> {
        if Width::of(value) > self.width {
            return Err(if value < 0 { 0 } else { self.len() });
        }
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.at(middle) {
                Some(other) if other < value => low = middle + 1,
                Some(other) if other == value => return Ok(middle),
                Some(_) | None => high = middle,
            }
        }
        Err(low)
    }

    /// Bytes of the longest member as a text.
    pub(super) fn longest_text(&self) -> usize {
        let last = self.len().checked_sub(1).and_then(|last| self.at(last));
        let ends = [self.at(0), last];
        let texts = ends
            .into_iter()
            .flatten()
            .map(|value| value.to_string().len());
        texts.max().unwrap_or(0)
    }

    pub(crate) fn contains(&self, value: i64) -> bool {
        self.find(value).is_ok()
    }

    /// Adds an integer; false if it exists.
    pub(crate) fn insert(&mut self, value: i64) -> bool {
        let Err(position) = self.find(value) else {
            return false;
        };
        let width = Width::of(value).max(self.width);
        if width > self.width {
            let mut bytes = Vec::with_capacity((self.len() + 1) * width as usize);
            self.iter()
                .for_each(|value| write(value, width, &mut bytes));
            *self = Self { width, bytes };
        }
        let mut bytes = Vec::with_capacity(width as usize);
        write(value, width, &mut bytes);
        let at = self.place(position).start;
        if self.bytes.len() == self.bytes.capacity() {
            // A quarter more, so that little is left over.
            let places = self.len() / 4 + 1;
            self.bytes.reserve_exact(places * width as usize);
        }
        self.bytes.splice(at..at, bytes);
        true
    }

    /// Removes an integer; false if it does not exist.
    pub(crate) fn remove(&mut self, value: i64) -> bool {
        let Ok(position) = self.find(value) else {
            return false;
        };
        self.bytes.drain(self.place(position));
        true
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = i64> {
        let width = self.width;
        self.bytes
            .chunks_exact(width as usize)
            .map(move |bytes| read(bytes, width))
    }

    /// Bytes that the set takes in Redis.
    pub(super) fn packed_bytes(&self) -> usize {
        HEADER_BYTES + self.bytes.len()
    }

    /// The set as Redis packs it.
    pub(super) fn pack(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.packed_bytes());
        out.extend((self.width as u32).to_le_bytes());
        out.extend(u32::try_from(self.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend(&self.bytes);
        out
    }

    /// Reads a packed set; `None` if it is not one (`intset.c: intsetValidateIntegrity`).
    pub(super) fn unpack(bytes: &[u8]) -> Option<Self> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let word = |at: usize| {
            let bytes = header.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_le_bytes(bytes))
        };
        let (width, count) = (Width::by_bytes(word(0)?)?, usize::try_from(word(4)?).ok()?);
        let set = Self {
            width,
            bytes: rest.to_vec(),
        };
        let is_whole = count > 0 && count.checked_mul(width as usize) == Some(rest.len());
        (is_whole && set.iter().is_sorted_by(|a, b| a < b)).then_some(set)
    }
}

fn read(bytes: &[u8], width: Width) -> i64 {
    let mut whole = [0; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    let value = i64::from_le_bytes(whole);
    match width {
        Width::Two => i64::from(value as i16),
        Width::Four => i64::from(value as i32),
        Width::Eight => value,
    }
}

fn write(value: i64, width: Width, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_le_bytes()[..width as usize]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn integers_stay_sorted_at_every_width() {
        let mut rng = Rng::new(3);
        for shift in [52, 40, 0] {
            let (mut set, mut model) = (IntegerSet::default(), BTreeSet::new());
            for _ in 0..3000 {
                let value = (rng.next_u64() as i64) >> shift;
                if rng.next_u64().is_multiple_of(4) {
                    assert_eq!(set.remove(value), model.remove(&value));
                } else {
                    assert_eq!(set.insert(value), model.insert(value));
                }
                assert!(set.contains(value) == model.contains(&value));
            }
            assert!(set.iter().eq(model.iter().copied()));
            let back = IntegerSet::unpack(&set.pack()).expect("packed by us");
            assert!(back.iter().eq(model));
        }
    }

    #[test]
    fn bytes_are_those_of_redis() {
        let mut set = IntegerSet::default();
        for value in [5, -1, 300] {
            set.insert(value);
        }
        assert_eq!(set.pack(), [2, 0, 0, 0, 3, 0, 0, 0, 255, 255, 5, 0, 44, 1]);
        set.insert(70_000);
        assert_eq!(set.packed_bytes(), 8 + 4 * 4);
        set.remove(70_000);
        assert_eq!(set.packed_bytes(), 8 + 3 * 4, "it stays wide");
    }

    #[test]
    fn bytes_that_are_no_packed_set_are_refused() {
        let good = [2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 2, 0];
        assert!(IntegerSet::unpack(&good).is_some());
        for (at, value) in [(0, 3), (4, 1), (4, 3), (8, 2), (8, 3)] {
            let mut bad = good;
            bad[at] = value;
            assert!(IntegerSet::unpack(&bad).is_none(), "{at} {value}");
        }
        assert!(IntegerSet::unpack(&[2, 0, 0, 0, 0, 0, 0, 0]).is_none());
        assert!(IntegerSet::unpack(&good[..7]).is_none());
    }
}
