//! Hashes. Small ones are a list in insertion order, as a listpack is; big ones are an index map.

use crate::resp::Blob;
use foldhash::fast::FixedState;
use indexmap::IndexMap;

/// `hash-max-listpack-entries`.
const SMALL_ENTRIES_MAX: usize = 128;
/// `hash-max-listpack-value`.
const SMALL_BYTES_MAX: usize = 64;

/// Fields and values, in insertion order as long as nothing was deleted from a big one.
#[derive(Clone, Debug)]
pub(crate) enum Hash {
    Small(Vec<(Blob, Blob)>),
    Big(IndexMap<Blob, Blob, FixedState>),
}

impl Default for Hash {
    fn default() -> Self {
        Self::Small(Vec::new())
    }
}

impl Hash {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Small(pairs) => pairs.len(),
            Self::Big(map) => map.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get(&self, field: &[u8]) -> Option<&Blob> {
        match self {
            Self::Small(pairs) => pairs
                .iter()
                .find(|(name, _)| **name == *field)
                .map(|(_, value)| value),
            Self::Big(map) => map.get(field),
        }
    }

    /// Sets a field; true when it is new. `seed` is for the hasher of a big hash.
    pub(crate) fn set(&mut self, field: &[u8], value: Blob, seed: u64) -> bool {
        match self {
            Self::Small(pairs) => {
                let fits = field.len() <= SMALL_BYTES_MAX && value.len() <= SMALL_BYTES_MAX;
                let known = pairs.iter().position(|(name, _)| **name == *field);
                match known {
                    Some(at) if fits => pairs[at].1 = value,
                    None if fits && pairs.len() < SMALL_ENTRIES_MAX => {
                        pairs.push((Blob::new(field), value))
                    }
                    _ => {
                        let mut map = IndexMap::with_capacity_and_hasher(
                            pairs.len() + 1,
                            FixedState::with_seed(seed),
                        );
                        map.extend(pairs.drain(..));
                        map.insert(Blob::new(field), value);
                        *self = Self::Big(map);
                    }
                }
                known.is_none()
            }
            Self::Big(map) => match map.get_mut(field) {
                Some(old) => {
                    *old = value;
                    false
                }
                None => map.insert(Blob::new(field), value).is_none(),
            },
        }
    }

    /// Removes a field; true when it was there.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        match self {
            Self::Small(pairs) => match pairs.iter().position(|(name, _)| **name == *field) {
                Some(at) => {
                    pairs.remove(at);
                    true
                }
                None => false,
            },
            Self::Big(map) => map.swap_remove(field).is_some(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Blob, &Blob)> {
        let (small, big) = match self {
            Self::Small(pairs) => (
                Some(pairs.iter().map(|(field, value)| (field, value))),
                None,
            ),
            Self::Big(map) => (None, Some(map.iter())),
        };
        small.into_iter().flatten().chain(big.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_keeps_fields_and_order() {
        let mut hash = Hash::default();
        for i in 0..300_i64 {
            assert!(hash.set(format!("f{i}").as_bytes(), Blob::from_integer(i), 1));
        }
        assert!(matches!(hash, Hash::Big(_)));
        assert!(!hash.set(b"f7", Blob::from_integer(-7), 1));
        assert_eq!(hash.get(b"f7"), Some(&Blob::from_integer(-7)));
        let fields: Vec<_> = hash.iter().map(|(field, _)| field.clone()).collect();
        assert_eq!((fields.len(), &*fields[299]), (300, &b"f299"[..]));
        assert!(hash.remove(b"f7") && !hash.remove(b"f7") && hash.len() == 299);
    }

    #[test]
    fn a_small_hash_shifts() {
        let mut hash = Hash::default();
        for field in [b"a", b"b", b"c"] {
            hash.set(field, Blob::new(field), 1);
        }
        hash.remove(b"a");
        assert_eq!(
            hash.iter().map(|(field, _)| field[0]).collect::<Vec<_>>(),
            b"bc"
        );
    }
}
