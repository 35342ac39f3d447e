//! Sorted sets in the table of types.

use super::{SortedSet, SortedSetLimits};
use crate::engine::config::Config;
use crate::engine::rdb::{LISTPACK_EMPTY_BYTES, Reader, Writer, kind, listpack_entry_bytes};
#[cfg(feature = "script")]
use crate::engine::value::Digest;
use crate::engine::value::size::{
    ENTRY, OBJECT, PLACE, TABLE, allocated, extrapolated, places, string,
};
use crate::engine::value::{EncodingHint, TypeRow, Value, ValueType};
#[cfg(feature = "script")]
use crate::resp::format_double;
use crate::resp::{Blob, parse_double};
use std::collections::BTreeSet;

/// Bytes of a `zset`, of a `zskiplist`, and of the node at its head (`server.h`).
const ZSET: usize = 16;
const SKIPLIST: usize = 32;
const SKIPLIST_HEAD: usize = 24 + 32 * 16;
/// Bytes of a node of a skip list with one level; a level more takes 16. Redis draws the number of levels, with
/// 1/4 for one more; here a quarter of the nodes has two.
const SKIPLIST_NODE: usize = 40;
const SKIPLIST_LEVEL: usize = 16;
const NODES_PER_LEVEL: usize = 4;

/// Sorted sets in the table of types.
pub(in crate::engine::value) const ROW: TypeRow = TypeRow {
    name: "zset",
    object_type: 3,
    load: &[
        (kind::ZSET, load_with_texts),
        (kind::ZSET_2, load_with_doubles),
        (kind::ZSET_ZIPLIST, load_ziplist),
        (kind::ZSET_LISTPACK, load_listpack),
    ],
};

impl ValueType for SortedSet {
    fn encoding(&self, _: EncodingHint, _: &Config) -> &'static str {
        if self.is_packed() {
            "listpack"
        } else {
            "skiplist"
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn memory_bytes(&self, _: EncodingHint, samples: usize, config: &Config) -> usize {
        let len = self.len();
        if self.is_packed() {
            let mut bytes = LISTPACK_EMPTY_BYTES;
            self.for_each(0..len, false, |member, score| {
                bytes += listpack_entry_bytes(&member);
                bytes += listpack_entry_bytes(self.score_text(score, config.profile).as_bytes());
            });
            return OBJECT + allocated(bytes);
        }
        let sampled = self.elements(0..samples.min(len));
        let sizes = sampled.iter().enumerate().map(|(at, (member, _))| {
            let levels = usize::from(at % NODES_PER_LEVEL == NODES_PER_LEVEL - 1);
            let node = allocated(SKIPLIST_NODE + levels * SKIPLIST_LEVEL);
            string(member.len(), true) + ENTRY + node
        });
        let head = ZSET + SKIPLIST + TABLE + places(len) * PLACE + allocated(SKIPLIST_HEAD);
        OBJECT + head + extrapolated(sizes, samples, len)
    }

    fn free_effort(&self, _: &Config) -> usize {
        if self.is_packed() { 1 } else { self.len() }
    }

    fn payload_bytes(&self) -> usize {
        self.len()
    }

    fn save(&self, writer: &mut Writer, config: &Config) {
        let ranks = 0..self.len();
        if self.is_packed() {
            let mut entries = Vec::with_capacity(2 * ranks.len());
            self.for_each(ranks, false, |member, score| {
                entries.extend([member, Blob::from(self.score_text(score, config.profile))]);
            });
            writer.kind(kind::ZSET_LISTPACK);
            writer.listpack(entries.iter().map(|entry| &**entry));
            return;
        }
        writer.kind(kind::ZSET_2);
        writer.length(ranks.len() as u64);
        // From the last to the first: so a server that reads it always inserts at the head.
        self.for_each(ranks, true, |member, score| {
            writer.string(&member);
            writer.bytes(&score.to_le_bytes());
        });
    }

    #[cfg(feature = "script")]
    fn digest(&self, digest: &mut Digest) {
        self.for_each(0..self.len(), false, |member, score| {
            let mut element = Digest::default();
            element.mix(&member);
            element.mix(format_double(score).as_bytes());
            digest.add_digest(element);
        });
    }

    fn sortable(&self) -> Option<Vec<Blob>> {
        let elements = self.elements(0..self.len()).into_iter();
        Some(elements.map(|(member, _)| member).collect())
    }
}

fn load_with_texts(reader: &mut Reader<'_>, config: &Config) -> Option<Value> {
    load_elements(reader, config, |reader| {
        let [len] = reader.array()?;
        match len {
            253 => None,
            254 => Some(f64::INFINITY),
            255 => Some(f64::NEG_INFINITY),
            len => parse_double(reader.take(len.into())?),
        }
    })
}

fn load_with_doubles(reader: &mut Reader<'_>, config: &Config) -> Option<Value> {
    load_elements(reader, config, |reader| {
        Some(f64::from_le_bytes(reader.array()?))
    })
}

fn load_elements(
    reader: &mut Reader<'_>,
    config: &Config,
    score: impl Fn(&mut Reader<'_>) -> Option<f64>,
) -> Option<Value> {
    let count = reader.length()?;
    let mut elements = Vec::new();
    for _ in 0..count {
        elements.push((reader.string()?, score(reader)?));
    }
    check(&elements)?;
    let limits = SortedSetLimits::of(config);
    Some(Value::SortedSet(SortedSet::from_elements(elements, limits)))
}

fn load_ziplist(reader: &mut Reader<'_>, config: &Config) -> Option<Value> {
    from_entries(reader.ziplist()?, config)
}

fn load_listpack(reader: &mut Reader<'_>, config: &Config) -> Option<Value> {
    from_entries(reader.listpack()?, config)
}

/// Long members do not make it a skip list here, as in Redis.
fn from_entries(entries: Vec<Blob>, config: &Config) -> Option<Value> {
    let (pairs, rest) = entries.as_chunks();
    if !rest.is_empty() {
        return None;
    }
    let element = |[member, score]: &[Blob; 2]| Some((member.clone(), parse_double(score)?));
    let elements = pairs.iter().map(element).collect::<Option<Vec<_>>>()?;
    check(&elements)?;
    let is_small = elements.len() <= config.zset_max_listpack_entries;
    let set = SortedSet::sorted(elements, is_small, config.seed);
    Some(Value::SortedSet(set))
}

/// `None` if a member is repeated, or a score is not a number.
fn check(elements: &[(Blob, f64)]) -> Option<()> {
    let mut members = BTreeSet::new();
    let mut is_good =
        |(member, score): &(Blob, f64)| !score.is_nan() && members.insert(member.clone());
    elements.iter().all(&mut is_good).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::value::{dump, restore};

    #[test]
    fn payloads_keep_members_and_scores() {
        let config = Config::default();
        for count in [1, 128, 129, 5000] {
            let elements: Vec<(Blob, f64)> = (0..count)
                .map(|number| {
                    let score = match number % 4 {
                        0 => f64::from(number),
                        1 => f64::from(number) / 3.0,
                        2 => -1e300,
                        _ => f64::INFINITY,
                    };
                    (Blob::from(format!("member:{number}")), score)
                })
                .collect();
            let limits = SortedSetLimits::of(&config);
            let set = SortedSet::from_elements(elements, limits);
            let expected = set.elements(0..set.len());
            let Ok(Value::SortedSet(back)) =
                restore(&dump(&Value::SortedSet(set), &config), &config)
            else {
                panic!("a sorted set");
            };
            assert_eq!(back.elements(0..back.len()), expected);
            assert_eq!(back.is_packed(), count <= 128);
        }
    }
}
