//! Values as DUMP and RESTORE write them: one object of the RDB format, its version, a checksum
//! (`rdb.c: rdbSaveObject`, `cluster.c: createDumpPayload`).
//!
//! Bytes equal Redis's for strings, for hashes that are listpacks, and for lists of one node; a longer
//! list is cut into nodes as if it had been filled from the head to the tail. A payload is not trusted:
//! what does not fit together is refused, and nothing is made that is greater than what it claims
//! could hold.

mod crc64;
mod listpack;
mod lzf;

use super::config::Config;
use super::value::{Hash, List, Value};
use crate::resp::{Blob, parse_integer};
use crc64::crc64;

/// `RDB_VERSION` of Redis 7.0.
const VERSION: u16 = 10;
/// The version and the checksum at the end.
const FOOTER_BYTES: usize = 10;

/// Types of objects.
const STRING: u8 = 0;
const LIST: u8 = 1;
const HASH: u8 = 4;
const HASH_LISTPACK: u8 = 16;
const LIST_QUICKLIST_2: u8 = 18;
/// `RDB_TYPE_MAX`: the first number that is no type; 8 is none either.
const TYPES_END: u8 = 22;

/// What a node of a list holds: one great element, or a listpack.
const PLAIN: u64 = 1;
const PACKED: u64 = 2;

/// Longer strings are never integers.
const INTEGER_BYTES_MAX: usize = 11;
/// Only longer strings are compressed, and only if that saves so much.
const COMPRESSED_BYTES_MIN: usize = 21;
const SAVED_BYTES_MIN: usize = 4;
/// Sizes of a node for the classes -1 to -5 (`quicklist.c: optimization_level`).
const NODE_BYTES: [usize; 5] = [4096, 8192, 16384, 32768, 65536];
/// The size that a node has at most whose elements are counted (`SIZE_SAFETY_LIMIT`).
const NODE_BYTES_MAX: usize = 8192;
/// What a new element is expected to take beside its bytes (`SIZE_ESTIMATE_OVERHEAD`).
const ELEMENT_BYTES: usize = 8;

/// Why a payload is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadError {
    /// The version is newer, or the checksum does not fit.
    Footer,
    /// It is not what it says it is.
    Malformed,
    /// It is a value of a type, or in an encoding, that is not implemented.
    NotHere(u8),
}

/// The payload of a value.
pub(crate) fn dump(value: &Value, config: &Config) -> Vec<u8> {
    let mut writer = Writer {
        out: Vec::new(),
        compresses: config.rdbcompression,
    };
    match value {
        Value::String(string) => {
            writer.out.push(STRING);
            writer.string(string);
        }
        Value::Hash(hash) => match hash {
            Hash::Small(pairs) => {
                let entries = pairs.iter().flat_map(|(field, value)| [field, value]);
                writer.out.push(HASH_LISTPACK);
                writer.string(&listpack::encode(entries));
            }
            Hash::Big(map) => {
                writer.out.push(HASH);
                writer.length(map.len() as u64);
                for text in map.iter().flat_map(|(field, value)| [field, value]) {
                    writer.string(text);
                }
            }
        },
        Value::List(list) => {
            writer.out.push(LIST_QUICKLIST_2);
            writer.list(list, config.list_max_listpack_size);
        }
    }
    let mut out = writer.out;
    out.extend(VERSION.to_le_bytes());
    let sum = crc64(&out);
    out.extend(sum.to_le_bytes());
    out
}

struct Writer {
    out: Vec<u8>,
    compresses: bool,
}

impl Writer {
    /// `rdb.c: rdbSaveLen`.
    fn length(&mut self, length: u64) {
        match length {
            0..0x40 => self.out.push(length as u8),
            0x40..0x4000 => self.out.extend((length as u16 | 0x4000).to_be_bytes()),
            0x4000..=0xffff_ffff => {
                self.out.push(0x80);
                self.out.extend((length as u32).to_be_bytes());
            }
            _ => {
                self.out.push(0x81);
                self.out.extend(length.to_be_bytes());
            }
        }
    }

    /// `rdb.c: rdbSaveRawString`.
    fn string(&mut self, bytes: &[u8]) {
        let is_short = bytes.len() <= INTEGER_BYTES_MAX;
        let integer = parse_integer(bytes).filter(|_| is_short);
        if let Some(value) = integer.and_then(|value| i32::try_from(value).ok()) {
            match (i8::try_from(value), i16::try_from(value)) {
                (Ok(value), _) => self.out.extend([0xc0, value as u8]),
                (_, Ok(value)) => {
                    self.out.push(0xc1);
                    self.out.extend(value.to_le_bytes());
                }
                _ => {
                    self.out.push(0xc2);
                    self.out.extend(value.to_le_bytes());
                }
            }
            return;
        }
        if self.compresses
            && bytes.len() >= COMPRESSED_BYTES_MIN
            && let Some(compressed) = lzf::compress(bytes, bytes.len() - SAVED_BYTES_MIN)
        {
            self.out.push(0xc3);
            self.length(compressed.len() as u64);
            self.length(bytes.len() as u64);
            self.out.extend(compressed);
            return;
        }
        self.length(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    fn list(&mut self, list: &List, size_class: i32) {
        let nodes = list_nodes(list, size_class);
        self.length(nodes.len() as u64);
        for node in nodes {
            self.length(PACKED);
            self.string(&listpack::encode(node.into_iter()));
        }
    }
}

/// The nodes of a list that was filled from the head to the tail.
pub(super) fn list_nodes(list: &List, size_class: i32) -> Vec<Vec<&Blob>> {
    let mut nodes: Vec<Vec<&Blob>> = Vec::new();
    let mut node_bytes = 0;
    for element in list.iter() {
        let count = nodes.last().map_or(0, Vec::len);
        let bytes = node_bytes + element.len() + ELEMENT_BYTES;
        match nodes
            .last_mut()
            .filter(|_| has_room(bytes, count, size_class))
        {
            Some(node) => node.push(element),
            None => {
                nodes.push(vec![element]);
                node_bytes = listpack::EMPTY_BYTES;
            }
        }
        node_bytes += listpack::entry_bytes(element);
    }
    nodes
}

/// What a listpack of these entries takes.
pub(super) fn listpack_bytes<'a>(entries: impl Iterator<Item = &'a Blob>) -> usize {
    let entries = entries.map(|entry| listpack::entry_bytes(entry));
    listpack::EMPTY_BYTES + entries.sum::<usize>()
}

/// What a value takes in a file of RDB, without its type.
pub(crate) fn serialized_bytes(value: &Value, config: &Config) -> usize {
    dump(value, config).len() - FOOTER_BYTES - 1
}

/// `quicklist.c: _quicklistNodeAllowInsert`.
fn has_room(bytes: usize, count: usize, size_class: i32) -> bool {
    match usize::try_from(size_class) {
        Ok(most) => bytes <= NODE_BYTES_MAX && count < most.min(usize::from(u16::MAX)),
        Err(_) => {
            let class =
                usize::try_from(size_class.saturating_add(1).unsigned_abs()).unwrap_or(usize::MAX);
            bytes <= NODE_BYTES[class.min(NODE_BYTES.len() - 1)]
        }
    }
}

/// The value of a payload.
pub(crate) fn restore(payload: &[u8], config: &Config) -> Result<Value, PayloadError> {
    let body = checked_body(payload).ok_or(PayloadError::Footer)?;
    let (kind, rest) = body.split_first().ok_or(PayloadError::Malformed)?;
    let mut reader = Reader { rest };
    let value = match *kind {
        STRING => reader.string().map(Value::String),
        LIST => reader.plain_list(),
        LIST_QUICKLIST_2 => reader.list(),
        HASH => reader.hash(config),
        HASH_LISTPACK => reader.hash_listpack(config),
        other if other < TYPES_END && other != 8 => return Err(PayloadError::NotHere(other)),
        _ => None,
    };
    value.ok_or(PayloadError::Malformed)
}

/// What stands before the footer, if that is right (`cluster.c: verifyDumpPayload`).
fn checked_body(payload: &[u8]) -> Option<&[u8]> {
    let body_bytes = payload.len().checked_sub(FOOTER_BYTES)?;
    let (body, footer) = payload.split_at(body_bytes);
    let version = u16::from_le_bytes([footer[0], footer[1]]);
    let (summed, sum) = payload.split_at(body_bytes + 2);
    (version <= VERSION && crc64(summed).to_le_bytes() == *sum).then_some(body)
}

/// A length, or the number of a special encoding.
enum Length {
    Plain(u64),
    Special(u8),
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// `rdb.c: rdbLoadLenByRef`.
    fn length_or_special(&mut self) -> Option<Length> {
        let [first] = self.array()?;
        Some(match first >> 6 {
            0 => Length::Plain(u64::from(first)),
            1 => {
                let [second] = self.array()?;
                Length::Plain(u64::from(u16::from_be_bytes([first & 0x3f, second])))
            }
            2 if first == 0x80 => Length::Plain(u64::from(u32::from_be_bytes(self.array()?))),
            2 if first == 0x81 => Length::Plain(u64::from_be_bytes(self.array()?)),
            2 => return None,
            _ => Length::Special(first & 0x3f),
        })
    }

    fn length(&mut self) -> Option<u64> {
        match self.length_or_special()? {
            Length::Plain(length) => Some(length),
            Length::Special(_) => None,
        }
    }

    fn size(&mut self) -> Option<usize> {
        usize::try_from(self.length()?).ok()
    }

    fn string(&mut self) -> Option<Blob> {
        Some(match self.length_or_special()? {
            Length::Plain(length) => Blob::new(self.take(usize::try_from(length).ok()?)?),
            Length::Special(0) => Blob::from_integer(i8::from_le_bytes(self.array()?).into()),
            Length::Special(1) => Blob::from_integer(i16::from_le_bytes(self.array()?).into()),
            Length::Special(2) => Blob::from_integer(i32::from_le_bytes(self.array()?).into()),
            Length::Special(3) => {
                let (compressed, len) = (self.size()?, self.size()?);
                Blob::from(lzf::decompress(self.take(compressed)?, len)?)
            }
            Length::Special(_) => return None,
        })
    }

    fn plain_list(&mut self) -> Option<Value> {
        let count = self.length()?;
        let mut list = List::default();
        for _ in 0..count {
            list.push(super::value::End::Tail, self.string()?);
        }
        (!list.is_empty()).then(|| Value::List(list))
    }

    fn list(&mut self) -> Option<Value> {
        let nodes = self.length()?;
        let mut list = List::default();
        for _ in 0..nodes {
            let container = self.length()?;
            let content = self.string()?;
            let elements = match container {
                PLAIN => vec![content],
                PACKED => listpack::decode(&content)?,
                _ => return None,
            };
            for element in elements {
                list.push(super::value::End::Tail, element);
            }
        }
        (!list.is_empty()).then(|| Value::List(list))
    }

    fn hash(&mut self, config: &Config) -> Option<Value> {
        let count = self.length()?;
        let mut pairs = Vec::new();
        for _ in 0..count {
            pairs.push((self.string()?, self.string()?));
        }
        let fits = |text: &Blob| text.len() <= config.hash_max_listpack_value;
        let is_small = pairs.len() <= config.hash_max_listpack_entries
            && pairs
                .iter()
                .all(|(field, value)| fits(field) && fits(value));
        hash_value(pairs, is_small, config)
    }

    /// Long values do not make it a big one here, as in Redis.
    fn hash_listpack(&mut self, config: &Config) -> Option<Value> {
        let entries = listpack::decode(&self.string()?)?;
        if !entries.len().is_multiple_of(2) {
            return None;
        }
        let mut entries = entries.into_iter();
        let mut pairs = Vec::new();
        while let (Some(field), Some(value)) = (entries.next(), entries.next()) {
            pairs.push((field, value));
        }
        let is_small = pairs.len() <= config.hash_max_listpack_entries;
        hash_value(pairs, is_small, config)
    }
}

fn hash_value(pairs: Vec<(Blob, Blob)>, is_small: bool, config: &Config) -> Option<Value> {
    if pairs.is_empty() {
        return None;
    }
    Hash::from_pairs(pairs, is_small, config.seed).map(Value::Hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::value::HashLimits;

    fn round_trip(value: &Value, config: &Config) -> Value {
        restore(&dump(value, config), config).expect("a payload of our own")
    }

    fn list(count: usize, bytes: usize) -> Value {
        let elements = (0..count).map(|i| Blob::from(format!("{i:0bytes$}")));
        Value::List(elements.collect())
    }

    #[test]
    fn values_come_back() {
        let mut config = Config::default();
        for text in [
            "",
            "5",
            "-200",
            "70000",
            "12345678901",
            "abc",
            &"ab".repeat(300),
        ] {
            let value = Value::String(Blob::from(text));
            let Value::String(back) = round_trip(&value, &config) else {
                panic!("a string");
            };
            assert_eq!(*back, *text.as_bytes());
        }
        for size_class in [-5, -1, 0, 3, 1000] {
            config.list_max_listpack_size = size_class;
            let given = list(3000, 12);
            let (Value::List(given), Value::List(back)) = (&given, round_trip(&given, &config))
            else {
                panic!("lists");
            };
            assert!(given.iter().eq(back.iter()));
        }
        for count in [1, 100, 2000] {
            let mut hash = Hash::default();
            let limits = HashLimits {
                entries: 512,
                bytes: 64,
                seed: 0,
            };
            for i in 0..count {
                hash.set(format!("f{i}").as_bytes(), Blob::from_integer(i), limits);
            }
            let value = Value::Hash(hash.clone());
            let Value::Hash(back) = round_trip(&value, &config) else {
                panic!("a hash");
            };
            assert!(hash.iter().eq(back.iter()));
            assert_eq!(matches!(back, Hash::Small(_)), count <= 512);
        }
    }

    #[test]
    fn nodes_are_filled_as_a_quicklist_is() {
        for (bytes, count, size_class, expected) in [
            (4096, 500, -1, true),
            (4097, 1, -1, false),
            (8192, 500, -2, true),
            (65536, 500, -5, true),
            (65536, 500, i32::MIN, true),
            (65537, 500, -9, false),
            (100, 2, 3, true),
            (100, 3, 3, false),
            (8193, 2, 3, false),
            (100, 0, 0, false),
        ] {
            assert_eq!(
                has_room(bytes, count, size_class),
                expected,
                "{bytes} {count} {size_class}"
            );
        }
    }

    #[test]
    fn what_was_cut_or_changed_is_refused() {
        let config = Config::default();
        let payload = dump(&list(20, 30), &config);
        for cut in 0..payload.len() {
            assert!(restore(&payload[..cut], &config).is_err());
            let mut changed = payload.clone();
            changed[cut] ^= 1;
            assert_eq!(restore(&changed, &config).err(), Some(PayloadError::Footer));
        }
        // With a right checksum it is up to the reader, which must neither panic nor make up memory.
        for cut in 0..payload.len() - FOOTER_BYTES {
            for change in [1, 0x40, 0x80, 0xff] {
                let mut body = payload[..payload.len() - FOOTER_BYTES].to_vec();
                body[cut] ^= change;
                body.extend(VERSION.to_le_bytes());
                body.extend(crc64(&body).to_le_bytes());
                let _either = restore(&body, &config);
            }
        }
    }
}
