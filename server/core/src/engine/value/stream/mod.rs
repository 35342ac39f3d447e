//! Streams: entries in nodes as Redis cuts them, and consumer groups.
//!
//! A clone takes a constant number of steps. A change after it copies the node that it concerns, and the
//! lists that lead there ([`SharedMap`]).

mod group;
mod id;
mod node;
mod row;
mod shared_map;

pub(crate) use group::{ConsumerGroup, ConsumerNumber, Pending};
pub(crate) use id::{NewId, StreamId};
pub(crate) use node::{Fields, NodeLimits};
pub(super) use row::ROW;

use crate::engine::time::UnixMillis;
use crate::resp::Blob;
use group::Groups;
use node::{EntryPlace, EntryRef, Node};
use shared_map::SharedMap;
use std::sync::Arc;

/// An entry: its id, its fields and values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) id: StreamId,
    pub(crate) fields: Fields<'a>,
}

/// Which entries a trimming removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threshold {
    /// Removes the oldest entries beyond this number.
    MaxLen(u64),
    /// Removes the entries before this id.
    MinId(StreamId),
}

/// A trimming of the oldest entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trim {
    pub(crate) threshold: Threshold,
    /// Removes whole nodes only.
    pub(crate) is_approximate: bool,
    /// Removes no more entries than this; 0 for no limit.
    pub(crate) limit: u64,
}

/// A stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream(Arc<Inner>);

#[derive(Clone, Debug, Default)]
struct Inner {
    /// By the id of the first entry that the node ever held.
    nodes: SharedMap<StreamId, Arc<Node>>,
    /// Live entries.
    len: u64,
    counters: Counters,
    groups: Groups,
}

/// Facts that a stream keeps after its entries are gone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// The greatest id that was ever added.
    pub(crate) last_id: StreamId,
    /// The id of the first live entry; zero if there is none.
    pub(crate) first_id: StreamId,
    /// The greatest id that XDEL has deleted.
    pub(crate) max_deleted_id: StreamId,
    /// Entries that were ever added.
    pub(crate) entries_added: u64,
}

impl Stream {
    fn inner(&mut self) -> &mut Inner {
        Arc::make_mut(&mut self.0)
    }

    /// Live entries.
    pub(crate) fn len(&self) -> u64 {
        self.0.len
    }

    pub(crate) fn counters(&self) -> Counters {
        self.0.counters
    }

    pub(crate) fn last_id(&self) -> StreamId {
        self.0.counters.last_id
    }

    /// Changes what XSETID may change.
    pub(crate) fn set_counters(&mut self, counters: Counters) {
        self.inner().counters = counters;
    }

    /// Adds an entry. The id is greater than [`Stream::last_id`].
    pub(crate) fn append(&mut self, id: StreamId, fields: &[(&[u8], &[u8])], limits: NodeLimits) {
        let inner = self.inner();
        let bytes = fields
            .iter()
            .map(|(field, value)| field.len() + value.len());
        let bytes: usize = bytes.sum();
        let last = inner.nodes.last().map(|(own_id, _)| own_id);
        let mut is_added = false;
        if let Some(own_id) = last
            && let Some(node) = inner.nodes.get_mut(own_id)
        {
            let node = Arc::make_mut(node);
            if !node.is_full(bytes, limits) {
                node.push(own_id, id, fields);
                is_added = true;
            }
        }
        if !is_added {
            let node = Node::starting_with(fields, limits);
            inner.nodes.insert(id, Arc::new(node));
        }
        inner.len += 1;
        let counters = &mut inner.counters;
        counters.entries_added = counters.entries_added.wrapping_add(1);
        counters.last_id = id;
        if inner.len == 1 {
            counters.first_id = id;
        }
    }

    /// Live entries from `start` to `end`, both included.
    pub(crate) fn range(&self, start: StreamId, end: StreamId) -> impl Iterator<Item = Entry<'_>> {
        let nodes = &self.0.nodes;
        let first = nodes
            .iter_back_from(start)
            .next()
            .map_or(start, |(id, _)| id);
        nodes
            .iter_from(first)
            .take_while(move |(own_id, _)| *own_id <= end)
            .flat_map(|(own_id, node)| node.entries(own_id))
            .skip_while(move |entry| entry.id < start)
            .take_while(move |entry| entry.id <= end)
            .filter(|entry| !entry.is_deleted())
            .map(Entry::from)
    }

    /// The same from the last to the first.
    pub(crate) fn range_back(
        &self,
        start: StreamId,
        end: StreamId,
    ) -> impl Iterator<Item = Entry<'_>> {
        self.0
            .nodes
            .iter_back_from(end)
            .flat_map(|(own_id, node)| node.entries_back(own_id))
            .skip_while(move |entry| entry.id > end)
            .take_while(move |entry| entry.id >= start)
            .filter(|entry| !entry.is_deleted())
            .map(Entry::from)
    }

    pub(crate) fn first(&self) -> Option<Entry<'_>> {
        self.range(StreamId::MIN, StreamId::MAX).next()
    }

    pub(crate) fn last(&self) -> Option<Entry<'_>> {
        self.range_back(StreamId::MIN, StreamId::MAX).next()
    }

    /// The live entry of an id.
    pub(crate) fn get(&self, id: StreamId) -> Option<Entry<'_>> {
        self.range(id, id).next()
    }

    /// Deletes entries; returns how many there were (`t_stream.c: xdelCommand`).
    pub(crate) fn delete(&mut self, ids: &[StreamId]) -> u64 {
        let mut deleted = 0;
        for id in ids {
            if self.inner().delete(*id) {
                deleted += 1;
                let counters = &mut self.inner().counters;
                counters.max_deleted_id = counters.max_deleted_id.max(*id);
            }
        }
        if ids.contains(&self.0.counters.first_id) {
            self.find_first_id();
        }
        deleted
    }

    fn find_first_id(&mut self) {
        let first = self.first().map_or(StreamId::MIN, |entry| entry.id);
        self.inner().counters.first_id = first;
    }

    /// Removes the oldest entries; returns how many (`t_stream.c: streamTrim`).
    pub(crate) fn trim(&mut self, trim: Trim) -> u64 {
        let inner = self.inner();
        let mut deleted = 0;
        while let Some((own_id, node)) = inner.nodes.first() {
            if let Threshold::MaxLen(len) = trim.threshold
                && inner.len <= len
            {
                break;
            }
            let live = node.live();
            if trim.limit > 0 && deleted + live > trim.limit {
                break;
            }
            let goes_whole = match trim.threshold {
                Threshold::MaxLen(len) => inner.len.saturating_sub(live) >= len,
                Threshold::MinId(id) => node.last_id(own_id) < id,
            };
            if goes_whole {
                inner.nodes.remove(own_id);
                inner.len -= live;
                deleted += live;
                continue;
            }
            if !trim.is_approximate {
                deleted += inner.trim_node(own_id, trim.threshold);
            }
            break;
        }
        if deleted > 0 {
            self.find_first_id();
        }
        deleted
    }

    /// The groups, sorted by their names.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&Blob, &ConsumerGroup)> {
        self.0.groups.iter()
    }

    pub(crate) fn group_count(&self) -> usize {
        self.0.groups.len()
    }

    pub(crate) fn group(&self, name: &[u8]) -> Option<&ConsumerGroup> {
        self.0.groups.get(name)
    }

    pub(crate) fn group_mut(&mut self, name: &[u8]) -> Option<&mut ConsumerGroup> {
        self.inner().groups.get_mut(name)
    }

    /// Adds a group; false if there is one of this name.
    pub(crate) fn add_group(&mut self, name: &[u8], group: ConsumerGroup) -> bool {
        self.inner().groups.add(name, group)
    }

    /// Removes a group; false if there is none of this name.
    pub(crate) fn remove_group(&mut self, name: &[u8]) -> bool {
        self.inner().groups.remove(name)
    }

    /// True if an entry at `start` or later was deleted by XDEL (`t_stream.c: streamRangeHasTombstones`).
    pub(crate) fn has_tombstones_from(&self, start: StreamId) -> bool {
        let Counters {
            first_id,
            max_deleted_id,
            ..
        } = self.0.counters;
        self.0.len > 0 && max_deleted_id >= first_id && start <= max_deleted_id
    }

    /// Returns the number of entries up to this id that were ever added, if it is known
    /// (`t_stream.c: streamEstimateDistanceFromFirstEverEntry`).
    pub(crate) fn entries_up_to(&self, id: StreamId) -> Option<u64> {
        let (len, counters) = (self.0.len, self.0.counters);
        let added = counters.entries_added;
        if added == 0 {
            return Some(0);
        }
        if len == 0 && id <= counters.last_id || id == counters.last_id {
            return Some(added);
        }
        if id > counters.last_id {
            return None;
        }
        let deleted = counters.max_deleted_id;
        if deleted == StreamId::MIN || deleted < counters.first_id {
            if id < counters.first_id {
                return Some(added.wrapping_sub(len));
            }
            if id == counters.first_id {
                return Some(added.wrapping_sub(len).wrapping_add(1));
            }
        }
        None
    }

    /// Returns the number of entries that a group has not read yet, if it is known (`t_stream.c:
    /// streamReplyWithCGLag`).
    pub(crate) fn lag(&self, group: &ConsumerGroup) -> Option<i64> {
        let added = self.0.counters.entries_added;
        if added == 0 {
            return Some(0);
        }
        let read = match group.entries_read {
            Some(read) if !self.has_tombstones_from(group.last_id) => read,
            _ => self.entries_up_to(group.last_id)?,
        };
        Some(added.wrapping_sub(read) as i64)
    }

    /// Delivers entries to a group, which are pending for a consumer from now on, if one is given
    /// (`t_stream.c: streamReplyWithRange`).
    pub(crate) fn deliver(
        &mut self,
        name: &[u8],
        ids: &[StreamId],
        to: Option<(ConsumerNumber, UnixMillis)>,
    ) {
        let Some(group) = self.group(name) else {
            return;
        };
        let (mut last_id, mut read) = (group.last_id, group.entries_read);
        for id in ids.iter().filter(|id| **id > group.last_id) {
            last_id = *id;
            read = match read {
                Some(read) if !self.has_tombstones_from(*id) => Some(read.wrapping_add(1)),
                _ if self.0.counters.entries_added > 0 => self.entries_up_to(*id),
                read => read,
            };
        }
        let Some(group) = self.group_mut(name) else {
            return;
        };
        (group.last_id, group.entries_read) = (last_id, read);
        if let Some((consumer, now)) = to {
            if !ids.is_empty() {
                group.be_active(consumer, Some(now));
            }
            ids.iter()
                .for_each(|id| group.deliver(*id, consumer, now, 1));
        }
    }
}

impl<'a> From<EntryRef<'a>> for Entry<'a> {
    fn from(entry: EntryRef<'a>) -> Self {
        Self {
            id: entry.id,
            fields: entry.fields,
        }
    }
}

impl Inner {
    /// Deletes an entry; false if there is none.
    fn delete(&mut self, id: StreamId) -> bool {
        let Some((own_id, live, place)) = self.find(id) else {
            return false;
        };
        if live == 1 {
            self.nodes.remove(own_id);
        } else if let Some(node) = self.nodes.get_mut(own_id) {
            Arc::make_mut(node).delete(&[place]);
        }
        self.len -= 1;
        true
    }

    /// The node of a live entry, the number of live entries there, and the place of the entry.
    fn find(&self, id: StreamId) -> Option<(StreamId, u64, EntryPlace)> {
        let (own_id, node) = self.nodes.iter_back_from(id).next()?;
        let found = node.entries(own_id).find(|entry| entry.id >= id)?;
        let is_it = found.id == id && !found.is_deleted();
        is_it.then(|| (own_id, node.live(), found.into()))
    }

    /// Deletes the oldest entries of a node that does not go as a whole.
    fn trim_node(&mut self, own_id: StreamId, threshold: Threshold) -> u64 {
        let Some(node) = self.nodes.get_mut(own_id) else {
            return 0;
        };
        let mut len = self.len;
        let mut places: Vec<EntryPlace> = Vec::new();
        for entry in node.entries(own_id) {
            let is_enough = match threshold {
                Threshold::MaxLen(wanted) => len <= wanted,
                Threshold::MinId(id) => entry.id >= id,
            };
            if is_enough {
                break;
            }
            if !entry.is_deleted() {
                places.push(entry.into());
                len -= 1;
            }
        }
        let count = places.len() as u64;
        if count > 0 {
            Arc::make_mut(node).delete(&places);
        }
        self.len = len;
        count
    }
}

#[cfg(test)]
mod tests;
