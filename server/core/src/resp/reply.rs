//! The value that every handler returns. EXEC, scripts, fault rules and both protocols read it.

use super::{Blob, Protocol};
use std::borrow::Cow;
use std::sync::Arc;

/// An error reply: a code in capitals, a space and a text. On the wire a `-` precedes it.
///
/// Line breaks become spaces, as in `networking.c: afterErrorReply`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReply(Repr);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Repr {
    Text(Cow<'static, str>),
    /// Bytes that a client sent and that are not valid UTF-8, and the text closest to them.
    Bytes(Box<(Vec<u8>, String)>),
}

impl ErrorReply {
    /// An error with its code, for example `WRONGTYPE Operation against ...`.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        let text = if text.contains(['\r', '\n']) {
            text.replace(['\r', '\n'], " ").into()
        } else {
            text
        };
        Self(Repr::Text(text))
    }

    /// An error that repeats bytes which a client sent.
    pub fn from_bytes(mut bytes: Vec<u8>) -> Self {
        bytes
            .iter_mut()
            .filter(|byte| matches!(byte, b'\r' | b'\n'))
            .for_each(|byte| *byte = b' ');
        Self(match String::from_utf8(bytes) {
            Ok(text) => Repr::Text(text.into()),
            Err(error) => {
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                Repr::Bytes(Box::new((error.into_bytes(), text)))
            }
        })
    }

    /// An error from a C string: up to the first zero byte, without line breaks at the end
    /// (`networking.c: addReplyErrorFormat`).
    pub fn from_c_text(text: &[u8]) -> Self {
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let end = text
            .iter()
            .rposition(|byte| !is_break(byte))
            .map_or(0, |last| last + 1);
        Self::from_bytes(text[..end].to_vec())
    }

    /// Code and text, without the leading `-`.
    pub fn text(&self) -> &str {
        match &self.0 {
            Repr::Text(text) => text,
            Repr::Bytes(both) => &both.1,
        }
    }

    /// The bytes on the wire. Bytes that a client sent are repeated unchanged.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Text(text) => text.as_bytes(),
            Repr::Bytes(both) => &both.0,
        }
    }

    /// The first word, for example `WRONGTYPE`.
    pub fn code(&self) -> &str {
        self.text().split(' ').next().unwrap_or_default()
    }
}

/// A reply. RESP2 and RESP3 are two encodings of the same value.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `+OK`.
    Ok,
    /// A null value: `$-1`, or `_` in RESP3.
    Nil,
    /// A null array: `*-1`, or `_` in RESP3.
    NilArray,
    /// An integer.
    Int(i64),
    /// A bulk string.
    Bulk(Blob),
    /// A simple string that is known at compile time, for example `+PONG`.
    Static(&'static str),
    /// A simple string.
    Status(Vec<u8>),
    /// An error.
    Error(ErrorReply),
    /// An array.
    Array(Vec<Self>),
    /// Ordered pairs; a flat array in RESP2.
    Map(Vec<(Self, Self)>),
    /// Unordered members; an array in RESP2.
    Set(Vec<Self>),
    /// Pairs whose keys may repeat: arrays of two in RESP3, a flat array in RESP2.
    Pairs(Vec<(Self, Self)>),
    /// Entries by the key of their stream: a map in RESP3, arrays of two in RESP2.
    Streams(Vec<(Self, Self)>),
    /// A double; a bulk string in RESP2.
    Double(f64),
    /// A double with as few digits as it needs, as Redis 7.2 and later write it; a bulk string in RESP2.
    ShortDouble(f64),
    /// A double in decimal notation, with at most 17 decimals; a bulk string in RESP2.
    Decimal(f64),
    /// A boolean; 1 or 0 in RESP2.
    Bool(bool),
    /// A decimal number of any size, or any text that a script returns as one; a bulk string in
    /// RESP2.
    BigNumber(Vec<u8>),
    /// A text with its three-letter format; a bulk string in RESP2.
    Verbatim {
        /// `txt` or `mkd`.
        format: [u8; 3],
        /// The text.
        text: Vec<u8>,
    },
    /// An out-of-band message; an array in RESP2.
    Push(Vec<Self>),
    /// A reply with attributes, which RESP2 omits.
    Attributed {
        /// The attributes.
        attributes: Vec<(Self, Self)>,
        /// The reply itself.
        reply: Box<Self>,
    },
    /// Bytes that are no reply: an RDB file, or commands for a replica.
    Raw(Arc<[u8]>),
    /// Several consecutive frames, as SUBSCRIBE replies.
    Several(Vec<Self>),
    /// A reply in the protocol that the connection used before: HELLO inside MULTI.
    Earlier {
        /// The protocol of this reply.
        protocol: Protocol,
        /// The reply itself.
        reply: Box<Self>,
    },
}

impl Reply {
    /// A bulk string with a copy of `bytes`.
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Self {
        Self::Bulk(Blob::new(bytes.as_ref()))
    }

    /// An error with its code, for example `ERR no such key`.
    pub fn error(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Error(ErrorReply::new(text))
    }

    /// Size in memory in bytes, for the limits of queues. Texts that are shared count each time.
    pub fn size_bytes(&self) -> usize {
        let all = |replies: &[Self]| replies.iter().map(Self::size_bytes).sum::<usize>();
        let pairs = |pairs: &[(Self, Self)]| {
            let sizes = pairs.iter();
            sizes
                .map(|(key, value)| key.size_bytes() + value.size_bytes())
                .sum()
        };
        let inner = match self {
            Self::Ok
            | Self::Nil
            | Self::NilArray
            | Self::Int(_)
            | Self::Static(_)
            | Self::Double(_)
            | Self::ShortDouble(_)
            | Self::Decimal(_)
            | Self::Bool(_) => 0,
            Self::Bulk(text) => text.len(),
            Self::Raw(bytes) => bytes.len(),
            Self::Status(text) | Self::BigNumber(text) | Self::Verbatim { text, .. } => text.len(),
            Self::Error(error) => error.as_bytes().len(),
            Self::Array(items) | Self::Set(items) | Self::Push(items) | Self::Several(items) => {
                all(items)
            }
            Self::Map(items) | Self::Pairs(items) | Self::Streams(items) => pairs(items),
            Self::Attributed { attributes, reply } => pairs(attributes) + reply.size_bytes(),
            Self::Earlier { reply, .. } => reply.size_bytes(),
        };
        size_of::<Self>() + inner
    }

    /// Gives the doubles of a reply of a command as few digits as they need; those in decimal notation only if `decimals`.
    pub(crate) fn shorten_doubles(&mut self, decimals: bool) {
        match self {
            Self::Double(value) => *self = Self::ShortDouble(*value),
            Self::Decimal(value) if decimals => *self = Self::ShortDouble(*value),
            Self::Array(items) | Self::Set(items) | Self::Push(items) | Self::Several(items) => {
                items.iter_mut().for_each(|it| it.shorten_doubles(decimals));
            }
            Self::Map(pairs) | Self::Pairs(pairs) | Self::Streams(pairs) => {
                for (key, value) in pairs {
                    key.shorten_doubles(decimals);
                    value.shorten_doubles(decimals);
                }
            }
            Self::Attributed { reply, .. } => reply.shorten_doubles(decimals),
            Self::Ok
            | Self::Nil
            | Self::NilArray
            | Self::Int(_)
            | Self::Static(_)
            | Self::ShortDouble(_)
            | Self::Decimal(_)
            | Self::Bool(_)
            | Self::Bulk(_)
            | Self::Raw(_)
            | Self::Status(_)
            | Self::BigNumber(_)
            | Self::Verbatim { .. }
            | Self::Error(_)
            | Self::Earlier { .. } => {}
        }
    }

    /// True for an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

impl From<ErrorReply> for Reply {
    fn from(error: ErrorReply) -> Self {
        Self::Error(error)
    }
}
