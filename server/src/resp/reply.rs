//! The value every handler returns. EXEC, scripts, fault rules and both protocols read it.

use super::{Blob, Protocol};
use std::borrow::Cow;

/// An error reply: a code in capitals, a space, and a text; written after a `-`.
///
/// Line breaks become spaces, as `networking.c: afterErrorReply` makes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReply(Repr);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Repr {
    Text(Cow<'static, str>),
    /// Bytes of a client that are no text, and the closest text.
    Bytes(Box<(Vec<u8>, String)>),
}

impl ErrorReply {
    /// An error with its code, as in `WRONGTYPE Operation against ...`.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        let text = if text.contains(['\r', '\n']) {
            text.replace(['\r', '\n'], " ").into()
        } else {
            text
        };
        Self(Repr::Text(text))
    }

    /// An error that repeats what a client sent, whatever that was.
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

    /// The same for what C reads as a text: up to its first zero byte, without line breaks at its
    /// end (`networking.c: addReplyErrorFormat`).
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

    /// The same as it goes over the wire: what a client sent comes back as it was.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Text(text) => text.as_bytes(),
            Repr::Bytes(both) => &both.0,
        }
    }

    /// The first word, as in `WRONGTYPE`.
    pub fn code(&self) -> &str {
        self.text().split(' ').next().unwrap_or_default()
    }
}

/// A reply. RESP2 and RESP3 are two ways of writing the same value.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `+OK`.
    Ok,
    /// No value: `$-1`, or `_` in RESP3.
    Nil,
    /// No array: `*-1`, or `_` in RESP3.
    NilArray,
    /// An integer.
    Int(i64),
    /// A bulk string.
    Bulk(Blob),
    /// A simple string that is known at compile time, as in `+PONG`.
    Static(&'static str),
    /// A simple string.
    Status(Vec<u8>),
    /// An error.
    Error(ErrorReply),
    /// An array.
    Array(Vec<Self>),
    /// Pairs in order; a flat array in RESP2.
    Map(Vec<(Self, Self)>),
    /// Members without order; an array in RESP2.
    Set(Vec<Self>),
    /// Pairs that may repeat: arrays of two in RESP3, a flat array in RESP2.
    Pairs(Vec<(Self, Self)>),
    /// A double; a bulk string in RESP2.
    Double(f64),
    /// A boolean; 1 or 0 in RESP2.
    Bool(bool),
    /// A decimal number of any size, or what a script gives as one; a bulk string in RESP2.
    BigNumber(Vec<u8>),
    /// A text with its three-letter format; a bulk string in RESP2.
    Verbatim {
        /// `txt` or `mkd`.
        format: [u8; 3],
        /// The text.
        text: Vec<u8>,
    },
    /// Out of band data; an array in RESP2.
    Push(Vec<Self>),
    /// A reply with something to know about it, which RESP2 leaves out.
    Attributed {
        /// What there is to know.
        attributes: Vec<(Self, Self)>,
        /// The reply itself.
        reply: Box<Self>,
    },
    /// Several frames, one after the other, as SUBSCRIBE answers.
    Several(Vec<Self>),
    /// A reply in a protocol that its connection has left meanwhile: HELLO inside MULTI.
    Earlier {
        /// The protocol it is written in.
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

    /// An error with its code, as in `ERR no such key`.
    pub fn error(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Error(ErrorReply::new(text))
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
