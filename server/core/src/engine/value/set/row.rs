//! Sets in the table of types.

use super::integers::IntegerSet;
use super::{Set, SetLimits};
use crate::engine::config::Config;
use crate::engine::rdb::{Reader, Writer, kind, listpack_bytes};
#[cfg(feature = "script")]
use crate::engine::value::Digest;
use crate::engine::value::size::{
    ENTRY, OBJECT, PLACE, TABLE, allocated, extrapolated, places, string,
};
use crate::engine::value::{EncodingHint, TypeRow, Value, ValueType};
use crate::resp::Blob;

/// Sets in the table of types.
pub(in crate::engine::value) const ROW: TypeRow = TypeRow {
    name: "set",
    object_type: 2,
    load: &[
        (kind::SET, load_members),
        (kind::SET_INTSET, load_integers),
        (kind::SET_LISTPACK, load_strings),
    ],
};

impl ValueType for Set {
    fn encoding(&self, _: EncodingHint, _: &Config) -> &'static str {
        match self {
            Self::Integers(_) => "intset",
            Self::Strings(_) => "listpack",
            Self::Table(_) => "hashtable",
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn memory_bytes(&self, _: EncodingHint, samples: usize, _: &Config) -> usize {
        match self {
            Self::Integers(integers) => OBJECT + allocated(integers.packed_bytes()),
            Self::Strings(strings) => OBJECT + allocated(listpack_bytes(strings.iter())),
            Self::Table(table) => {
                let sizes = self.iter().map(|member| ENTRY + string(member.len(), true));
                let entries = extrapolated(sizes, samples, table.len());
                OBJECT + TABLE + places(table.len()) * PLACE + entries
            }
        }
    }

    fn free_effort(&self, _: &Config) -> usize {
        match self {
            Self::Table(table) => table.len(),
            Self::Integers(_) | Self::Strings(_) => 1,
        }
    }

    fn payload_bytes(&self) -> usize {
        self.len()
    }

    fn save(&self, writer: &mut Writer, _: &Config) {
        match self {
            Self::Integers(integers) => {
                writer.kind(kind::SET_INTSET);
                writer.string(&integers.pack());
            }
            Self::Strings(strings) => {
                writer.kind(kind::SET_LISTPACK);
                writer.listpack(strings.iter());
            }
            Self::Table(table) => {
                writer.kind(kind::SET);
                writer.length(table.len() as u64);
                table.iter().for_each(|(member, ())| writer.string(member));
            }
        }
    }

    #[cfg(feature = "script")]
    fn digest(&self, digest: &mut Digest) {
        self.iter().for_each(|member| digest.add(&member));
    }

    fn sortable(&self) -> Option<Vec<Blob>> {
        Some(self.iter().map(|member| member.to_blob()).collect())
    }

    fn has_order(&self) -> bool {
        false
    }
}

fn load_members(reader: &mut Reader<'_>, config: &Config) -> Option<Value> {
    let (count, limits) = (reader.length()?, SetLimits::of(config));
    let mut set = Set::default();
    if count > limits.integers as u64 {
        set.unpack();
    }
    for _ in 0..count {
        if !set.insert(&reader.string()?, limits) {
            return None;
        }
    }
    Some(Value::Set(set))
}

fn load_integers(reader: &mut Reader<'_>, config: &Config) -> Option<Value> {
    let mut set = Set::Integers(IntegerSet::unpack(&reader.string()?)?);
    if set.len() > config.set_max_intset_entries {
        set.unpack();
    }
    Some(Value::Set(set))
}

fn load_strings(reader: &mut Reader<'_>, config: &Config) -> Option<Value> {
    let limits = SetLimits::of(config);
    let members = reader.listpack()?;
    let mut set = Set::Strings(Box::default());
    set.expect(members.len(), limits);
    // Long members do not make it a table here, as in Redis.
    let limits = SetLimits {
        bytes: usize::MAX,
        ..limits
    };
    for member in members {
        if !set.insert(&member, limits) {
            return None;
        }
    }
    Some(Value::Set(set))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::value::{dump, restore};

    #[test]
    fn sets_come_back_as_the_limits_have_it() {
        for (count, limit, encoding) in [
            (5, 512, "intset"),
            (5, 4, "hashtable"),
            (600, 512, "hashtable"),
        ] {
            for written_with in [0, 1000] {
                let mut config = Config {
                    set_max_intset_entries: written_with,
                    ..Config::default()
                };
                let mut set = Set::default();
                for i in 0..count {
                    set.insert(i.to_string().as_bytes(), SetLimits::of(&config));
                }
                let payload = dump(&Value::Set(set.clone()), &config);
                config.set_max_intset_entries = limit;
                let Ok(Value::Set(back)) = restore(&payload, &config) else {
                    panic!("a set");
                };
                assert_eq!(back.encoding(EncodingHint::Natural, &config), encoding);
                assert!(back.len() == set.len() && set.iter().all(|member| back.contains(&member)));
            }
        }
    }

    #[test]
    fn a_member_that_comes_twice_is_refused() {
        let config = Config::default();
        let mut reader = Reader::new(&[2, 1, b'a', 1, b'a']);
        assert!(load_members(&mut reader, &config).is_none());
    }
}
