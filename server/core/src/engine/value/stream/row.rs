//! Streams in the table of types.

use super::group::ConsumerGroup;
use super::node::Node;
use super::shared_map::SharedMap;
use super::{Counters, Inner, Stream, StreamId};
use crate::engine::config::Config;
use crate::engine::profile::feature;
use crate::engine::rdb::{Reader, Writer, kind};
use crate::engine::time::UnixMillis;
#[cfg(feature = "script")]
use crate::engine::value::Digest;
use crate::engine::value::size::{OBJECT, allocated};
use crate::engine::value::{EncodingHint, TypeRow, Value, ValueType};
use std::sync::Arc;

/// Bytes of a stream, a group, a consumer and a pending entry.
const STREAM: usize = 80;
const GROUP: usize = 40;
const CONSUMER: usize = 24;
const PENDING: usize = 24;
/// Redis's estimates for a key of a radix tree, and for a node of it.
const RADIX_KEY: usize = 16;
const RADIX_NODE: usize = 4 + 30 * 8;

/// Streams in the table of types.
pub(in crate::engine::value) const ROW: TypeRow = TypeRow {
    name: "stream",
    object_type: 6,
    load: &[
        (kind::STREAM_LISTPACKS, load_first_form),
        (kind::STREAM_LISTPACKS_2, load_second_form),
        (kind::STREAM_LISTPACKS_3, load_third_form),
    ],
};

impl ValueType for Stream {
    fn encoding(&self, _: EncodingHint, _: &Config) -> &'static str {
        "stream"
    }

    /// A stream without entries stays.
    fn is_empty(&self) -> bool {
        false
    }

    fn memory_bytes(&self, _: EncodingHint, samples: usize, _: &Config) -> usize {
        let inner = &*self.0;
        let mut bytes = OBJECT + STREAM + radix_bytes(inner.nodes.len(), self.radix_nodes());
        let sizes = || inner.nodes.iter().map(|(_, node)| node);
        let node_bytes = |node: &Arc<Node>| allocated(node.requested_bytes());
        let count = samples.min(inner.nodes.len());
        let sampled: usize = sizes().take(count).map(node_bytes).sum();
        bytes += match inner.nodes.last() {
            Some((_, last)) if count < inner.nodes.len() => {
                let mean = sampled / count.max(1);
                mean * (inner.nodes.len() - 1) + node_bytes(last)
            }
            _ => sampled,
        };
        for (_, group) in self.groups() {
            bytes += GROUP + pending_bytes(group.pending().iter().map(|(id, _)| id));
            bytes += PENDING * group.pending().len();
            for consumer in group.consumers() {
                bytes += CONSUMER + consumer.name.len();
                bytes += pending_bytes(consumer.pending_from(StreamId::MIN));
            }
        }
        bytes
    }

    /// Nodes, and the pending entries of the first group for each of the groups.
    fn free_effort(&self, _: &Config) -> usize {
        let pending = self
            .groups()
            .next()
            .map_or(0, |(_, group)| group.pending().len());
        self.radix_nodes() + self.groups().count() * (1 + pending)
    }

    fn payload_bytes(&self) -> usize {
        usize::try_from(self.len()).unwrap_or(usize::MAX)
    }

    fn save(&self, writer: &mut Writer, config: &Config) {
        let form = match config.profile.has(feature::CONSUMER_ACTIVITY) {
            true => Form::Third,
            false => Form::Second,
        };
        writer.kind(match form {
            Form::First => kind::STREAM_LISTPACKS,
            Form::Second => kind::STREAM_LISTPACKS_2,
            Form::Third => kind::STREAM_LISTPACKS_3,
        });
        writer.length(self.0.nodes.len() as u64);
        for (id, node) in self.0.nodes.iter() {
            writer.string(&id.to_bytes());
            writer.string(node.as_bytes());
        }
        let counters = self.counters();
        writer.length(self.len());
        save_id(counters.last_id, writer);
        save_id(counters.first_id, writer);
        save_id(counters.max_deleted_id, writer);
        writer.length(counters.entries_added);
        writer.length(self.group_count() as u64);
        for (name, group) in self.groups() {
            writer.string(name);
            save_group(group, form, writer);
        }
    }

    #[cfg(feature = "script")]
    fn digest(&self, digest: &mut Digest) {
        for entry in self.range(StreamId::MIN, StreamId::MAX) {
            digest.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
            for (field, value) in entry.fields {
                digest.mix(&field);
                digest.mix(&value);
            }
        }
    }
}

impl Stream {
    /// Nodes of entries.
    pub(crate) fn node_count(&self) -> usize {
        self.0.nodes.len()
    }

    /// Nodes of the radix tree that Redis would keep them in.
    pub(crate) fn radix_nodes(&self) -> usize {
        radix_nodes(self.0.nodes.iter().map(|(id, _)| id))
    }
}

fn radix_bytes(keys: usize, nodes: usize) -> usize {
    RADIX_KEY * keys + RADIX_NODE * nodes
}

fn pending_bytes(ids: impl Iterator<Item = StreamId>) -> usize {
    let ids: Vec<_> = ids.collect();
    radix_bytes(ids.len(), radix_nodes(ids.iter().copied()))
}

/// Nodes of a radix tree with these ids, which are sorted (`rax.c`).
fn radix_nodes(ids: impl Iterator<Item = StreamId>) -> usize {
    let keys: Vec<_> = ids.map(StreamId::to_bytes).collect();
    match &keys[..] {
        [] => 1,
        keys => subtree_nodes(keys, 0),
    }
}

/// The same below a prefix that all keys have in common.
fn subtree_nodes(keys: &[[u8; 16]], depth: usize) -> usize {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
        return 0;
    };
    if keys.len() == 1 {
        // One node for the rest of the key, and the end.
        return 1 + usize::from(depth < first.len());
    }
    let common = first[depth..]
        .iter()
        .zip(&last[depth..])
        .take_while(|(one, other)| one == other)
        .count();
    let split = depth + common;
    let below: usize = keys
        .chunk_by(|one, other| one[split] == other[split])
        .map(|keys| subtree_nodes(keys, split + 1))
        .sum();
    1 + usize::from(common > 0) + below
}

fn save_id(id: StreamId, writer: &mut Writer) {
    writer.length(id.ms);
    writer.length(id.seq);
}

fn save_group(group: &ConsumerGroup, form: Form, writer: &mut Writer) {
    save_id(group.last_id, writer);
    writer.length(group.entries_read.unwrap_or(u64::MAX));
    writer.length(group.pending().len() as u64);
    for (id, pending) in group.pending().iter() {
        writer.bytes(&id.to_bytes());
        writer.bytes(&pending.delivered_at.0.to_le_bytes());
        writer.length(pending.deliveries);
    }
    writer.length(group.consumer_count() as u64);
    for consumer in group.consumers() {
        writer.string(&consumer.name);
        writer.bytes(&consumer.seen_at.0.to_le_bytes());
        if form == Form::Third {
            let active_at = consumer.active_at.map_or(NEVER_ACTIVE, |at| at.0);
            writer.bytes(&active_at.to_le_bytes());
        }
        writer.length(consumer.pending_count() as u64);
        for id in consumer.pending_from(StreamId::MIN) {
            writer.bytes(&id.to_bytes());
        }
    }
}

fn load_id(reader: &mut Reader<'_>) -> Option<StreamId> {
    Some(StreamId::new(reader.length()?, reader.length()?))
}

/// What a stream in an RDB file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// Redis 5 and 6: without the counters.
    First,
    /// Redis 7.0.
    Second,
    /// Redis 7.2: with the times at which consumers were active.
    Third,
}

/// The time at which a consumer was active that never was.
const NEVER_ACTIVE: i64 = -1;

fn load_first_form(reader: &mut Reader<'_>, _: &Config) -> Option<Value> {
    load(reader, Form::First)
}

fn load_second_form(reader: &mut Reader<'_>, _: &Config) -> Option<Value> {
    load(reader, Form::Second)
}

fn load_third_form(reader: &mut Reader<'_>, _: &Config) -> Option<Value> {
    load(reader, Form::Third)
}

fn load(reader: &mut Reader<'_>, form: Form) -> Option<Value> {
    let has_counters = form >= Form::Second;
    let mut nodes = SharedMap::default();
    let mut live = 0;
    for _ in 0..reader.length()? {
        let id = StreamId::from_bytes(reader.string()?.as_slice().try_into().ok()?);
        let node = Node::from_bytes(&reader.string()?, id)?;
        live += node.live();
        if nodes.insert(id, Arc::new(node)).is_some() {
            return None;
        }
    }
    let len = reader.length()?;
    if len != live {
        return None;
    }
    let mut counters = Counters {
        last_id: load_id(reader)?,
        entries_added: len,
        ..Counters::default()
    };
    if has_counters {
        counters.first_id = load_id(reader)?;
        counters.max_deleted_id = load_id(reader)?;
        counters.entries_added = reader.length()?;
    }
    let mut stream = Stream(Arc::new(Inner {
        nodes,
        len,
        counters,
        ..Inner::default()
    }));
    if !has_counters {
        stream.find_first_id();
    }
    for _ in 0..reader.length()? {
        let name = reader.string()?;
        let group = load_group(reader, form, &stream)?;
        if !stream.add_group(&name, group) {
            return None;
        }
    }
    Some(Value::Stream(stream))
}

fn load_group(reader: &mut Reader<'_>, form: Form, stream: &Stream) -> Option<ConsumerGroup> {
    let last_id = load_id(reader)?;
    let entries_read = if form >= Form::Second {
        Some(reader.length()?).filter(|read| *read != u64::MAX)
    } else {
        stream.entries_up_to(last_id)
    };
    let mut group = ConsumerGroup::new(last_id, entries_read);
    // Which consumer has them comes behind.
    let mut pending = SharedMap::default();
    for _ in 0..reader.length()? {
        let id = StreamId::from_bytes(reader.array()?);
        let delivered_at = UnixMillis(i64::from_le_bytes(reader.array()?));
        let deliveries = reader.length()?;
        if pending.insert(id, (delivered_at, deliveries)).is_some() {
            return None;
        }
    }
    for _ in 0..reader.length()? {
        let name = reader.string()?;
        let seen_at = UnixMillis(i64::from_le_bytes(reader.array()?));
        // Of an older form, the consumer was active when it was seen.
        let active_at = match form {
            Form::First | Form::Second => Some(seen_at),
            Form::Third => Some(i64::from_le_bytes(reader.array()?))
                .filter(|at| *at != NEVER_ACTIVE)
                .map(UnixMillis),
        };
        let consumer = group.add_consumer(&name, seen_at)?;
        group.be_active(consumer, active_at);
        for _ in 0..reader.length()? {
            let id = StreamId::from_bytes(reader.array()?);
            let (delivered_at, deliveries) = pending.remove(id)?;
            group.deliver(id, consumer, delivered_at, deliveries);
        }
    }
    pending.is_empty().then_some(group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::value::{dump, restore};

    #[test]
    fn radix_nodes_are_counted_as_redis_counts_them() {
        let count =
            |ids: &[(u64, u64)]| radix_nodes(ids.iter().map(|(ms, seq)| StreamId::new(*ms, *seq)));
        assert_eq!(count(&[]), 1);
        assert_eq!(count(&[(1, 1)]), 2);
        // The last byte differs: the common part, the branch, two ends.
        assert_eq!(count(&[(1, 1), (1, 2)]), 4);
        // The first byte differs.
        assert_eq!(count(&[(1, 1), (1 << 56, 1)]), 5);
    }

    #[test]
    fn a_payload_brings_all_back() {
        let config = Config::default();
        let mut stream = Stream::default();
        let limits = super::super::NodeLimits {
            bytes: 4096,
            entries: 10,
        };
        for ms in 1..45 {
            stream.append(StreamId::new(ms, 0), &[(b"f", b"v")], limits);
        }
        stream.delete(&[StreamId::new(3, 0)]);
        stream.add_group(b"g", ConsumerGroup::new(StreamId::new(5, 0), None));
        let group = stream.group_mut(b"g").expect("a group");
        for name in [b"a", b"b"] {
            let consumer = group.add_consumer(name, UnixMillis(9)).expect("new");
            group.deliver(
                StreamId::new(u64::from(name[0]), 0),
                consumer,
                UnixMillis(8),
                3,
            );
        }
        let payload = dump(&Value::Stream(stream), &config);
        let back = restore(&payload, &config).expect("a payload of ours");
        assert_eq!(dump(&back, &config), payload);
    }
}
