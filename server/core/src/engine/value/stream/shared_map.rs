//! A sorted map whose clone takes a constant number of steps: pairs stand in chunks that clones share.
//!
//! A change copies the chunk that it concerns and the list of chunks, if a clone shares them; otherwise it
//! copies nothing.

use std::sync::Arc;

/// Most pairs of a chunk.
const CHUNK_LEN_MAX: usize = 64;

type Chunk<K, V> = Arc<Vec<(K, V)>>;

/// A map sorted by its keys. No chunk is empty.
#[derive(Clone, Debug)]
pub(crate) struct SharedMap<K, V> {
    chunks: Arc<Vec<Chunk<K, V>>>,
    len: usize,
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self {
            chunks: Arc::default(),
            len: 0,
        }
    }
}

/// The place of a pair: the chunk, and the pair in it.
type Place = (usize, usize);

impl<K: Copy + Ord, V: Clone> SharedMap<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the position of the key, or of its insertion: in the previous chunk, if that exists.
    fn place(&self, key: K) -> Result<Place, Place> {
        // Most new keys are greater than all others.
        let last = self.chunks.len().saturating_sub(1);
        let chunk = match self.chunks.last() {
            Some(chunk) if chunk.first().is_some_and(|(first, _)| *first <= key) => last,
            _ => self
                .chunks
                .partition_point(|chunk| chunk.first().is_some_and(|(first, _)| *first <= key))
                .saturating_sub(1),
        };
        let Some(pairs) = self.chunks.get(chunk) else {
            return Err((0, 0));
        };
        if pairs.last().is_some_and(|(last, _)| *last < key) {
            return Err((chunk, pairs.len()));
        }
        match pairs.binary_search_by(|(other, _)| other.cmp(&key)) {
            Ok(at) => Ok((chunk, at)),
            Err(at) => Err((chunk, at)),
        }
    }

    pub(crate) fn get(&self, key: K) -> Option<&V> {
        let (chunk, at) = self.place(key).ok()?;
        Some(&self.chunks[chunk][at].1)
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let (chunk, at) = self.place(key).ok()?;
        let chunk = &mut Arc::make_mut(&mut self.chunks)[chunk];
        Some(&mut Arc::make_mut(chunk)[at].1)
    }

    /// Sets the value of a key; returns the value before.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let place = self.place(key);
        let chunks = Arc::make_mut(&mut self.chunks);
        let (chunk, at) = match place {
            Ok((chunk, at)) => {
                let old = &mut Arc::make_mut(&mut chunks[chunk])[at].1;
                return Some(std::mem::replace(old, value));
            }
            Err(place) => place,
        };
        self.len += 1;
        let Some(pairs) = chunks.get_mut(chunk) else {
            chunks.push(Arc::new(vec![(key, value)]));
            return None;
        };
        if pairs.len() < CHUNK_LEN_MAX {
            Arc::make_mut(pairs).insert(at, (key, value));
        } else if at == pairs.len() {
            chunks.insert(chunk + 1, Arc::new(vec![(key, value)]));
        } else {
            let pairs = Arc::make_mut(pairs);
            let mut tail = pairs.split_off(pairs.len() / 2);
            match at.checked_sub(pairs.len()) {
                Some(at) => tail.insert(at, (key, value)),
                None => pairs.insert(at, (key, value)),
            }
            chunks.insert(chunk + 1, Arc::new(tail));
        }
        None
    }

    /// Removes a key; returns its value.
    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        let (chunk, at) = self.place(key).ok()?;
        let chunks = Arc::make_mut(&mut self.chunks);
        let pairs = Arc::make_mut(&mut chunks[chunk]);
        let (_, value) = pairs.remove(at);
        self.len -= 1;
        if pairs.is_empty() {
            chunks.remove(chunk);
        } else if pairs.len() < CHUNK_LEN_MAX / 4 && chunk + 1 < chunks.len() {
            // Two chunks that fit into one become one.
            if chunks[chunk].len() + chunks[chunk + 1].len() <= CHUNK_LEN_MAX / 2 {
                let next = chunks.remove(chunk + 1);
                Arc::make_mut(&mut chunks[chunk]).extend(next.iter().cloned());
            }
        }
        Some(value)
    }

    /// All pairs in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.chunks
            .iter()
            .flat_map(|chunk| chunk.iter().map(|(key, value)| (*key, value)))
    }

    /// The pairs from a key on.
    pub(crate) fn iter_from(&self, key: K) -> impl Iterator<Item = (K, &V)> {
        let (chunk, at) = self.place(key).unwrap_or_else(|place| place);
        let first = self.chunks.get(chunk).map_or(&[][..], |pairs| &pairs[at..]);
        let rest = self.chunks.iter().skip(chunk + 1);
        let pairs = first.iter().chain(rest.flat_map(|chunk| chunk.iter()));
        pairs.map(|(key, value)| (*key, value))
    }

    /// The pairs up to a key and with it, from the last to the first.
    pub(crate) fn iter_back_from(&self, key: K) -> impl Iterator<Item = (K, &V)> {
        let (chunk, end) = match self.place(key) {
            Ok((chunk, at)) => (chunk, at + 1),
            Err(place) => place,
        };
        let first = self
            .chunks
            .get(chunk)
            .map_or(&[][..], |pairs| &pairs[..end]);
        let rest = self.chunks[..chunk.min(self.chunks.len())].iter().rev();
        let pairs = first
            .iter()
            .rev()
            .chain(rest.flat_map(|chunk| chunk.iter().rev()));
        pairs.map(|(key, value)| (*key, value))
    }

    pub(crate) fn first(&self) -> Option<(K, &V)> {
        self.iter().next()
    }

    pub(crate) fn last(&self) -> Option<(K, &V)> {
        let (key, value) = self.chunks.last()?.last()?;
        Some((*key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Ten thousand changes in a fixed pseudo-random order, beside the map of the standard library.
    #[test]
    fn it_is_a_sorted_map() {
        let (mut map, mut model) = (SharedMap::default(), BTreeMap::new());
        let mut draw = 1_u64;
        let mut snapshots = Vec::new();
        for step in 0..10_000_u64 {
            draw = draw
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let key = (draw >> 33) % 700;
            match draw % 5 {
                0 | 1 if step % 4000 < 2500 => {
                    assert_eq!(map.insert(key, step), model.insert(key, step));
                }
                2 => {
                    let changed = map.get_mut(key).map(|value| *value += 1);
                    let expected = model.get_mut(&key).map(|value| *value += 1);
                    assert_eq!(changed, expected);
                }
                _ => assert_eq!(map.remove(key), model.remove(&key)),
            }
            assert_eq!(map.len(), model.len());
            if step % 97 == 0 {
                let pairs = || model.iter().map(|(key, value)| (*key, value));
                assert!(map.iter().eq(pairs()));
                assert!(map.iter_from(key).eq(pairs().filter(|(k, _)| *k >= key)));
                let back = pairs().rev().filter(|(k, _)| *k <= key);
                assert!(map.iter_back_from(key).eq(back));
                assert_eq!(map.get(key), model.get(&key));
                assert_eq!(map.first(), pairs().next());
                assert_eq!(map.last(), pairs().next_back());
                snapshots.push((map.clone(), model.clone()));
            }
        }
        for (map, model) in snapshots {
            assert!(
                map.iter()
                    .eq(model.iter().map(|(key, value)| (*key, value)))
            );
        }
    }

    #[test]
    fn a_clone_shares_all_chunks_but_the_changed_one() {
        let mut map = SharedMap::default();
        (0..1000_u64).for_each(|key| {
            map.insert(key, ());
        });
        let clone = map.clone();
        map.insert(1000, ());
        let shared = map
            .chunks
            .iter()
            .zip(clone.chunks.iter())
            .filter(|(own, other)| Arc::ptr_eq(own, other))
            .count();
        assert!(shared + 1 >= clone.chunks.len());
        assert_eq!((map.len(), clone.len()), (1001, 1000));
    }
}
