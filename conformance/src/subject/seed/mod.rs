//! The lock systems that people run, after their descriptions: the sound ones, and those that are
//! kept because they are broken.

mod a1;
mod a2;
mod b1;
mod b2;
mod c;
mod d;
mod e;

use super::Row;

/// All systems, in the order of their ids.
pub const SEEDS: &[&[Row]] = &[
    a1::ROWS,
    a2::ROWS,
    b1::ROWS,
    b2::ROWS,
    c::ROWS,
    d::ROWS,
    e::ROWS,
];
