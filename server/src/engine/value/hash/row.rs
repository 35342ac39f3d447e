//! Hashes in the table of types.

use super::Hash;
use crate::engine::config::Config;
use crate::engine::rdb::{Reader, Writer, kind, listpack_bytes};
#[cfg(feature = "script")]
use crate::engine::value::Digest;
use crate::engine::value::size::{
    ENTRY, OBJECT, PLACE, TABLE, allocated, extrapolated, places, string,
};
use crate::engine::value::{Element, EncodingHint, TypeRow, Value, ValueType};
use crate::resp::Blob;

/// Hashes in the table of types.
pub(in crate::engine::value) const ROW: TypeRow = TypeRow {
    name: "hash",
    object_type: 4,
    load: &[
        (kind::HASH, load_pairs),
        (kind::HASH_ZIPMAP, load_zipmap),
        (kind::HASH_ZIPLIST, load_ziplist),
        (kind::HASH_LISTPACK, load_listpack),
    ],
};

impl ValueType for Hash {
    fn encoding(&self, _: EncodingHint, _: &Config) -> &'static str {
        match self {
            Self::Small(_) => "listpack",
            Self::Big(_) => "hashtable",
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn memory_bytes(&self, _: EncodingHint, samples: usize, _: &Config) -> usize {
        match self {
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

    fn payload_bytes(&self) -> usize {
        self.len()
    }

    fn save(&self, writer: &mut Writer, _: &Config) {
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

fn load_pairs(reader: &mut Reader<'_>, config: &Config) -> Option<Value> {
    let count = reader.length()?;
    let mut pairs = Vec::new();
    for _ in 0..count {
        pairs.push((
            Element::from(&reader.string()?),
            Element::from(&reader.string()?),
        ));
    }
    let fits = |text: &Element| text.len() <= config.hash_max_listpack_value;
    let is_small = pairs.len() <= config.hash_max_listpack_entries
        && pairs
            .iter()
            .all(|(field, value)| fits(field) && fits(value));
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
