//! What a key can hold. One file per type; strings are a [`Blob`].

mod encoding;
mod hash;
mod list;

pub(crate) use encoding::{EncodingHint, encoding, references};
pub(crate) use hash::{Hash, HashLimits};
pub(crate) use list::{End, List, clamp_range};

use crate::command::CommandError;
use crate::resp::Blob;

/// The value of a key. 40 bytes.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    String(Blob),
    Hash(Hash),
    List(List),
}

/// The types of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    String,
    Hash,
    List,
}

impl Kind {
    /// What TYPE answers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Hash => "hash",
            Self::List => "list",
        }
    }
}

impl Value {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::String(_) => Kind::String,
            Self::Hash(_) => Kind::Hash,
            Self::List(_) => Kind::List,
        }
    }
}

/// A type of value, for access that answers WRONGTYPE by itself.
pub(crate) trait Typed: Sized {
    fn of(value: &Value) -> Result<&Self, CommandError>;
    fn of_mut(value: &mut Value) -> Result<&mut Self, CommandError>;
}

macro_rules! typed {
    ($type:ty, $variant:ident) => {
        impl Typed for $type {
            fn of(value: &Value) -> Result<&Self, CommandError> {
                if let Value::$variant(inner) = value {
                    Ok(inner)
                } else {
                    Err(CommandError::WrongType)
                }
            }

            fn of_mut(value: &mut Value) -> Result<&mut Self, CommandError> {
                if let Value::$variant(inner) = value {
                    Ok(inner)
                } else {
                    Err(CommandError::WrongType)
                }
            }
        }
    };
}

typed!(Blob, String);
typed!(Hash, Hash);
typed!(List, List);

#[cfg(test)]
mod tests {
    #[test]
    fn a_value_is_as_big_as_its_string() {
        assert_eq!(size_of::<super::Value>(), size_of::<crate::resp::Blob>());
    }
}
