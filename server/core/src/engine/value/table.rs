//! A hash table that shares its chunks with its clones: entries in the order of the hashes of their keys.
//!
//! The order of the entries depends on the keys alone, as that of Redis's tables does on its hash seed: no
//! test may rely on it. A SCAN cursor is a hash, so an entry that is there throughout a scan is returned
//! exactly once, whatever else is added or removed.

use super::element::Element;
use super::sequence::{Item, Iter, Placing, Sequence};
use foldhash::fast::FixedState;
use std::cmp::Ordering;
use std::hash::BuildHasher;

/// Seed of the hashes of keys. It is not secret: a double does not serve untrusted clients.
const SEED: u64 = 0x7265_646f_7562_6c65;

/// A hash of a key, short enough that branches hold many.
fn hash(key: &[u8]) -> u32 {
    (FixedState::with_seed(SEED).hash_one(key) >> 32) as u32
}

/// Keys with their values; `()` for a set.
#[derive(Clone, Debug)]
pub(crate) struct Table<V: Clone>(Sequence<Entry<V>>);

#[derive(Clone, Debug)]
struct Entry<V> {
    /// The hash of the key: a search looks at many entries, and at the key of one.
    hash: u32,
    key: Element,
    value: V,
}

impl<V: Clone> Item for Entry<V> {
    type Hint = u32;

    #[inline]
    fn hint(&self) -> u32 {
        self.hash
    }
}

/// An entry that is put into a table.
struct NewEntry<'a, V> {
    hash: u32,
    key: &'a [u8],
    value: V,
}

impl<V: Clone> Placing<Entry<V>> for NewEntry<'_, V> {
    type Former = V;

    #[inline]
    fn is_it(&self, entry: &Entry<V>) -> bool {
        *entry.key == *self.key
    }

    fn change(self, entry: &mut Entry<V>) -> V {
        std::mem::replace(&mut entry.value, self.value)
    }

    fn make(self) -> Entry<V> {
        Entry {
            hash: self.hash,
            key: Element::new(self.key),
            value: self.value,
        }
    }
}

impl<V: Clone> Default for Table<V> {
    fn default() -> Self {
        Self(Sequence::default())
    }
}

impl<V: Clone> Table<V> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The entries from a hash on.
    fn starting_at(&self, hash: u32) -> Iter<'_, Entry<V>> {
        // An entry with this hash is not before it, so hints decide everything.
        let compare = |hint: u32| match hint.cmp(&hash) {
            Ordering::Less => Ordering::Less,
            Ordering::Equal | Ordering::Greater => Ordering::Greater,
        };
        self.0.seek(compare, |_| false)
    }

    /// The position of a key.
    fn position(&self, key: &[u8]) -> Option<usize> {
        let hash = hash(key);
        let mut entries = self.starting_at(hash);
        loop {
            let position = entries.position();
            let entry = entries.next().filter(|entry| entry.hash == hash)?;
            if *entry.key == *key {
                return Some(position);
            }
        }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&V> {
        let found = self.0.find(hash(key), |entry| *entry.key == *key);
        found.map(|entry| &entry.value)
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }

    /// Sets the value of a key; gives the former one.
    pub(crate) fn insert(&mut self, key: &[u8], value: V) -> Option<V> {
        let hash = hash(key);
        self.0.put(hash, NewEntry { hash, key, value })
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<V> {
        let position = self.position(key)?;
        self.remove_at(position).map(|(_, value)| value)
    }

    /// The entry at a position; positions change with every insertion and removal.
    pub(crate) fn at(&self, position: usize) -> Option<(&Element, &V)> {
        self.0.get(position).map(Entry::pair)
    }

    pub(crate) fn remove_at(&mut self, position: usize) -> Option<(Element, V)> {
        let entry = self.0.remove(position)?;
        Some((entry.key, entry.value))
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&Element, &V)> {
        self.0.iter().map(Entry::pair)
    }

    /// At least `count` entries from a cursor on, where there are so many, and the next cursor: 0 at the end.
    pub(crate) fn scan(&self, cursor: u64, count: usize) -> (Vec<(&Element, &V)>, u64) {
        let Ok(cursor) = u32::try_from(cursor) else {
            return (Vec::new(), 0);
        };
        let mut found = Vec::new();
        let mut last = None;
        for entry in self.starting_at(cursor) {
            let hash = entry.hint();
            // Entries of one hash come together: a cursor cannot stand between them.
            if found.len() >= count && last != Some(hash) {
                return (found, hash.into());
            }
            last = Some(hash);
            found.push(entry.pair());
        }
        (found, 0)
    }
}

impl<V: Clone> Entry<V> {
    fn pair(&self) -> (&Element, &V) {
        (&self.key, &self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Rng;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn it_does_what_a_map_does() {
        let mut rng = Rng::new(11);
        let (mut table, mut model) = (Table::default(), BTreeMap::new());
        for step in 0..20_000_u64 {
            let key = (rng.next_u64() % 3000).to_string();
            if rng.next_u64().is_multiple_of(3) {
                assert_eq!(table.remove(key.as_bytes()), model.remove(&key));
            } else {
                let known = table.insert(key.as_bytes(), step);
                assert_eq!(known, model.insert(key.clone(), step));
            }
            assert_eq!(table.get(key.as_bytes()), model.get(&key));
            assert_eq!(table.len(), model.len());
        }
        let all: BTreeMap<String, u64> = table
            .iter()
            .map(|(key, value)| (String::from_utf8_lossy(key).into_owned(), *value))
            .collect();
        assert_eq!(all, model);
    }

    #[test]
    fn a_scan_returns_what_stays_exactly_once() {
        let mut table = Table::default();
        for key in 0..5000_u32 {
            table.insert(key.to_string().as_bytes(), ());
        }
        let (mut seen, mut cursor, mut turns) = (BTreeSet::new(), 0, 0_u32);
        loop {
            let (found, next) = table.scan(cursor, 7);
            for (key, ()) in found {
                let key: u32 = String::from_utf8_lossy(key).parse().expect("a number");
                assert!(seen.insert(key), "{key} twice");
            }
            // Odd ones go, others come.
            table.remove((turns * 2 + 1).to_string().as_bytes());
            table.insert((10_000 + turns).to_string().as_bytes(), ());
            turns += 1;
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        assert!((0..5000).step_by(2).all(|key| seen.contains(&key)));
        assert_eq!(table.scan(u64::MAX, 10).1, 0);
    }
}
