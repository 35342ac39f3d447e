//! Strings in the table of types.
//!
//! A string is kept as bytes. The encoding that OBJECT ENCODING names follows from the bytes and from
//! how the value came about, which the key's entry remembers as an [`EncodingHint`].

use crate::engine::config::Config;
use crate::engine::rdb::{Reader, Writer, kind};
#[cfg(feature = "script")]
use crate::engine::value::Digest;
use crate::engine::value::size::{OBJECT, allocated, string};
use crate::engine::value::{TypeRow, Value, ValueType};
use crate::resp::{Blob, parse_integer};

/// `OBJ_ENCODING_EMBSTR_SIZE_LIMIT`, bytes.
const EMBEDDED_BYTES_MAX: usize = 44;
/// Bytes of the header of a string that is part of its object.
const EMBEDDED_HEADER: usize = 3;
/// Integers below this are kept once and shared (`OBJ_SHARED_INTEGERS`).
const SHARED_INTEGERS: u16 = 10_000;
/// `OBJ_SHARED_REFCOUNT`.
const SHARED_REFERENCES: i64 = 2_147_483_647;

/// How a value was made, if its content does not determine its encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EncodingHint {
    /// Stored as a whole: what looks like an integer is one.
    #[default]
    Natural,
    /// Changed in place (APPEND, SETRANGE): it stays a separate buffer.
    Raw,
    /// The result of a computation with fractions, never taken for an integer.
    Text,
    /// A copy of an integer, which is not shared.
    Unshared,
    /// A list that was larger than a listpack and has not shrunk to half of one since.
    Quicklist,
}

/// Strings in the table of types.
pub(in crate::engine::value) const ROW: TypeRow = TypeRow {
    name: "string",
    object_type: 0,
    load: &[(kind::STRING, load)],
};

fn load(reader: &mut Reader<'_>, _: &Config) -> Option<Value> {
    reader.string().map(Value::String)
}

fn is_integer(string: &Blob, hint: EncodingHint) -> bool {
    matches!(hint, EncodingHint::Natural | EncodingHint::Unshared)
        && parse_integer(string).is_some()
}

/// The integer that Redis keeps once for all keys with this value.
pub(in crate::engine) fn shared_integer(text: &[u8], hint: EncodingHint) -> Option<u16> {
    let value = parse_integer(text).filter(|_| hint == EncodingHint::Natural)?;
    u16::try_from(value)
        .ok()
        .filter(|value| *value < SHARED_INTEGERS)
}

impl ValueType for Blob {
    fn encoding(&self, hint: EncodingHint, _: &Config) -> &'static str {
        if is_integer(self, hint) {
            "int"
        } else if hint != EncodingHint::Raw && self.len() <= EMBEDDED_BYTES_MAX {
            "embstr"
        } else {
            "raw"
        }
    }

    fn references(&self, hint: EncodingHint) -> i64 {
        if shared_integer(self, hint).is_some() {
            SHARED_REFERENCES
        } else {
            1
        }
    }

    /// Redis keeps a key with an empty string.
    fn is_empty(&self) -> bool {
        false
    }

    fn memory_bytes(&self, hint: EncodingHint, _: usize, config: &Config) -> usize {
        match self.encoding(hint, config) {
            "int" => OBJECT,
            "embstr" => allocated(OBJECT + EMBEDDED_HEADER + self.len() + 1),
            _ => OBJECT + string(self.len(), false),
        }
    }

    fn payload_bytes(&self) -> usize {
        self.len()
    }

    fn save(&self, writer: &mut Writer, _: &Config) {
        writer.kind(kind::STRING);
        writer.string(self);
    }

    #[cfg(feature = "script")]
    fn digest(&self, digest: &mut Digest) {
        digest.mix(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_told_by_bytes_and_history() {
        let string = |text: &str| Blob::from(text);
        let config = Config::default();
        for (text, form, expected, count) in [
            ("5", EncodingHint::Natural, "int", SHARED_REFERENCES),
            ("9999", EncodingHint::Natural, "int", SHARED_REFERENCES),
            ("10000", EncodingHint::Natural, "int", 1),
            ("-1", EncodingHint::Natural, "int", 1),
            ("5", EncodingHint::Unshared, "int", 1),
            ("5", EncodingHint::Raw, "raw", 1),
            ("5", EncodingHint::Text, "embstr", 1),
            ("05", EncodingHint::Natural, "embstr", 1),
            ("9223372036854775807", EncodingHint::Natural, "int", 1),
            ("9223372036854775808", EncodingHint::Natural, "embstr", 1),
            ("", EncodingHint::Natural, "embstr", 1),
        ] {
            assert_eq!(string(text).encoding(form, &config), expected, "{text}");
            assert_eq!(string(text).references(form), count, "{text}");
        }
        assert_eq!(
            string(&"x".repeat(44)).encoding(EncodingHint::Natural, &config),
            "embstr"
        );
        assert_eq!(
            string(&"x".repeat(45)).encoding(EncodingHint::Natural, &config),
            "raw"
        );
    }
}
