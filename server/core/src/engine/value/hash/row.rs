//! Hashes in the table of types.

use super::Hash;
use crate::engine::config::Config;
use crate::engine::rdb::{Reader, Writer, kind, listpack_bytes};
use crate::engine::time::UnixMillis;
#[cfg(feature = "script")]
use crate::engine::value::Digest;
use crate::engine::value::size::{
    ENTRY, OBJECT, PLACE, TABLE, allocated, extrapolated, places, string,
};
use crate::engine::value::{Element, EncodingHint, Text, TypeRow, Value, ValueType};
use crate::resp::{Blob, parse_integer};

/// Hashes in the table of types.
pub(in crate::engine::value) const ROW: TypeRow = TypeRow {
    name: "hash",
    object_type: 4,
    load: &[
        (kind::HASH, load_pairs),
        (kind::HASH_ZIPMAP, load_zipmap),
        (kind::HASH_ZIPLIST, load_ziplist),
        (kind::HASH_LISTPACK, load_listpack),
        (kind::HASH_METADATA, load_timed_pairs),
        (kind::HASH_LISTPACK_EX, load_timed_listpack),
    ],
};

impl ValueType for Hash {
    fn encoding(&self, _: EncodingHint, _: &Config) -> &'static str {
        match self {
            Self::Small(_) => "listpack",
            Self::Big(_) => "hashtable",
            Self::Timed(timed) if matches!(timed.hash, Self::Small(_)) => "listpackex",
            Self::Timed(_) => "hashtable",
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn memory_bytes(&self, _: EncodingHint, samples: usize, _: &Config) -> usize {
        match self.plain() {
            Self::Timed(_) => OBJECT,
            Self::Small(_) => {
                let pairs = self.iter();
                let entries = pairs.flat_map(|(field, value)| [field.bytes(), value.bytes()]);
                OBJECT + allocated(listpack_bytes(entries))
            }
            Self::Big(map) => {
                let text = |text: &Element| string(text.len(), true);
                let sizes = map
                    .iter()
                    .map(|(field, value)| ENTRY + text(field) + text(value));
                let entries = extrapolated(sizes, samples, map.len());
                OBJECT + TABLE + places(map.len()) * PLACE + entries
            }
        }
    }

    fn free_effort(&self, _: &Config) -> usize {
        match self.plain() {
            Self::Big(table) => table.len(),
            Self::Small(_) | Self::Timed(_) => 1,
        }
    }

    fn payload_bytes(&self) -> usize {
        self.len()
    }

    fn save(&self, writer: &mut Writer, _: &Config) {
        if let Self::Timed(timed) = self {
            return self.save_timed(writer, matches!(timed.hash, Self::Small(_)));
        }
        let pairs = self.iter();
        let entries = pairs.flat_map(|(field, value)| [field.bytes(), value.bytes()]);
        match self {
            Self::Small(_) => {
                writer.kind(kind::HASH_LISTPACK);
                writer.listpack(entries);
            }
            Self::Big(map) => {
                writer.kind(kind::HASH);
                writer.length(map.len() as u64);
                entries.for_each(|text| writer.string(text));
            }
            Self::Timed(_) => {}
        }
    }

    #[cfg(feature = "script")]
    fn digest(&self, digest: &mut Digest) {
        for (field, value) in self.iter() {
            let mut pair = Digest::default();
            pair.mix(&field);
            pair.mix(&value);
            digest.add_digest(pair);
        }
    }
}

impl Hash {
    /// The earliest deadline, and each pair with its own (`rdb.c: rdbSaveObject`).
    fn save_timed(&self, writer: &mut Writer, is_small: bool) {
        let first = self.first_deadline();
        if is_small {
            writer.kind(kind::HASH_LISTPACK_EX);
            writer.bytes(&first.map_or(0, |first| first.0).to_le_bytes());
            // Redis looks for expired fields at the front alone.
            let mut pairs: Vec<_> = self.iter().collect();
            let key = |field: &Text<'_>| self.deadline(field).map_or(i64::MAX, |it| it.0);
            pairs.sort_by_key(|(field, _)| key(field));
            let mut entries = Vec::new();
            for (field, value) in pairs {
                let deadline = self.deadline(&field).map_or(0, |deadline| deadline.0);
                entries.push(field.bytes().to_vec());
                entries.push(value.bytes().to_vec());
                entries.push(deadline.to_string().into_bytes());
            }
            writer.listpack(entries.iter().map(Vec::as_slice));
            return;
        }
        match first {
            None => writer.kind(kind::HASH),
            Some(first) => {
                writer.kind(kind::HASH_METADATA);
                writer.bytes(&first.0.to_le_bytes());
            }
        }
        writer.length(self.len() as u64);
        for (field, value) in self.iter() {
            if let Some(first) = first {
                let after = self
                    .deadline(&field)
                    .map(|deadline| deadline.0 - first.0 + 1);
                writer.length(after.unwrap_or(0).unsigned_abs());
            }
            writer.string(&field);
            writer.string(&value);
        }
    }
}

/// Sets the deadlines of the fields of a hash that was read.
fn with_deadlines(hash: Option<Value>, deadlines: Vec<(Element, i64)>) -> Option<Value> {
    let mut hash = hash?;
    if let Value::Hash(hash) = &mut hash {
        for (field, deadline) in deadlines {
            hash.set_deadline(&field, Some(UnixMillis(deadline)));
        }
    }
    Some(hash)
}

fn load_timed_pairs(reader: &mut Reader<'_>, config: &Config) -> Option<Value> {
    let first = i64::from_le_bytes(reader.array()?);
    let count = reader.length()?;
    let (mut pairs, mut deadlines) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let after = i64::try_from(reader.length()?).ok()?;
        let field = Element::from(&reader.string()?);
        if after > 0 {
            deadlines.push((field.clone(), first.checked_add(after - 1)?));
        }
        pairs.push((field, Element::from(&reader.string()?)));
    }
    let is_small = is_small(&pairs, config);
    with_deadlines(hash(pairs, is_small), deadlines)
}

fn load_timed_listpack(reader: &mut Reader<'_>, config: &Config) -> Option<Value> {
    let _first: [u8; 8] = reader.array()?;
    let entries = reader.listpack()?;
    if !entries.len().is_multiple_of(3) {
        return None;
    }
    let (mut pairs, mut deadlines) = (Vec::new(), Vec::new());
    for entry in entries.chunks(3) {
        let field = Element::from(&entry[0]);
        match parse_integer(&entry[2])? {
            0 => {}
            deadline => deadlines.push((field.clone(), deadline)),
        }
        pairs.push((field, Element::from(&entry[1])));
    }
    let is_small = pairs.len() <= config.hash_max_listpack_entries;
    with_deadlines(hash(pairs, is_small), deadlines)
}

fn is_small(pairs: &[(Element, Element)], config: &Config) -> bool {
    let fits = |text: &Element| text.len() <= config.hash_max_listpack_value;
    pairs.len() <= config.hash_max_listpack_entries
        && pairs
            .iter()
            .all(|(field, value)| fits(field) && fits(value))
}

fn load_pairs(reader: &mut Reader<'_>, config: &Config) -> Option<Value> {
    let count = reader.length()?;
    let mut pairs = Vec::new();
    for _ in 0..count {
        pairs.push((
            Element::from(&reader.string()?),
            Element::from(&reader.string()?),
        ));
    }
    let is_small = is_small(&pairs, config);
    hash(pairs, is_small)
}

fn load_zipmap(reader: &mut Reader<'_>, config: &Config) -> Option<Value> {
    let entries = reader.zipmap()?;
    let fits = |text: &Blob| text.len() <= config.hash_max_listpack_value;
    let is_small = entries.iter().all(fits);
    from_entries(entries, is_small, config)
}

fn load_ziplist(reader: &mut Reader<'_>, config: &Config) -> Option<Value> {
    from_entries(reader.ziplist()?, true, config)
}

/// Long values do not make it a hash table here, as in Redis.
fn load_listpack(reader: &mut Reader<'_>, config: &Config) -> Option<Value> {
    from_entries(reader.listpack()?, true, config)
}

fn from_entries(entries: Vec<Blob>, fits: bool, config: &Config) -> Option<Value> {
    if !entries.len().is_multiple_of(2) {
        return None;
    }
    let mut entries = entries.into_iter();
    let mut pairs = Vec::new();
    while let (Some(field), Some(value)) = (entries.next(), entries.next()) {
        pairs.push((Element::from(&field), Element::from(&value)));
    }
    let is_small = fits && pairs.len() <= config.hash_max_listpack_entries;
    hash(pairs, is_small)
}

fn hash(pairs: Vec<(Element, Element)>, is_small: bool) -> Option<Value> {
    Hash::from_pairs(pairs, is_small).map(Value::Hash)
}
