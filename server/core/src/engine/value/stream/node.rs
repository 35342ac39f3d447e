//! A node of a stream: a run of entries in one listpack, laid out as Redis lays it out (`t_stream.c`).
//!
//! A *master entry* comes first: the number of live entries, the number of deleted ones, the number of its
//! fields, the fields, a zero. Each entry is its flags, its id as differences from the id of the node, its
//! fields and values, and the number of elements that precede. An entry with the fields of the master entry
//! holds values only. A deleted entry stays and has a flag, so the bytes of a node decide where Redis cuts a
//! stream in approximate trimming, and DUMP gives the same bytes.

use super::id::StreamId;
use crate::engine::rdb::packed::{FIRST, Listpack};
use crate::resp::Blob;

/// The entry is deleted.
const DELETED: i64 = 1;
/// The entry has the fields of the master entry.
const SAME_FIELDS: i64 = 2;
/// Elements of an entry beside its fields and values: flags and the two parts of the id.
const FIXED_ELEMENTS: i64 = 3;
/// Bytes that Redis reserves for a new node (`STREAM_LISTPACK_MAX_PRE_ALLOC`).
const RESERVED_BYTES: usize = 4096;
/// Most bytes of a node (`STREAM_LISTPACK_MAX_SIZE`).
const NODE_BYTES_MAX: usize = 1 << 30;

/// Limits of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeLimits {
    /// `stream-node-max-bytes`; 0 for no limit of its own.
    pub(crate) bytes: usize,
    /// `stream-node-max-entries`; 0 for no limit.
    pub(crate) entries: usize,
}

impl NodeLimits {
    fn bytes_max(self) -> usize {
        match self.bytes {
            0 => NODE_BYTES_MAX,
            bytes => bytes.min(NODE_BYTES_MAX),
        }
    }
}

/// A run of entries. The id of the node is the id of the first entry that it ever held.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pack: Listpack,
    /// Redis has reserved bytes for entries to come.
    reserved: usize,
}

/// The master entry.
#[derive(Clone, Copy, Debug)]
struct Master {
    live: i64,
    deleted: i64,
    /// Position of the number of deleted entries.
    deleted_at: usize,
    field_count: usize,
    fields_at: usize,
    entries_at: usize,
}

/// An entry of a node, live or deleted.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryRef<'a> {
    pub(super) id: StreamId,
    /// Position of its start.
    at: usize,
    flags: i64,
    pub(super) fields: Fields<'a>,
}

impl EntryRef<'_> {
    pub(super) fn is_deleted(&self) -> bool {
        self.flags & DELETED != 0
    }
}

/// Fields and values of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    pack: &'a Listpack,
    count: usize,
    /// Position of the next field, in the entry or in the master entry.
    field_at: usize,
    /// Position of the next value; `None` if it follows its field.
    value_at: Option<usize>,
}

impl Fields<'_> {
    /// Pairs that are left.
    pub(crate) fn count_left(&self) -> usize {
        self.count
    }
}

impl Iterator for Fields<'_> {
    type Item = (Blob, Blob);

    fn next(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        let (field, behind) = self.pack.element(self.field_at)?;
        let (value, next) = self.pack.element(self.value_at.unwrap_or(behind))?;
        match &mut self.value_at {
            Some(at) => (*at, self.field_at) = (next, behind),
            None => self.field_at = next,
        }
        Some((field.to_blob(), value.to_blob()))
    }
}

impl Node {
    /// A node with one entry, which has the id of the node.
    pub(super) fn starting_with(fields: &[(&[u8], &[u8])], limits: NodeLimits) -> Self {
        let mut pack = Listpack::new();
        pack.push_integer(1);
        pack.push_integer(0);
        pack.push_integer(fields.len() as i64);
        fields.iter().for_each(|(field, _)| pack.push(field));
        pack.push_integer(0);
        pack.push_integer(SAME_FIELDS);
        pack.push_integer(0);
        pack.push_integer(0);
        fields.iter().for_each(|(_, value)| pack.push(value));
        pack.push_integer(fields.len() as i64 + FIXED_ELEMENTS);
        Self {
            pack,
            reserved: limits.bytes_max().min(RESERVED_BYTES),
        }
    }

    /// A node that was read from a payload; `None` if it is not laid out as one.
    pub(super) fn from_bytes(bytes: &[u8], id: StreamId) -> Option<Self> {
        let pack = Listpack::from_bytes(bytes)?;
        let node = Self { pack, reserved: 0 };
        node.is_valid(id)?.then_some(node)
    }

    /// Walks over all elements (`t_stream.c: streamValidateListpackIntegrity`).
    fn is_valid(&self, id: StreamId) -> Option<bool> {
        let master = self.master()?;
        let (mut at, mut live, mut deleted) = (master.entries_at, 0, 0);
        let mut last = None;
        while at < self.pack.end() {
            let (entry, behind) = self.entry_at(at, &master, id)?;
            let mut fields = entry.fields;
            if !fields.by_ref().all(|_| true) || fields.count != 0 {
                return Some(false);
            }
            let (elements, next) = self.pack.integer(behind)?;
            if elements != self.elements_between(at, behind)? || last >= Some(entry.id) {
                return Some(false);
            }
            *(if entry.is_deleted() {
                &mut deleted
            } else {
                &mut live
            }) += 1;
            last = Some(entry.id);
            at = next;
        }
        Some(at == self.pack.end() && (live, deleted) == (master.live, master.deleted))
    }

    fn elements_between(&self, mut at: usize, end: usize) -> Option<i64> {
        let mut count = 0;
        while at < end {
            at = self.pack.skip(at)?;
            count += 1;
        }
        Some(count)
    }

    fn master(&self) -> Option<Master> {
        let (live, deleted_at) = self.pack.integer(FIRST)?;
        let (deleted, at) = self.pack.integer(deleted_at)?;
        let (field_count, fields_at) = self.pack.integer(at)?;
        let field_count = usize::try_from(field_count).ok()?;
        let mut at = fields_at;
        for _ in 0..field_count {
            at = self.pack.skip(at)?;
        }
        let (0, entries_at) = self.pack.integer(at)? else {
            return None;
        };
        Some(Master {
            live,
            deleted,
            deleted_at,
            field_count,
            fields_at,
            entries_at,
        })
    }

    /// The entry at a place, and where its number of elements is.
    fn entry_at(&self, at: usize, master: &Master, id: StreamId) -> Option<(EntryRef<'_>, usize)> {
        let pack = &self.pack;
        let (flags, next) = pack.integer(at)?;
        let (ms, next) = pack.integer(next)?;
        let (seq, next) = pack.integer(next)?;
        let (fields, elements) = if flags & SAME_FIELDS != 0 {
            let fields = Fields {
                pack,
                count: master.field_count,
                field_at: master.fields_at,
                value_at: Some(next),
            };
            (fields, master.field_count)
        } else {
            let (count, next) = pack.integer(next)?;
            let count = usize::try_from(count).ok()?;
            let fields = Fields {
                pack,
                count,
                field_at: next,
                value_at: None,
            };
            (fields, count.checked_mul(2)?)
        };
        let mut behind = fields.value_at.unwrap_or(fields.field_at);
        for _ in 0..elements {
            behind = pack.skip(behind)?;
        }
        let entry = EntryRef {
            id: StreamId::new(
                id.ms.wrapping_add(ms as u64),
                id.seq.wrapping_add(seq as u64),
            ),
            at,
            flags,
            fields,
        };
        Some((entry, behind))
    }

    /// All entries, deleted ones too, from the first to the last.
    pub(super) fn entries(&self, id: StreamId) -> impl Iterator<Item = EntryRef<'_>> {
        let master = self.master();
        let mut at = master.map_or_else(|| self.pack.end(), |master| master.entries_at);
        std::iter::from_fn(move || {
            if at >= self.pack.end() {
                return None;
            }
            let (entry, behind) = self.entry_at(at, master.as_ref()?, id)?;
            at = self.pack.skip(behind)?;
            Some(entry)
        })
    }

    /// The same from the last to the first.
    pub(super) fn entries_back(&self, id: StreamId) -> impl Iterator<Item = EntryRef<'_>> {
        let master = self.master();
        let mut end = self.pack.end();
        std::iter::from_fn(move || {
            let master = master.as_ref()?;
            if end <= master.entries_at {
                return None;
            }
            let mut at = self.pack.back(end)?;
            let (elements, _) = self.pack.integer(at)?;
            for _ in 0..elements {
                at = self.pack.back(at)?;
            }
            let (entry, _) = self.entry_at(at, master, id)?;
            end = at;
            Some(entry)
        })
    }

    /// Live entries.
    pub(super) fn live(&self) -> u64 {
        let live = self.pack.integer(FIRST);
        live.map_or(0, |(live, _)| live.unsigned_abs())
    }

    /// The id of the last entry, live or deleted.
    pub(super) fn last_id(&self, id: StreamId) -> StreamId {
        let last = self.entries_back(id).next();
        last.map_or(id, |entry| entry.id)
    }

    /// True if a new entry of `bytes` begins the next node. A node that is full gives back what is reserved.
    pub(super) fn is_full(&mut self, bytes: usize, limits: NodeLimits) -> bool {
        if self.pack.as_bytes().len() + bytes >= limits.bytes_max() {
            return true;
        }
        let Some((live, at)) = self.pack.integer(FIRST) else {
            return true;
        };
        let deleted = self.pack.integer(at).map_or(0, |(deleted, _)| deleted);
        let is_full = limits.entries != 0
            && usize::try_from(live + deleted).is_ok_and(|count| count >= limits.entries);
        if is_full {
            self.reserved = 0;
            self.pack.shrink();
        }
        is_full
    }

    /// Appends an entry.
    pub(super) fn push(&mut self, own_id: StreamId, id: StreamId, fields: &[(&[u8], &[u8])]) {
        let Some(mut at) = self.master().map(|master| (master, master.fields_at)) else {
            return;
        };
        let same = at.0.field_count == fields.len()
            && fields.iter().all(|(field, _)| {
                let element = self.pack.element(at.1);
                element.is_some_and(|(element, next)| {
                    at.1 = next;
                    element.is(field)
                })
            });
        let pack = &mut self.pack;
        pack.set_integer(FIRST, at.0.live + 1);
        pack.push_integer(if same { SAME_FIELDS } else { 0 });
        pack.push_integer(id.ms.wrapping_sub(own_id.ms) as i64);
        pack.push_integer(id.seq.wrapping_sub(own_id.seq) as i64);
        let mut elements = fields.len() as i64 + FIXED_ELEMENTS;
        if same {
            fields.iter().for_each(|(_, value)| pack.push(value));
        } else {
            elements += fields.len() as i64 + 1;
            pack.push_integer(fields.len() as i64);
            for (field, value) in fields {
                pack.push(field);
                pack.push(value);
            }
        }
        pack.push_integer(elements);
    }

    /// Marks these live entries as deleted. Flags take one byte, so the places stay valid meanwhile.
    pub(super) fn delete(&mut self, places: &[EntryPlace]) {
        for place in places {
            self.pack.set_integer(place.at, place.flags | DELETED);
        }
        // The number of live entries is at the start and may take fewer bytes afterwards.
        if let Some(master) = self.master() {
            let count = places.len() as i64;
            self.pack
                .set_integer(master.deleted_at, master.deleted + count);
            self.pack.set_integer(FIRST, master.live - count);
        }
    }

    /// Bytes that the allocator gives for the listpack.
    pub(super) fn requested_bytes(&self) -> usize {
        self.pack.as_bytes().len().max(self.reserved)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.pack.as_bytes()
    }
}

/// Position of a live entry of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryPlace {
    at: usize,
    flags: i64,
}

impl From<EntryRef<'_>> for EntryPlace {
    fn from(entry: EntryRef<'_>) -> Self {
        Self {
            at: entry.at,
            flags: entry.flags,
        }
    }
}
