//! Lock systems in production use, written after their descriptions: sound ones, and broken ones that are
//! kept as they are.

mod a1;
mod a2;
mod b1;
mod b2;
mod c;
mod d;
mod e;

use super::Row;

/// All systems, sorted by id.
pub const SEEDS: &[&[Row]] = &[
    a1::ROWS,
    a2::ROWS,
    b1::ROWS,
    b2::ROWS,
    c::ROWS,
    d::ROWS,
    e::ROWS,
];
