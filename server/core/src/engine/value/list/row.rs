//! Lists in the table of types. A list is cut into the nodes of a quicklist where Redis shows them: as if it had
//! been filled from the head to the tail.

use super::{End, List};
use crate::engine::config::Config;
use crate::engine::profile::feature;
use crate::engine::rdb::{
    LISTPACK_EMPTY_BYTES, Reader, Writer, kind, listpack_bytes, listpack_entry_bytes,
};
#[cfg(feature = "script")]
use crate::engine::value::Digest;
use crate::engine::value::size::{OBJECT, allocated, extrapolated};
use crate::engine::value::{EncodingHint, Text, TypeRow, Value, ValueType};
use crate::resp::Blob;

/// Bytes of a quicklist, and of a node of it.
const QUICKLIST: usize = 40;
const QUICKLIST_NODE: usize = 40;

/// Content of a node of a list: one large element, or a listpack.
const PLAIN: u64 = 1;
const PACKED: u64 = 2;

/// Sizes of a node for the classes -1 to -5 (`quicklist.c: optimization_level`).
const NODE_BYTES: [usize; 5] = [4096, 8192, 16384, 32768, 65536];
/// The size that a node has at most whose elements are counted (`SIZE_SAFETY_LIMIT`).
const NODE_BYTES_MAX: usize = 8192;
/// Expected size of a new element beside its bytes (`SIZE_ESTIMATE_OVERHEAD`).
const ELEMENT_BYTES: usize = 8;

/// Lists in the table of types.
pub(in crate::engine::value) const ROW: TypeRow = TypeRow {
    name: "list",
    object_type: 1,
    load: &[
        (kind::LIST, load_elements),
        (kind::LIST_ZIPLIST, load_ziplist),
        (kind::LIST_QUICKLIST, load_ziplists),
        (kind::LIST_QUICKLIST_2, load_quicklist),
    ],
};

impl ValueType for List {
    fn encoding(&self, hint: EncodingHint, config: &Config) -> &'static str {
        if hint != EncodingHint::Quicklist && is_listpack(self, config) {
            "listpack"
        } else {
            "quicklist"
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn memory_bytes(&self, hint: EncodingHint, samples: usize, config: &Config) -> usize {
        if hint != EncodingHint::Quicklist && is_listpack(self, config) {
            return OBJECT + allocated(listpack_bytes(self.iter().map(Text::bytes)));
        }
        let nodes = nodes(self, config.list_max_listpack_size);
        let count = nodes.len();
        let sizes = nodes.into_iter().map(|node| {
            QUICKLIST_NODE + allocated(listpack_bytes(node.into_iter().map(Text::bytes)))
        });
        OBJECT + QUICKLIST + extrapolated(sizes, samples, count)
    }

    fn free_effort(&self, config: &Config) -> usize {
        nodes(self, config.list_max_listpack_size).len()
    }

    fn payload_bytes(&self) -> usize {
        self.len()
    }

    fn save(&self, writer: &mut Writer, config: &Config) {
        let nodes = nodes(self, config.list_max_listpack_size);
        writer.kind(kind::LIST_QUICKLIST_2);
        writer.length(nodes.len() as u64);
        for node in nodes {
            writer.length(PACKED);
            writer.listpack(node.into_iter().map(Text::bytes));
        }
    }

    #[cfg(feature = "script")]
    fn digest(&self, digest: &mut Digest) {
        self.iter().for_each(|element| digest.mix(&element));
    }

    fn sortable(&self) -> Option<Vec<Blob>> {
        Some(self.iter().map(Text::to_blob).collect())
    }

    fn debug_details(&self, config: &Config) -> String {
        let size_class = config.list_max_listpack_size;
        let nodes = nodes(self, size_class);
        let (count, len) = (nodes.len(), self.len());
        let bytes: usize = nodes
            .into_iter()
            .map(|node| listpack_bytes(node.into_iter().map(Text::bytes)))
            .sum();
        let mean = len as f64 / count.max(1) as f64;
        format!(
            " ql_nodes:{count} ql_avg_node:{mean:.2} ql_listpack_max:{size_class} ql_compressed:0 \
             ql_uncompressed_size:{bytes}"
        )
    }
}

fn load_elements(reader: &mut Reader<'_>, _: &Config) -> Option<Value> {
    let count = reader.length()?;
    let mut list = List::default();
    for _ in 0..count {
        list.push(End::Tail, &reader.string()?);
    }
    Some(Value::List(list))
}

fn load_ziplist(reader: &mut Reader<'_>, _: &Config) -> Option<Value> {
    let elements = reader.ziplist()?;
    Some(Value::List(elements.into_iter().collect()))
}

/// The quicklists of Redis before 7.0, whose nodes are ziplists.
fn load_ziplists(reader: &mut Reader<'_>, _: &Config) -> Option<Value> {
    let nodes = reader.length()?;
    let mut list = List::default();
    for _ in 0..nodes {
        for element in reader.ziplist()? {
            list.push(End::Tail, &element);
        }
    }
    Some(Value::List(list))
}

fn load_quicklist(reader: &mut Reader<'_>, _: &Config) -> Option<Value> {
    let nodes = reader.length()?;
    let mut list = List::default();
    for _ in 0..nodes {
        match reader.length()? {
            PLAIN => list.push(End::Tail, &reader.string()?),
            PACKED => {
                for element in reader.listpack()? {
                    list.push(End::Tail, &element);
                }
            }
            _ => return None,
        }
    }
    Some(Value::List(list))
}

impl List {
    /// Returns the hint of a list that has grown or shrunk. From 7.2 on a list that fits into one node is a listpack,
    /// until it grows; it is one again when half a node is enough (`t_list.c: listTypeTryConversionRaw`).
    pub(crate) fn hint_after(
        &self,
        before: EncodingHint,
        has_shrunk: bool,
        config: &Config,
    ) -> EncodingHint {
        match before {
            EncodingHint::Quicklist if has_shrunk && fits_half(self, config) => {
                EncodingHint::Natural
            }
            EncodingHint::Quicklist => before,
            EncodingHint::Natural
            | EncodingHint::Raw
            | EncodingHint::Text
            | EncodingHint::Unshared => {
                if is_listpack(self, config) {
                    before
                } else {
                    EncodingHint::Quicklist
                }
            }
        }
    }
}

/// Returns true if the list takes a single node, and no more than half of what it may hold.
fn fits_half(list: &List, config: &Config) -> bool {
    let size_class = config.list_max_listpack_size;
    if !is_listpack(list, config) || nodes(list, size_class).len() > 1 {
        return false;
    }
    match usize::try_from(size_class) {
        Ok(most) => list.len() <= most / 2,
        Err(_) => {
            let bytes = listpack_bytes(list.iter().map(Text::bytes));
            bytes <= class_bytes(size_class) / 2
        }
    }
}

/// Returns true if the list is a single listpack (`t_list.c: listTypeTryConversionAppend`).
fn is_listpack(list: &List, config: &Config) -> bool {
    if !config.profile.has(feature::PACKED_SETS_AND_LISTS) {
        return false;
    }
    let mut bytes = LISTPACK_EMPTY_BYTES;
    let mut count = 0;
    list.iter().all(|element| {
        bytes += listpack_entry_bytes(&element);
        count += 1;
        is_within(bytes, count, config.list_max_listpack_size)
    })
}

/// The nodes of a list that was filled from the head to the tail.
fn nodes(list: &List, size_class: i32) -> Vec<Vec<Text<'_>>> {
    let mut nodes: Vec<Vec<Text<'_>>> = Vec::new();
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
                node_bytes = LISTPACK_EMPTY_BYTES;
            }
        }
        node_bytes += listpack_entry_bytes(&element);
    }
    nodes
}

/// Returns true if a node of this many bytes and elements is not too large (`quicklist.c:
/// quicklistNodeExceedsLimit`).
fn is_within(bytes: usize, count: usize, size_class: i32) -> bool {
    match usize::try_from(size_class) {
        Ok(most) => bytes <= NODE_BYTES_MAX && count <= most.min(usize::from(u16::MAX)),
        Err(_) => bytes <= class_bytes(size_class),
    }
}

/// Bytes of a node of one of the classes -1 to -5.
fn class_bytes(size_class: i32) -> usize {
    let class = size_class.saturating_add(1).unsigned_abs();
    let class = usize::try_from(class).unwrap_or(usize::MAX);
    NODE_BYTES[class.min(NODE_BYTES.len() - 1)]
}

/// `quicklist.c: _quicklistNodeAllowInsert`.
fn has_room(bytes: usize, count: usize, size_class: i32) -> bool {
    match usize::try_from(size_class) {
        Ok(most) => bytes <= NODE_BYTES_MAX && count < most.min(usize::from(u16::MAX)),
        Err(_) => bytes <= class_bytes(size_class),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
