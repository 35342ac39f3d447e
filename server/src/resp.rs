//! The Redis serialization protocol: decodes requests and encodes replies. Knows no command.

pub use redouble_core::resp::{
    Blob, Decoder, ErrorReply, Limits, OwnedRequest, Protocol, ProtocolError, Reply, Request,
    encode, format_double, parse_integer,
};
#[cfg(feature = "net")]
pub(crate) use redouble_core::resp::{encode_owned, quoted};
