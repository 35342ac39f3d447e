//! Deadlines, earliest first: a binary heap that knows where each entry stands, so a deadline
//! can be taken out as soon as its key goes, and no entry outlives its key.
//!
//! *Policy.* Locks renew their deadlines far more often than they expire. A deadline that moves to a later time
//! stays where it is in the heap, with its former time; its key alone knows the new one. Such an entry is too early,
//! never too late, and it is put right when it becomes the first. The first entry is always right.

use crate::engine::time::UnixMillis;

/// Position of a slot that is not in the heap.
pub(in crate::engine) const NOWHERE: u32 = u32::MAX;

/// The keys: the heap asks them for their deadlines and tells them where these stand.
pub(in crate::engine) trait Positions {
    /// The deadline of the key at a slot.
    fn deadline(&self, slot: u32) -> UnixMillis;
    /// The deadline of a slot stands at another place now.
    fn moved(&mut self, slot: u32, to: u32);
}

#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Deadlines {
    heap: Vec<(UnixMillis, u32)>,
}

impl Deadlines {
    pub(in crate::engine) fn first(&self) -> Option<(UnixMillis, u32)> {
        self.heap.first().copied()
    }

    /// Returns any slot with a deadline.
    pub(in crate::engine) fn nth(&self, at: usize) -> Option<u32> {
        self.heap.get(at).map(|(_, slot)| *slot)
    }

    pub(in crate::engine) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(in crate::engine) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(in crate::engine) fn insert(
        &mut self,
        slot: u32,
        deadline: UnixMillis,
        positions: &mut impl Positions,
    ) {
        self.heap.push((deadline, slot));
        self.sift_up(self.heap.len() - 1, positions);
    }

    /// The deadline at a position is another one now, which the key already has.
    #[inline]
    pub(in crate::engine) fn update(
        &mut self,
        position: u32,
        deadline: UnixMillis,
        positions: &mut impl Positions,
    ) {
        let at = position as usize;
        if deadline < self.heap[at].0 {
            self.heap[at].0 = deadline;
            self.sift_up(at, positions);
        } else if at == 0 {
            self.settle(positions);
        }
    }

    pub(in crate::engine) fn remove(&mut self, position: u32, positions: &mut impl Positions) {
        let at = position as usize;
        let (deadline, slot) = self.heap.swap_remove(at);
        positions.moved(slot, NOWHERE);
        if let Some(replacement) = self.heap.get(at) {
            if replacement.0 < deadline {
                self.sift_up(at, positions)
            } else {
                self.sift_down(at, positions)
            }
        }
        if at == 0 {
            self.settle(positions);
        }
        if self.heap.len() * 4 < self.heap.capacity() && self.heap.capacity() > 1024 {
            self.heap.shrink_to(self.heap.len() * 2);
        }
    }

    /// Puts the first entry right until it is.
    fn settle(&mut self, positions: &mut impl Positions) {
        while let Some((known, slot)) = self.heap.first_mut() {
            let deadline = positions.deadline(*slot);
            if *known == deadline {
                break;
            }
            *known = deadline;
            self.sift_down(0, positions);
        }
    }

    fn sift_up(&mut self, mut at: usize, positions: &mut impl Positions) {
        let item = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[parent] <= item {
                break;
            }
            self.place(at, self.heap[parent], positions);
            at = parent;
        }
        self.place(at, item, positions);
    }

    fn sift_down(&mut self, mut at: usize, positions: &mut impl Positions) {
        let item = self.heap[at];
        loop {
            let left = at * 2 + 1;
            let Some(&(mut child)) = self.heap.get(left) else {
                break;
            };
            let mut child_at = left;
            if let Some(&right) = self.heap.get(left + 1)
                && right < child
            {
                (child, child_at) = (right, left + 1);
            }
            if item <= child {
                break;
            }
            self.place(at, child, positions);
            at = child_at;
        }
        self.place(at, item, positions);
    }

    fn place(&mut self, at: usize, item: (UnixMillis, u32), positions: &mut impl Positions) {
        self.heap[at] = item;
        positions.moved(item.1, at as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::rng::Rng;
    use std::collections::BTreeMap;

    /// Deadline of each slot, and its position in the heap.
    #[derive(Default)]
    struct Keys {
        places: BTreeMap<u32, u32>,
        deadlines: BTreeMap<u32, UnixMillis>,
    }

    impl Positions for Keys {
        fn deadline(&self, slot: u32) -> UnixMillis {
            self.deadlines[&slot]
        }

        fn moved(&mut self, slot: u32, to: u32) {
            if to == NOWHERE {
                self.places.remove(&slot);
            } else {
                self.places.insert(slot, to);
            }
        }
    }

    #[test]
    fn agrees_with_a_sorted_model() {
        let mut rng = Rng::new(7);
        let (mut heap, mut keys) = (Deadlines::default(), Keys::default());
        for step in 0..20_000 {
            let slot = (rng.next_u64() % 64) as u32;
            // Mostly later than before, as deadlines are renewed.
            let deadline = UnixMillis(step / 4 + (rng.next_u64() % 100) as i64);
            match (keys.places.get(&slot).copied(), rng.next_u64() % 3) {
                (None, _) => {
                    keys.deadlines.insert(slot, deadline);
                    heap.insert(slot, deadline, &mut keys);
                }
                (Some(at), 0) => {
                    heap.remove(at, &mut keys);
                    keys.deadlines.remove(&slot);
                }
                (Some(at), _) => {
                    keys.deadlines.insert(slot, deadline);
                    heap.update(at, deadline, &mut keys);
                }
            }
            let pairs = keys.deadlines.iter();
            let first = pairs.map(|(slot, deadline)| (*deadline, *slot)).min();
            assert_eq!(heap.first(), first);
            assert_eq!(heap.len(), keys.deadlines.len());
            let stands = |(slot, deadline): (&u32, &UnixMillis)| {
                let (known, there) = heap.heap[keys.places[slot] as usize];
                there == *slot && known <= *deadline
            };
            assert!(keys.deadlines.iter().all(stands));
        }
    }
}
