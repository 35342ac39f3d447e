//! Hashes. Small ones are a list in insertion order, as a listpack is; big ones are an index map.

mod row;

pub(super) use row::ROW;

use crate::engine::config::Config;
use crate::resp::Blob;
use foldhash::fast::FixedState;
use indexmap::IndexMap;

/// How far a hash is a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashLimits {
    /// `hash-max-listpack-entries`.
    pub(crate) entries: usize,
    /// `hash-max-listpack-value`, bytes of a field or a value.
    pub(crate) bytes: usize,
    /// For the hasher of a big one.
    pub(crate) seed: u64,
}

impl HashLimits {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            entries: config.hash_max_listpack_entries,
            bytes: config.hash_max_listpack_value,
            seed: config.seed,
        }
    }
}

/// Fields and values, in insertion order as long as nothing was deleted from a big one. Small ones do
/// not become big by what the settings say, only by the next change; big ones stay so.
#[derive(Clone, Debug)]
pub(crate) enum Hash {
    Small(Vec<(Blob, Blob)>),
    Big(Box<IndexMap<Blob, Blob, FixedState>>),
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

    /// Sets a field; true when it is new.
    pub(crate) fn set(&mut self, field: &[u8], value: Blob, limits: HashLimits) -> bool {
        if field.len() > limits.bytes || value.len() > limits.bytes {
            self.grow(limits.seed);
        }
        match self {
            Self::Small(pairs) => {
                let known = pairs.iter_mut().find(|(name, _)| **name == *field);
                let is_new = known.is_none();
                match known {
                    Some((_, old)) => *old = value,
                    None => {
                        if pairs.is_empty() {
                            // Most hashes of a lock have one field.
                            pairs.reserve_exact(1);
                        }
                        pairs.push((Blob::new(field), value));
                    }
                }
                if pairs.len() > limits.entries {
                    self.grow(limits.seed);
                }
                is_new
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

    /// Makes a small hash a big one.
    fn grow(&mut self, seed: u64) {
        if let Self::Small(pairs) = self {
            let hasher = FixedState::with_seed(seed);
            let mut map = IndexMap::with_capacity_and_hasher(pairs.len() + 1, hasher);
            map.extend(pairs.drain(..));
            *self = Self::Big(Box::new(map));
        }
    }

    /// A hash read from a payload, where a field may not come twice; `None` if one does.
    pub(crate) fn from_pairs(pairs: Vec<(Blob, Blob)>, is_small: bool, seed: u64) -> Option<Self> {
        let mut map = IndexMap::with_capacity_and_hasher(pairs.len(), FixedState::with_seed(seed));
        for (field, value) in pairs {
            if map.insert(field, value).is_some() {
                return None;
            }
        }
        Some(if is_small {
            Self::Small(map.into_iter().collect())
        } else {
            Self::Big(Box::new(map))
        })
    }

    /// The pair at a position; positions change when a field is removed.
    pub(crate) fn at(&self, position: usize) -> Option<(&Blob, &Blob)> {
        match self {
            Self::Small(pairs) => pairs.get(position).map(|(field, value)| (field, value)),
            Self::Big(map) => map.get_index(position),
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
            // The last one takes the place, which is why HSCAN goes from the last to the first.
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

    const LIMITS: HashLimits = HashLimits {
        entries: 128,
        bytes: 64,
        seed: 1,
    };

    #[test]
    fn growing_keeps_fields_and_order() {
        let mut hash = Hash::default();
        for i in 0..300_i64 {
            assert!(hash.set(format!("f{i}").as_bytes(), Blob::from_integer(i), LIMITS));
        }
        assert!(matches!(hash, Hash::Big(_)));
        assert!(!hash.set(b"f7", Blob::from_integer(-7), LIMITS));
        assert_eq!(hash.get(b"f7"), Some(&Blob::from_integer(-7)));
        let fields: Vec<_> = hash.iter().map(|(field, _)| field.clone()).collect();
        assert_eq!((fields.len(), &*fields[299]), (300, &b"f299"[..]));
        assert!(hash.remove(b"f7") && !hash.remove(b"f7") && hash.len() == 299);
    }

    #[test]
    fn the_limits_decide_what_is_small() {
        let is_big = |count: usize, bytes: usize| {
            let mut hash = Hash::default();
            for i in 0..count {
                hash.set(
                    format!("{i}").as_bytes(),
                    Blob::new(&vec![b'x'; bytes]),
                    LIMITS,
                );
            }
            matches!(hash, Hash::Big(_))
        };
        assert!(!is_big(128, 64) && is_big(129, 64) && is_big(1, 65));
    }

    #[test]
    fn a_small_hash_shifts() {
        let mut hash = Hash::default();
        for field in [b"a", b"b", b"c"] {
            hash.set(field, Blob::new(field), LIMITS);
        }
        hash.remove(b"a");
        assert_eq!(
            hash.iter().map(|(field, _)| field[0]).collect::<Vec<_>>(),
            b"bc"
        );
    }
}
