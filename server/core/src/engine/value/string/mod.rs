//! Strings: a [`Blob`](crate::resp::Blob) each.

mod row;

pub(crate) use row::EncodingHint;
pub(super) use row::ROW;
pub(in crate::engine) use row::shared_integer;
