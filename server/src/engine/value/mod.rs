//! What a key can hold. One file per type; strings are a [`Blob`].

mod hash;

pub(crate) use hash::Hash;

use crate::command::CommandError;
use crate::resp::Blob;

/// The value of a key. 40 bytes.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    String(Blob),
    Hash(Box<Hash>),
}

/// The types of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    String,
    Hash,
}

impl Kind {
    /// What TYPE answers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Hash => "hash",
        }
    }
}

impl Value {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::String(_) => Kind::String,
            Self::Hash(_) => Kind::Hash,
        }
    }
}

/// A type of value, for access that answers WRONGTYPE by itself.
pub(crate) trait Typed: Sized {
    fn of(value: &Value) -> Result<&Self, CommandError>;
    fn of_mut(value: &mut Value) -> Result<&mut Self, CommandError>;
}

impl Typed for Blob {
    fn of(value: &Value) -> Result<&Self, CommandError> {
        match value {
            Value::String(string) => Ok(string),
            Value::Hash(_) => Err(CommandError::WrongType),
        }
    }

    fn of_mut(value: &mut Value) -> Result<&mut Self, CommandError> {
        match value {
            Value::String(string) => Ok(string),
            Value::Hash(_) => Err(CommandError::WrongType),
        }
    }
}

impl Typed for Hash {
    fn of(value: &Value) -> Result<&Self, CommandError> {
        match value {
            Value::Hash(hash) => Ok(hash),
            Value::String(_) => Err(CommandError::WrongType),
        }
    }

    fn of_mut(value: &mut Value) -> Result<&mut Self, CommandError> {
        match value {
            Value::Hash(hash) => Ok(hash),
            Value::String(_) => Err(CommandError::WrongType),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_value_is_as_big_as_its_string() {
        assert_eq!(size_of::<super::Value>(), size_of::<crate::resp::Blob>());
    }
}
