//! Keys and values as a test sees them: owned, comparable, printable.

use crate::engine::{Db, StreamId, UnixMillis, Value};
use crate::resp::{format_double, quoted};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Data {
    /// A string.
    String(Bytes),
    /// The fields of a hash.
    Hash(BTreeMap<Bytes, Bytes>),
    /// The elements of a list, its head first.
    List(Vec<Bytes>),
    /// The members of a set.
    Set(BTreeSet<Bytes>),
    /// The members of a sorted set with their scores, the lowest score first.
    SortedSet(Vec<(Bytes, f64)>),
    /// The entries of a stream, the oldest first: the id, fields and values.
    Stream(Vec<(String, Vec<(Bytes, Bytes)>)>),
}

/// A score is never NaN.
impl Eq for Data {}

/// The value of a key with its deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its value.
    pub data: Data,
    /// Past which instant of the server's clock it is gone.
    pub deadline: Option<UnixMillis>,
}

/// A pending entry of a stream, as XPENDING shows it: a consumer of a group has read it and has not acknowledged it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingEntry {
    /// The id of the entry. The stream may have lost the entry itself.
    pub id: String,
    /// The name of the consumer.
    pub consumer: Bytes,
    /// When the entry was delivered last, on the server's clock.
    pub delivered_at: UnixMillis,
    /// Number of deliveries.
    pub deliveries: u64,
}

impl Data {
    fn of(value: &Value) -> Self {
        let owned = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
        match value {
            Value::String(string) => Self::String(owned(string)),
            Value::Hash(hash) => Self::Hash(
                hash.iter()
                    .map(|(field, value)| (owned(&field), owned(&value)))
                    .collect(),
            ),
            Value::Set(set) => Self::Set(set.iter().map(|member| owned(&member)).collect()),
            Value::List(list) => Self::List(list.iter().map(|element| owned(&element)).collect()),
            Value::SortedSet(set) => {
                let elements = set.elements(0..set.len()).into_iter();
                Self::SortedSet(
                    elements
                        .map(|(member, score)| (owned(&member), score))
                        .collect(),
                )
            }
            Value::Stream(stream) => Self::Stream(
                stream
                    .range(StreamId::MIN, StreamId::MAX)
                    .map(|entry| {
                        let fields = entry.fields;
                        let fields = fields.map(|(field, value)| (owned(&field), owned(&value)));
                        (entry.id.to_string(), fields.collect())
                    })
                    .collect(),
            ),
        }
    }

    /// A line for each part, as an assertion shows it.
    pub fn lines(&self) -> Vec<String> {
        match self {
            Self::String(bytes) => vec![quoted(bytes)],
            Self::Hash(pairs) => pairs
                .iter()
                .map(|(field, value)| format!("{}: {}", quoted(field), quoted(value)))
                .collect(),
            Self::Set(members) => members.iter().map(|member| quoted(member)).collect(),
            Self::List(elements) => elements
                .iter()
                .enumerate()
                .map(|(index, element)| format!("{index}) {}", quoted(element)))
                .collect(),
            Self::SortedSet(elements) => elements
                .iter()
                .map(|(member, score)| format!("{}: {}", quoted(member), format_double(*score)))
                .collect(),
            Self::Stream(entries) => entries
                .iter()
                .map(|(id, fields)| {
                    let fields = fields
                        .iter()
                        .map(|(field, value)| format!("{} {}", quoted(field), quoted(value)));
                    format!("{id}: {}", fields.collect::<Vec<_>>().join(" "))
                })
                .collect(),
        }
    }
}

impl Db {
    fn contents_of(&self, slot: u32) -> Stored {
        Stored {
            data: Data::of(self.value(slot)),
            deadline: self.deadline(slot),
        }
    }

    /// The deadline of a key that is live at this instant; `None` if there is no such key, `Some(None)` if it stays.
    pub fn deadline_of(&self, key: &[u8], now: UnixMillis) -> Option<Option<UnixMillis>> {
        let (slot, is_live) = self.find_live(key, now)?;
        is_live.then(|| self.deadline(slot))
    }

    /// The value and the deadline of a key that is live at this instant.
    pub fn stored(&self, key: &[u8], now: UnixMillis) -> Option<Stored> {
        let (slot, is_live) = self.find_live(key, now)?;
        is_live.then(|| self.contents_of(slot))
    }

    /// The deadlines of the fields of a hash, by field. Empty if there is no such key at this instant, or if it is no hash.
    pub fn field_deadlines(&self, key: &[u8], now: UnixMillis) -> BTreeMap<Bytes, UnixMillis> {
        let found = self.find_live(key, now).filter(|&(_, is_live)| is_live);
        let Some(Value::Hash(hash)) = found.map(|(slot, _)| self.value(slot)) else {
            return BTreeMap::new();
        };
        let fields = hash.iter().filter_map(|(field, _)| {
            let deadline = hash.deadline(&field)?;
            Some((Bytes::copy_from_slice(&field), deadline))
        });
        fields.collect()
    }

    /// The pending entries of a consumer group, by id. Empty if there is no such stream at this instant, or no such group.
    pub fn pending_entries(&self, key: &[u8], group: &[u8], now: UnixMillis) -> Vec<PendingEntry> {
        let found = self.find_live(key, now).filter(|&(_, is_live)| is_live);
        let Some(Value::Stream(stream)) = found.map(|(slot, _)| self.value(slot)) else {
            return Vec::new();
        };
        let Some(group) = stream.group(group) else {
            return Vec::new();
        };
        let entries = group.pending().iter().filter_map(|(id, entry)| {
            let consumer = group.consumer(entry.consumer)?;
            Some(PendingEntry {
                id: id.to_string(),
                consumer: Bytes::copy_from_slice(&consumer.name),
                delivered_at: entry.delivered_at,
                deliveries: entry.deliveries,
            })
        });
        entries.collect()
    }

    /// The keys; with `now`, those that are live at that instant.
    pub fn contents(&self, now: Option<UnixMillis>) -> BTreeMap<Bytes, Stored> {
        let mut all = BTreeMap::new();
        let mut at = 0;
        while let Some(slot) = self.next_used(at) {
            at = slot + 1;
            let deadline = self.deadline(slot);
            if now.is_none_or(|now| deadline.is_none_or(|deadline| now <= deadline)) {
                let key = Bytes::copy_from_slice(self.key(slot));
                all.insert(key, self.contents_of(slot));
            }
        }
        all
    }
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(bytes) => f.write_str(&quoted(bytes)),
            Self::Hash(_) | Self::Set(_) | Self::SortedSet(_) => {
                write!(f, "{{{}}}", self.lines().join(", "))
            }
            Self::List(elements) => {
                let elements = elements.iter().map(|element| quoted(element));
                write!(f, "[{}]", elements.collect::<Vec<_>>().join(", "))
            }
            Self::Stream(entries) => {
                let entries = entries.iter().map(|(id, fields)| {
                    let fields = fields
                        .iter()
                        .map(|(field, value)| format!("{}: {}", quoted(field), quoted(value)));
                    format!("{id} {{{}}}", fields.collect::<Vec<_>>().join(", "))
                });
                write!(f, "[{}]", entries.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.deadline {
            Some(deadline) => write!(f, "{} until {} ms", self.data, deadline.0),
            None => write!(f, "{}", self.data),
        }
    }
}
