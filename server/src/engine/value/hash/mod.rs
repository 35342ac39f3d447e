//! Hashes. Small ones are a list in the order of insertion, as a listpack is; big ones are a table.

mod row;

pub(super) use row::ROW;

use crate::engine::config::Config;
use crate::engine::value::element::Element;
use crate::engine::value::table::Table;

/// How far a hash is a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashLimits {
    /// `hash-max-listpack-entries`.
    pub(crate) entries: usize,
    /// `hash-max-listpack-value`, bytes of a field or a value.
    pub(crate) bytes: usize,
}

impl HashLimits {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            entries: config.hash_max_listpack_entries,
            bytes: config.hash_max_listpack_value,
        }
    }
}

/// Fields and values. A small hash does not become a big one by what the limits say, only by its next change; a
/// big one stays so.
#[derive(Clone, Debug)]
pub(crate) enum Hash {
    /// In the order in which the fields were added. A clone copies it: the limits keep it small.
    Small(Vec<(Element, Element)>),
    Big(Table<Element>),
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
            Self::Big(table) => table.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get(&self, field: &[u8]) -> Option<&Element> {
        match self {
            Self::Small(pairs) => pairs
                .iter()
                .find(|(name, _)| **name == *field)
                .map(|(_, value)| value),
            Self::Big(table) => table.get(field),
        }
    }

    /// Sets a field; true when it is new.
    pub(crate) fn set(&mut self, field: &[u8], value: &[u8], limits: HashLimits) -> bool {
        if field.len() > limits.bytes || value.len() > limits.bytes {
            self.grow();
        }
        let value = Element::new(value);
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
                        pairs.push((Element::new(field), value));
                    }
                }
                if pairs.len() > limits.entries {
                    self.grow();
                }
                is_new
            }
            Self::Big(table) => table.insert(field, value).is_none(),
        }
    }

    /// Makes a small hash a big one.
    fn grow(&mut self) {
        if let Self::Small(pairs) = self {
            let mut table = Table::default();
            for (field, value) in pairs.drain(..) {
                table.insert(&field, value);
            }
            *self = Self::Big(table);
        }
    }

    /// A hash read from a payload, where a field may not come twice; `None` if one does.
    pub(crate) fn from_pairs(pairs: Vec<(Element, Element)>, is_small: bool) -> Option<Self> {
        let mut table = Table::default();
        for (field, value) in &pairs {
            if table.insert(field, value.clone()).is_some() {
                return None;
            }
        }
        Some(if is_small {
            Self::Small(pairs)
        } else {
            Self::Big(table)
        })
    }

    /// The pair at a position; positions change when a field is added or removed.
    pub(crate) fn at(&self, position: usize) -> Option<(&Element, &Element)> {
        match self {
            Self::Small(pairs) => pairs.get(position).map(|(field, value)| (field, value)),
            Self::Big(table) => table.at(position),
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
            Self::Big(table) => table.remove(field).is_some(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Element, &Element)> {
        let (small, big) = match self {
            Self::Small(pairs) => (Some(pairs), None),
            Self::Big(table) => (None, Some(table)),
        };
        let small = small.into_iter().flatten();
        let small = small.map(|(field, value)| (field, value));
        small.chain(big.into_iter().flat_map(Table::iter))
    }

    /// Pairs from a cursor of HSCAN on, and the next cursor. A small hash comes all at once.
    pub(crate) fn scan(&self, cursor: u64, count: usize) -> (Vec<(&Element, &Element)>, u64) {
        match self {
            Self::Small(_) => (self.iter().collect(), 0),
            Self::Big(table) => table.scan(cursor, count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HashLimits = HashLimits {
        entries: 128,
        bytes: 64,
    };

    #[test]
    fn growing_keeps_fields() {
        let mut hash = Hash::default();
        for i in 0..300_i64 {
            assert!(hash.set(format!("f{i}").as_bytes(), i.to_string().as_bytes(), LIMITS));
        }
        assert!(matches!(hash, Hash::Big(_)));
        assert!(!hash.set(b"f7", b"-7", LIMITS));
        assert_eq!(hash.get(b"f7").map(|value| &**value), Some(&b"-7"[..]));
        assert_eq!((hash.len(), hash.iter().count()), (300, 300));
        assert!(hash.remove(b"f7") && !hash.remove(b"f7") && hash.len() == 299);
    }

    #[test]
    fn the_limits_decide_what_is_small() {
        let is_big = |count: usize, bytes: usize| {
            let mut hash = Hash::default();
            for i in 0..count {
                hash.set(format!("{i}").as_bytes(), &vec![b'x'; bytes], LIMITS);
            }
            matches!(hash, Hash::Big(_))
        };
        assert!(!is_big(128, 64) && is_big(129, 64) && is_big(1, 65));
    }

    #[test]
    fn a_small_hash_shifts() {
        let mut hash = Hash::default();
        for field in [b"a", b"b", b"c"] {
            hash.set(field, field, LIMITS);
        }
        hash.remove(b"a");
        assert_eq!(
            hash.iter().map(|(field, _)| field[0]).collect::<Vec<_>>(),
            b"bc"
        );
    }
}
