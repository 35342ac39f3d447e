//! Numbered places that keep their numbers: grows by chunks, so nothing ever moves.

/// Places in a chunk, a power of two.
const CHUNK: usize = 256;

#[derive(Clone, Debug)]
pub(in crate::engine) struct Slab<T> {
    /// Of fixed size, so that the place in a chunk needs no check.
    chunks: Vec<Box<[Option<T>; CHUNK]>>,
    /// Places that were ever used.
    size: u32,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            size: 0,
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    #[inline]
    pub(in crate::engine) fn get(&self, slot: u32) -> Option<&T> {
        let slot = slot as usize;
        self.chunks.get(slot / CHUNK)?[slot % CHUNK].as_ref()
    }

    #[inline]
    pub(in crate::engine) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        let slot = slot as usize;
        self.chunks.get_mut(slot / CHUNK)?[slot % CHUNK].as_mut()
    }

    /// Takes the place that became free last, or a new one.
    ///
    /// # Panics
    /// Past 2^32 places, which fit into no memory.
    pub(in crate::engine) fn insert(&mut self, item: T) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            let slot = self.size;
            let next = slot.checked_add(1);
            self.size = next.expect("fewer than 2^32 items fit into memory");
            slot
        });
        let at = slot as usize;
        if at / CHUNK == self.chunks.len() {
            self.chunks.push(Box::new([const { None }; CHUNK]));
        }
        self.chunks[at / CHUNK][at % CHUNK] = Some(item);
        slot
    }

    pub(in crate::engine) fn remove(&mut self, slot: u32) -> Option<T> {
        let at = slot as usize;
        let item = self.chunks.get_mut(at / CHUNK)?[at % CHUNK].take();
        if item.is_some() {
            self.free.push(slot);
        }
        item
    }

    /// Places, used or not.
    pub(in crate::engine) fn size(&self) -> u32 {
        self.size
    }

    /// The first used place at or after `slot`.
    pub(in crate::engine) fn next_used(&self, slot: u32) -> Option<u32> {
        let slot = slot as usize;
        let chunks = self.chunks.iter().enumerate().skip(slot / CHUNK);
        chunks
            .flat_map(|(number, chunk)| {
                let from = slot.saturating_sub(number * CHUNK).min(chunk.len());
                let used = chunk[from..].iter().position(Option::is_some);
                used.map(|offset| (number * CHUNK + from + offset) as u32)
            })
            .next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_and_are_used_again() {
        let mut slab = Slab::default();
        let slots: Vec<u32> = (0..1000).map(|i| slab.insert(i)).collect();
        assert_eq!(slots, (0..1000).collect::<Vec<u32>>());
        for slot in (0..1000).filter(|slot| slot % 300 != 7) {
            assert_eq!(slab.remove(slot), Some(slot as i32));
            assert_eq!(slab.remove(slot), None);
        }
        assert_eq!(slab.next_used(0), Some(7));
        assert_eq!(slab.next_used(8), Some(307));
        assert_eq!(slab.next_used(908), None);
        assert_eq!(slab.next_used(5000), None);
        assert_eq!(slab.insert(-1), 999, "the place that became free last");
        *slab.get_mut(999).expect("used") = -2;
        assert_eq!((slab.get(999), slab.get(998)), (Some(&-2), None));
    }
}
