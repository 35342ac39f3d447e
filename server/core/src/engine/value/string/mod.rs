//! Strings: a [`Blob`](crate::resp::Blob) each.

mod row;

pub(crate) use row::EncodingHint;
pub(super) use row::ROW;
