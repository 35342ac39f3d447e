//! `bit`: operations on 32-bit integers (Lua BitOp 1.0.2).

use super::super::host::Host;
use super::super::sandbox::Args;
use super::super::slot::SharedSlot;
use super::tools::{Fault, add};
use mlua::{Lua, Table, Value};

/// 2^52 + 2^51. Adding this moves the integer part of a number to its lowest bits.
const SHIFT: f64 = 6_755_399_441_055_744.0;

/// The argument at `index` as 32 bits: rounded, modulo 2^32.
fn bits<H>(args: &Args<'_, H>, index: usize) -> Result<u32, Fault> {
    Ok((args.number(index)? + SHIFT).to_bits() as u32)
}

fn signed(bits: u32) -> Value {
    Value::Integer(i64::from(bits.cast_signed()))
}

type Fold = fn(u32, u32) -> u32;

/// An operation on one number.
type Unary = fn(u32) -> u32;
const FOLDS: &[(&str, Fold)] = &[
    ("band", |a, b| a & b),
    ("bor", |a, b| a | b),
    ("bxor", |a, b| a ^ b),
];
/// Shifts and rotations. Only the lowest five bits of the distance count.
const SHIFTS: &[(&str, Fold)] = &[
    ("lshift", |bits, by| bits << by),
    ("rshift", |bits, by| bits >> by),
    ("arshift", |bits, by| {
        (bits.cast_signed() >> by).cast_unsigned()
    }),
    ("rol", u32::rotate_left),
    ("ror", u32::rotate_right),
];

fn tohex<H>(lua: &Lua, args: &Args<'_, H>) -> Result<Value, Fault> {
    let bits_shown = bits(args, 0)?;
    let digits = match args.values.len() {
        0 | 1 => 8,
        _ => bits(args, 1)?.cast_signed(),
    };
    // Redis 7.0 negates the smallest integer and copies too many bytes (CVE-2024-31449).
    let count = digits.unsigned_abs().min(8) as usize;
    let text = if digits < 0 {
        format!("{bits_shown:08X}")
    } else {
        format!("{bits_shown:08x}")
    };
    Ok(Value::String(lua.create_string(&text[8 - count..])?))
}

pub(super) fn library<H: Host>(lua: &Lua, slot: &SharedSlot<H>) -> mlua::Result<Table> {
    let library = lua.create_table_with_capacity(0, 12)?;
    let unary = |name, operation: Unary| {
        add(lua, slot, &library, name, move |_, args| {
            Ok(signed(operation(bits(args, 0)?)))
        })
    };
    // `next` iterates in the order of insertion, which is that of the C library.
    unary("tobit", |bits| bits)?;
    unary("bnot", |bits| !bits)?;
    for &(name, operation) in FOLDS {
        add(lua, slot, &library, name, move |_, args| {
            // Arguments are checked from the last to the first, so the same one is reported as
            // invalid.
            let first = bits(args, 0)?;
            let folded = (1..args.values.len())
                .rev()
                .try_fold(first, |folded, index| {
                    bits(args, index).map(|bits| operation(folded, bits))
                });
            folded.map(signed)
        })?;
    }
    for &(name, operation) in SHIFTS {
        add(lua, slot, &library, name, move |_, args| {
            let first = bits(args, 0)?;
            Ok(signed(operation(first, bits(args, 1)? & 31)))
        })?;
    }
    unary("bswap", u32::swap_bytes)?;
    add(lua, slot, &library, "tohex", tohex)?;
    Ok(library)
}
