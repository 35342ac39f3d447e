//! What keys and values would take in the memory of Redis 7.0.15 with jemalloc, as MEMORY tells it:
//! an estimate, and the same one for the same data.
//!
//! Source: `object.c: objectComputeSize`. What is really spent here is less, and nobody's concern.

use super::State;
use super::config::Config;
use super::keyspace::Db;
use super::rdb::{list_nodes, listpack_bytes};
use super::value::{EncodingHint, Hash, List, Value, encoding};
use crate::resp::Blob;

/// Sizes of Redis's structures, bytes.
const OBJECT: usize = 16;
const ENTRY: usize = 24;
const PLACE: usize = 8;
const TABLE: usize = 56;
const QUICKLIST: usize = 40;
const QUICKLIST_NODE: usize = 40;
/// A table has at least so many places.
const PLACES_MIN: usize = 4;
/// What an empty server takes (`used_memory_startup`, as measured).
pub(crate) const STARTUP_BYTES: usize = 876_104;
/// Parts of each value that are looked at for all data (`OBJ_COMPUTE_SIZE_DEF_SAMPLES`).
const SAMPLES: usize = 5;
/// The header of a short string that is part of its object.
const EMBEDDED_HEADER: usize = 3;

/// What jemalloc gives for so many bytes: steps of 16, and above 128 four steps per doubling.
fn allocated(bytes: usize) -> usize {
    match bytes {
        0..=8 => 8,
        9..=128 => bytes.next_multiple_of(16),
        _ => bytes.next_multiple_of(bytes.next_power_of_two() / 8),
    }
}

/// A string with its header, which depends on the length (`sds.c: sdsReqType`).
fn string(len: usize, may_be_short: bool) -> usize {
    let header = match len {
        1..32 if may_be_short => 1,
        0..256 => 3,
        256..65_536 => 5,
        _ => 9,
    };
    allocated(header + len + 1)
}

fn places(count: usize) -> usize {
    match count {
        0 => 0,
        count => count.next_power_of_two().max(PLACES_MIN),
    }
}

/// The mean of the first samples, for all.
fn extrapolated(sizes: impl Iterator<Item = usize>, samples: usize, count: usize) -> usize {
    let (mut total, mut seen) = (0, 0);
    for size in sizes.take(samples) {
        (total, seen) = (total + size, seen + 1);
    }
    match seen {
        0 => 0,
        seen => (total as f64 / seen as f64 * count as f64) as usize,
    }
}

fn value_bytes(value: &Value, form: EncodingHint, samples: usize, config: &Config) -> usize {
    match value {
        Value::String(text) => match encoding(value, form) {
            "int" => OBJECT,
            "embstr" => allocated(OBJECT + EMBEDDED_HEADER + text.len() + 1),
            _ => OBJECT + string(text.len(), false),
        },
        Value::Hash(hash) => match hash {
            Hash::Small(pairs) => {
                let entries = pairs.iter().flat_map(|(field, value)| [field, value]);
                OBJECT + allocated(listpack_bytes(entries))
            }
            Hash::Big(map) => {
                let text = |text: &Blob| string(text.len(), true);
                let sizes = map
                    .iter()
                    .map(|(field, value)| ENTRY + text(field) + text(value));
                let entries = extrapolated(sizes, samples, map.len());
                OBJECT + TABLE + places(map.len()) * PLACE + entries
            }
        },
        Value::List(list) => {
            let nodes = list_nodes(list, config.list_max_listpack_size);
            let count = nodes.len();
            let sizes = nodes
                .into_iter()
                .map(|node| QUICKLIST_NODE + allocated(listpack_bytes(node.into_iter())));
            OBJECT + QUICKLIST + extrapolated(sizes, samples, count)
        }
    }
}

/// What a key takes with its value, of whose parts `samples` are looked at.
pub(crate) fn key_bytes(db: &Db, slot: u32, samples: usize, config: &Config) -> usize {
    let value = value_bytes(db.value(slot), db.form(slot), samples, config);
    value + string(db.key(slot).len(), true) + ENTRY
}

/// What a database takes beside its keys and values.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overhead {
    /// Places, entries and objects of all keys.
    pub(crate) main: usize,
    /// The table of those that expire.
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

/// What the tables of a database take beside its keys.
pub(super) fn table_bytes(db: &Db) -> usize {
    places(db.len()) * PLACE + Overhead::of(db).expires
}

/// What a database takes, all in all.
fn db_bytes(db: &Db, config: &Config) -> usize {
    let mut total = table_bytes(db);
    let mut at = 0;
    while let Some(slot) = db.next_used(at) {
        at = slot + 1;
        total += key_bytes(db, slot, SAMPLES, config);
    }
    total
}

impl State {
    /// What an empty server takes, and all data.
    pub(crate) fn memory_bytes(&mut self) -> usize {
        let dbs = self.dbs.iter();
        let data: usize = dbs.map(|db| db_bytes(db, &self.config)).sum();
        let bytes = STARTUP_BYTES + data;
        self.memory_peak = self.memory_peak.max(bytes);
        bytes
    }

    /// The largest of all [`State::memory_bytes`].
    pub(crate) fn memory_peak(&self) -> usize {
        self.memory_peak
    }
}

/// What DEBUG OBJECT says of the nodes of a list.
pub(crate) fn describe_nodes(list: &List, size_class: i32) -> String {
    let nodes = list_nodes(list, size_class);
    let (count, len) = (nodes.len(), list.len());
    let bytes: usize = nodes
        .into_iter()
        .map(|node| listpack_bytes(node.into_iter()))
        .sum();
    let mean = len as f64 / count.max(1) as f64;
    format!(
        " ql_nodes:{count} ql_avg_node:{mean:.2} ql_listpack_max:{size_class} ql_compressed:0 \
         ql_uncompressed_size:{bytes}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let list = list.into_iter().map(Blob::from).collect();
        assert_eq!(bytes("li", Value::List(list)), 160);
        let hash = |value: &str| {
            let limits = super::super::value::HashLimits {
                entries: 512,
                bytes: 64,
                seed: 0,
            };
            let mut hash = Hash::default();
            hash.set(b"f", Blob::from(value), limits);
            Value::Hash(hash)
        };
        assert_eq!(bytes("h", hash("v")), 64);
        assert_eq!(bytes("hb", hash(&"x".repeat(100))), 280);
    }

    #[test]
    fn sizes_are_rounded_as_jemalloc_does() {
        for (bytes, expected) in [
            (1, 8),
            (9, 16),
            (100, 112),
            (129, 160),
            (257, 320),
            (1006, 1024),
        ] {
            assert_eq!(allocated(bytes), expected, "{bytes}");
        }
    }
}
