//! The members of a big sorted set with their scores, in numbered places, and a hash table from member to place.
//!
//! A member keeps its place while it lives, so a place serves as a cursor of ZSCAN: the scan returns every member
//! that is there from its beginning to its end. Places of removed members are used again; their memory
//! is freed with the sorted set.

use super::chunked::Chunked;
use crate::resp::Blob;
use foldhash::fast::FixedState;
use std::hash::BuildHasher;

/// Cells of the smallest hash table, a power of two.
const CELLS_MIN: usize = 64;
/// A cell without a member.
const EMPTY: u64 = u64::MAX;
/// The end of the list of free places.
const NONE: u32 = u32::MAX;

const HELD: &str = "a place in the order holds a member";

#[derive(Clone, Debug)]
enum Place {
    Used {
        member: Blob,
        score: f64,
    },
    /// The next free place, or [`NONE`].
    Free(u32),
}

/// Members with their scores.
#[derive(Clone, Debug)]
pub(super) struct Members {
    places: Chunked<Place, 64>,
    /// A power of two of cells. The upper half of a cell is the member's hash, the lower half its place.
    /// A member stands in the first free cell behind the one that its hash names.
    cells: Chunked<u64, 256>,
    first_free: u32,
    len: usize,
    seed: u64,
}

impl Members {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            places: Chunked::default(),
            cells: Chunked::filled(CELLS_MIN, EMPTY),
            first_free: NONE,
            len: 0,
            seed,
        }
    }

    /// The place of a member.
    pub(super) fn find(&self, member: &[u8]) -> Option<u32> {
        let hash = self.hash(member);
        let mut at = self.home(hash);
        loop {
            let cell = self.cell(at);
            if cell == EMPTY {
                return None;
            }
            let place = cell as u32;
            if hash_of(cell) == hash && **self.member(place) == *member {
                return Some(place);
            }
            at = self.after(at);
        }
    }

    /// # Panics
    /// If the place is free.
    #[inline]
    pub(super) fn member(&self, place: u32) -> &Blob {
        match self.places.get(place as usize) {
            Some(Place::Used { member, .. }) => member,
            Some(Place::Free(_)) | None => panic!("{HELD}"),
        }
    }

    /// # Panics
    /// If the place is free.
    #[inline]
    pub(super) fn score(&self, place: u32) -> f64 {
        match self.places.get(place as usize) {
            Some(Place::Used { score, .. }) => *score,
            Some(Place::Free(_)) | None => panic!("{HELD}"),
        }
    }

    pub(super) fn set_score(&mut self, place: u32, new: f64) {
        if let Some(Place::Used { score, .. }) = self.places.get_mut(place as usize) {
            *score = new;
        }
    }

    /// Adds a missing member, and returns its place.
    pub(super) fn add(&mut self, member: Blob, score: f64) -> u32 {
        if (self.len + 1) * 4 > self.cells.len() * 3 {
            self.grow();
        }
        let hash = self.hash(&member);
        let used = Place::Used { member, score };
        let place = match self.places.get_mut(self.first_free as usize) {
            Some(free) => {
                let place = self.first_free;
                if let Place::Free(next) = std::mem::replace(free, used) {
                    self.first_free = next;
                }
                place
            }
            None => {
                self.places.push(used);
                (self.places.len() - 1) as u32
            }
        };
        self.len += 1;
        self.put(u64::from(hash) << 32 | u64::from(place));
        place
    }

    /// Removes the member at a place.
    pub(super) fn remove(&mut self, place: u32) {
        let mut at = self.home(self.hash(self.member(place)));
        while self.cell(at) as u32 != place {
            at = self.after(at);
        }
        self.close_gap(at);
        if let Some(used) = self.places.get_mut(place as usize) {
            *used = Place::Free(self.first_free);
            self.first_free = place;
            self.len -= 1;
        }
    }

    /// The first place in use from `from` on.
    pub(super) fn next_used(&self, from: usize) -> Option<usize> {
        (from..self.places.len())
            .find(|at| matches!(self.places.get(*at), Some(Place::Used { .. })))
    }

    fn hash(&self, member: &[u8]) -> u32 {
        // A cell never looks empty: no place is as high as `NONE`.
        (FixedState::with_seed(self.seed).hash_one(member) >> 32) as u32
    }

    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.cells.len() - 1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.cells.len() - 1)
    }

    fn cell(&self, at: usize) -> u64 {
        self.cells.get(at).copied().unwrap_or(EMPTY)
    }

    fn set_cell(&mut self, at: usize, value: u64) {
        if let Some(cell) = self.cells.get_mut(at) {
            *cell = value;
        }
    }

    fn put(&mut self, value: u64) {
        let mut at = self.home(hash_of(value));
        while self.cell(at) != EMPTY {
            at = self.after(at);
        }
        self.set_cell(at, value);
    }

    fn grow(&mut self) {
        let larger = Chunked::filled(self.cells.len() * 2, EMPTY);
        let old = std::mem::replace(&mut self.cells, larger);
        for at in 0..old.len() {
            match old.get(at) {
                Some(&EMPTY) | None => {}
                Some(cell) => self.put(*cell),
            }
        }
    }

    /// Empties a cell and moves those behind it that could not be found any more.
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.cells.len() - 1;
        let mut at = gap;
        loop {
            at = self.after(at);
            let cell = self.cell(at);
            if cell == EMPTY {
                break;
            }
            let from_home = at.wrapping_sub(self.home(hash_of(cell))) & mask;
            if from_home >= at.wrapping_sub(gap) & mask {
                self.set_cell(gap, cell);
                gap = at;
            }
        }
        self.set_cell(gap, EMPTY);
    }
}

fn hash_of(cell: u64) -> u32 {
    (cell >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn members_are_found_until_they_are_removed() {
        let mut members = Members::new(5);
        let mut model: BTreeMap<u64, u32> = BTreeMap::new();
        let mut state = 1_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(99);
            let number = (state >> 33) % 700;
            let name = number.to_string();
            assert_eq!(members.find(name.as_bytes()), model.get(&number).copied());
            match model.remove(&number) {
                Some(place) => {
                    assert_eq!(members.score(place), number as f64);
                    members.remove(place);
                }
                None => {
                    let place = members.add(Blob::from(name), number as f64);
                    model.insert(number, place);
                }
            }
            assert_eq!(members.len, model.len());
        }
        let mut used: Vec<u32> = Vec::new();
        while let Some(next) = members.next_used(used.last().map_or(0, |last| *last as usize + 1)) {
            used.push(next as u32);
        }
        let mut expected: Vec<u32> = model.into_values().collect();
        expected.sort_unstable();
        assert_eq!(used, expected);
    }
}
