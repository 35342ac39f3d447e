//! Values of keys: one folder per type, and the table of types.
//!
//! *A new type* is a folder with its structure and a `row.rs`, and one line in the table below. The
//! row holds what Redis knows of the type: its name, its RDB encodings. [`ValueType`], implemented
//! in `row.rs`, answers what commands ask of any value. Nothing else here or outside lists the types.
//!
//! *Snapshots*: a clone of a value costs a constant number of steps, whatever the value holds.
//! Collections share their chunks with their clones ([`sequence`]) and copy a chunk when they change it.
//! So the journal, COPY, snapshots of tests and the disk clone values and know nothing of their types.
//!
//! Keys, deadlines, events and commands are unknown here.

#[cfg(feature = "script")]
mod digest;
mod element;
mod hash;
mod list;
mod payload;
mod run;
mod sequence;
mod set;
mod size;
mod sorted_set;
mod stream;
mod string;
mod table;

#[cfg(feature = "script")]
pub(super) use digest::Digest;
pub(crate) use element::{Element, Text};
pub(crate) use hash::{Hash, HashLimits};
pub(crate) use list::{End, List, clamp_range};
#[cfg(feature = "script")]
pub(in crate::engine) use payload::{FOOTER_BYTES, checked_body, sealed};
pub(crate) use payload::{PayloadError, dump, load, restore, serialized_bytes};
pub(crate) use set::{Set, SetLimits};
pub(super) use size::{ENTRY, OBJECT, PLACE, places, string as string_bytes};
pub(crate) use sorted_set::{SortedSet, SortedSetLimits, compare as sorted_set_order};
pub(crate) use stream::{
    ConsumerGroup, ConsumerNumber, Counters, Entry as StreamEntry, NewId, NodeLimits, Pending,
    Stream, StreamId, Threshold, Trim,
};
pub(crate) use string::EncodingHint;
pub(in crate::engine) use string::shared_integer;

use super::config::Config;
use super::rdb::{Reader, Writer};
use crate::resp::Blob;

/// Facts that commands read of a value of any type.
pub(crate) trait ValueType {
    /// Reply of OBJECT ENCODING.
    fn encoding(&self, hint: EncodingHint, config: &Config) -> &'static str;

    /// Reply of OBJECT REFCOUNT.
    fn references(&self, _: EncodingHint) -> i64 {
        1
    }

    /// True if Redis removes the key that holds this value.
    fn is_empty(&self) -> bool;

    /// Bytes that the value takes in Redis, as MEMORY USAGE computes them (`object.c: objectComputeSize`).
    /// Of many elements the first `samples` stand for all.
    fn memory_bytes(&self, hint: EncodingHint, samples: usize, config: &Config) -> usize;

    /// Bytes that the value adds to a replication offset. Counted in a constant number of steps: collections
    /// count their elements.
    fn payload_bytes(&self) -> usize;

    /// Steps that it takes to free the value (`lazyfree.c: lazyfreeGetFreeEffort`).
    fn free_effort(&self, _: &Config) -> usize {
        1
    }

    /// Writes the RDB type and the value behind it (`rdb.c: rdbSaveObjectType`, `rdbSaveObject`).
    fn save(&self, writer: &mut Writer, config: &Config);

    /// Adds the elements to a digest (`debug.c: xorObjectDigest`).
    #[cfg(feature = "script")]
    fn digest(&self, digest: &mut Digest);

    /// The elements that SORT sorts; `None` if it answers WRONGTYPE.
    fn sortable(&self) -> Option<Vec<Blob>> {
        None
    }

    /// True if the elements have an order of their own, which SORT keeps when it is asked not to sort.
    fn has_order(&self) -> bool {
        true
    }

    /// Fields of DEBUG OBJECT that only this type has.
    fn debug_details(&self, _: &Config) -> String {
        String::new()
    }
}

/// Constants of a type of values.
pub(crate) struct TypeRow {
    /// Reply of TYPE, and argument of SCAN TYPE.
    pub(crate) name: &'static str,
    /// `OBJ_STRING` and the other numbers of types.
    #[cfg_attr(not(feature = "script"), expect(dead_code, reason = "DEBUG DIGEST"))]
    object_type: u32,
    /// Encodings that RESTORE reads, by their RDB type.
    load: &'static [(u8, Load)],
}

/// Reads a value behind its RDB type; `None` if the bytes do not fit the type.
type Load = fn(&mut Reader<'_>, &Config) -> Option<Value>;

/// Access to a value as one type.
pub(crate) trait Typed: Sized {
    /// `None` if the value is of another type.
    fn of(value: &Value) -> Option<&Self>;
    /// `None` if the value is of another type.
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
}

macro_rules! value_types {
    ($($variant:ident($type:ty) = $row:path,)+) => {
        /// The value of a key. 40 bytes.
        #[derive(Clone, Debug)]
        pub(crate) enum Value {
            $($variant($type),)+
        }

        /// The types of values.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) enum Kind {
            $($variant,)+
        }

        impl Kind {
            const ALL: &[Self] = &[$(Self::$variant,)+];

            fn row(self) -> &'static TypeRow {
                match self {
                    $(Self::$variant => &$row,)+
                }
            }
        }

        impl Value {
            #[inline]
            pub(crate) fn kind(&self) -> Kind {
                match self {
                    $(Self::$variant(_) => Kind::$variant,)+
                }
            }

            /// The value as what all types have in common.
            pub(crate) fn as_type(&self) -> &dyn ValueType {
                match self {
                    $(Self::$variant(value) => value,)+
                }
            }
        }

        $(
            impl Typed for $type {
                fn of(value: &Value) -> Option<&Self> {
                    if let Value::$variant(inner) = value {
                        Some(inner)
                    } else {
                        None
                    }
                }

                fn of_mut(value: &mut Value) -> Option<&mut Self> {
                    if let Value::$variant(inner) = value {
                        Some(inner)
                    } else {
                        None
                    }
                }
            }
        )+
    };
}

// The table of types.
value_types! {
    String(Blob) = string::ROW,
    List(List) = list::ROW,
    SortedSet(SortedSet) = sorted_set::ROW,
    Hash(Hash) = hash::ROW,
    Set(Set) = set::ROW,
    Stream(Stream) = stream::ROW,
}

impl Kind {
    /// Reply of TYPE.
    pub(crate) fn name(self) -> &'static str {
        self.row().name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_value_is_as_big_as_its_string() {
        assert_eq!(size_of::<Value>(), size_of::<Blob>());
    }

    #[test]
    fn no_two_rows_claim_the_same() {
        let rows = || Kind::ALL.iter().map(|kind| kind.row());
        let names: BTreeSet<_> = rows().map(|row| row.name).collect();
        assert_eq!(names.len(), Kind::ALL.len());
        let loads: Vec<u8> = rows()
            .flat_map(|row| row.load.iter().map(|(number, _)| *number))
            .collect();
        assert_eq!(loads.iter().collect::<BTreeSet<_>>().len(), loads.len());
    }
}
