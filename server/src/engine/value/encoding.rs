//! How Redis would keep a value in memory, as OBJECT tells it (`object.c`). Nothing is kept so here;
//! this is what the type, the size and the history of a value would have come to.

use super::{Hash, Value};
use crate::resp::{Blob, parse_integer};

/// `OBJ_ENCODING_EMBSTR_SIZE_LIMIT`, bytes.
const EMBEDDED_BYTES_MAX: usize = 44;
/// Integers below this are kept once and shared (`OBJ_SHARED_INTEGERS`).
const SHARED_INTEGERS: i64 = 10_000;
/// `OBJ_SHARED_REFCOUNT`.
const SHARED_REFERENCES: i64 = 2_147_483_647;

/// What the history of a string left behind, where its bytes do not tell its encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EncodingHint {
    /// Stored as a whole: what looks like an integer is one.
    #[default]
    Natural,
    /// Changed in place (APPEND, SETRANGE): it stays a buffer of its own.
    Raw,
    /// The result of a computation with fractions, never taken for an integer.
    Text,
    /// A copy: an integer, but one of its own.
    Unshared,
}

fn is_integer(string: &Blob, form: EncodingHint) -> bool {
    matches!(form, EncodingHint::Natural | EncodingHint::Unshared)
        && parse_integer(string).is_some()
}

/// What OBJECT ENCODING answers.
pub(crate) fn encoding(value: &Value, form: EncodingHint) -> &'static str {
    match value {
        Value::String(string) if is_integer(string, form) => "int",
        Value::String(string)
            if form != EncodingHint::Raw && string.len() <= EMBEDDED_BYTES_MAX =>
        {
            "embstr"
        }
        Value::String(_) => "raw",
        Value::Hash(hash) => match hash {
            Hash::Small(_) => "listpack",
            Hash::Big(_) => "hashtable",
        },
        Value::List(_) => "quicklist",
    }
}

/// What OBJECT REFCOUNT answers.
pub(crate) fn references(value: &Value, form: EncodingHint) -> i64 {
    match value {
        Value::String(string)
            if form == EncodingHint::Natural
                && parse_integer(string)
                    .is_some_and(|value| (0..SHARED_INTEGERS).contains(&value)) =>
        {
            SHARED_REFERENCES
        }
        Value::String(_) | Value::Hash(_) | Value::List(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_told_by_bytes_and_history() {
        let string = |text: &str| Value::String(Blob::from(text));
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
            assert_eq!(encoding(&string(text), form), expected, "{text}");
            assert_eq!(references(&string(text), form), count, "{text}");
        }
        assert_eq!(
            encoding(&string(&"x".repeat(44)), EncodingHint::Natural),
            "embstr"
        );
        assert_eq!(
            encoding(&string(&"x".repeat(45)), EncodingHint::Natural),
            "raw"
        );
    }
}
