//! The Redis serialization protocol: decodes requests and encodes replies. Knows no command.

mod blob;
mod decode;
mod encode;
mod long_double;
mod number;
mod quote;
mod reply;
mod request;
mod show;

pub use blob::Blob;
#[cfg(feature = "script")]
pub(crate) use decode::split_inline;
pub use decode::{Decoder, Limits, ProtocolError};
pub use encode::encode_owned;
pub use encode::{Protocol, encode};
pub(crate) use long_double::LongDouble;
pub(crate) use number::{format_decimal, format_shortest, is_out_of_range, parse_double};
pub use number::{format_double, parse_integer};
pub(crate) use quote::push_quoted;
pub use quote::quoted;
pub use reply::{ErrorReply, Reply};
pub(crate) use request::Requests;
pub use request::{OwnedRequest, Request};
