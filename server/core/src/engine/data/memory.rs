//! Memory that keys and values would take in Redis 7.0.15 with jemalloc, as MEMORY USAGE estimates it. Equal data
//! gives equal estimates. The double itself uses less memory.
//!
//! Source: `object.c: objectComputeSize`.

use crate::engine::config::Config;
use crate::engine::data::keyspace::Db;
use crate::engine::value::{ENTRY, OBJECT, PLACE, places, string_bytes};

/// Bytes of an empty server (`used_memory_startup`, as measured).
pub(crate) const STARTUP_BYTES: usize = 876_104;
/// Parts of each value that are looked at for all data (`OBJ_COMPUTE_SIZE_DEF_SAMPLES`).
const SAMPLES: usize = 5;

/// Bytes of a key with its value, estimated from `samples` parts of the value.
pub(crate) fn key_bytes(db: &Db, slot: u32, samples: usize, config: &Config) -> usize {
    let value = db.value(slot).as_type();
    let bytes = value.memory_bytes(db.form(slot), samples, config);
    bytes + string_bytes(db.key(slot).len(), true) + ENTRY
}

/// Bytes of a database beside its keys and values.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overhead {
    /// The main table: buckets, entries and objects of all keys.
    pub(crate) main: usize,
    /// The table of keys with a deadline.
    pub(crate) expires: usize,
}

impl Overhead {
    pub(crate) fn of(db: &Db) -> Self {
        let table = |count: usize| count * ENTRY + places(count) * PLACE;
        Self {
            main: table(db.len()) + db.len() * OBJECT,
            expires: table(db.volatile_len()),
        }
    }

    pub(crate) fn total(self) -> usize {
        self.main + self.expires
    }
}

/// Bytes of the tables of a database beside its keys.
pub(in crate::engine) fn table_bytes(db: &Db) -> usize {
    places(db.len()) * PLACE + Overhead::of(db).expires
}

/// Bytes of a database with its tables.
pub(super) fn db_bytes(db: &Db, config: &Config) -> usize {
    let mut total = table_bytes(db);
    let mut at = 0;
    while let Some(slot) = db.next_used(at) {
        at = slot + 1;
        total += key_bytes(db, slot, SAMPLES, config);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::value::{Element, Hash, HashLimits, Value};
    use crate::resp::Blob;

    /// Measured on a server of 7.0.15.
    #[test]
    fn keys_take_what_they_take_in_redis() {
        let config = Config::default();
        let mut db = Db::new(0);
        let mut bytes = |key: &str, value: Value| {
            let slot = db.insert(key.as_bytes(), value);
            key_bytes(&db, slot, 5, &config)
        };
        let text = |text: String| Value::String(Blob::new(text.as_bytes()));
        assert_eq!(bytes("a", text("b".into())), 64);
        assert_eq!(bytes("abc", text("123".into())), 48);
        assert_eq!(bytes("abcdefghij", text("x".repeat(44))), 104);
        assert_eq!(bytes(&"k".repeat(40), text("x".repeat(45))), 152);
        assert_eq!(bytes("l", text("x".repeat(1000))), 1072);
        let list = ["a", "b", "c", "1", "2", "300"];
        let list = list
            .into_iter()
            .map(|text| Element::new(text.as_bytes()))
            .collect();
        assert_eq!(bytes("li", Value::List(list)), 160);
        let hash = |value: &str| {
            let limits = HashLimits::of(&Config::default());
            let mut hash = Hash::default();
            hash.set(b"f", value.as_bytes(), limits);
            Value::Hash(hash)
        };
        assert_eq!(bytes("h", hash("v")), 64);
        assert_eq!(bytes("hb", hash(&"x".repeat(100))), 280);
    }
}
