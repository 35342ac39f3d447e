//! Deadlines, earliest first: a binary heap that knows where each entry stands, so a deadline
//! can be taken out as soon as its key goes, and nothing stale is ever kept.

use crate::engine::time::UnixMillis;

/// Not in the heap.
pub(in crate::engine) const NOWHERE: u32 = u32::MAX;

/// Who keeps the positions: the heap tells it where each slot went.
pub(in crate::engine) trait Positions {
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

    /// One of them, in no certain order.
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

    pub(in crate::engine) fn update(
        &mut self,
        position: u32,
        deadline: UnixMillis,
        positions: &mut impl Positions,
    ) {
        let at = position as usize;
        let earlier = deadline < self.heap[at].0;
        self.heap[at].0 = deadline;
        if earlier {
            self.sift_up(at, positions)
        } else {
            self.sift_down(at, positions)
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
        if self.heap.len() * 4 < self.heap.capacity() && self.heap.capacity() > 1024 {
            self.heap.shrink_to(self.heap.len() * 2);
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

    impl Positions for BTreeMap<u32, u32> {
        fn moved(&mut self, slot: u32, to: u32) {
            if to == NOWHERE {
                self.remove(&slot)
            } else {
                self.insert(slot, to)
            };
        }
    }

    #[test]
    fn agrees_with_a_sorted_model() {
        let mut rng = Rng::new(7);
        let (mut heap, mut positions) = (Deadlines::default(), BTreeMap::new());
        let mut model: BTreeMap<u32, UnixMillis> = BTreeMap::new();
        for _ in 0..20_000 {
            let slot = (rng.next_u64() % 64) as u32;
            let deadline = UnixMillis((rng.next_u64() % 100) as i64);
            match (positions.get(&slot).copied(), rng.next_u64() % 3) {
                (None, _) => {
                    heap.insert(slot, deadline, &mut positions);
                    model.insert(slot, deadline);
                }
                (Some(at), 0) => {
                    heap.remove(at, &mut positions);
                    model.remove(&slot);
                }
                (Some(at), _) => {
                    heap.update(at, deadline, &mut positions);
                    model.insert(slot, deadline);
                }
            }
            assert_eq!(
                heap.first().map(|(deadline, _)| deadline),
                model.values().min().copied()
            );
            assert_eq!(heap.len(), model.len());
            let stands = |(slot, deadline): (&u32, &UnixMillis)| {
                heap.heap[positions[slot] as usize] == (*deadline, *slot)
            };
            assert!(model.iter().all(stands));
        }
    }
}
