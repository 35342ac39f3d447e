//! `cmsgpack`: encodes Lua values as MessagePack and decodes them (lua-cmsgpack 0.4.0).

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enums belong to mlua, and most variants are treated alike"
)]

use super::super::host::Host;
use super::super::sandbox::Args;
use super::super::slot::SharedSlot;
use super::tools::{
    BYTES_PER_INSTRUCTION, Budget, Fault, SLOTS_MAX, Tools, WORK_PER_CHARGE, add, budgeted,
};
use mlua::{Error, Lua, MultiValue, Table, Value};
use std::sync::Arc;

/// Limit of nested tables; deeper ones are packed as nil (`LUACMSGPACK_MAX_NESTING`).
const NESTING_MAX: usize = 16;
/// Limit of arguments of `pack`. Its results need the same number of slots again.
const PACK_ARGUMENTS_MAX: usize = 4_000;

/// A table that is being packed.
enum Open {
    Array {
        table: Table,
        at: usize,
        len: usize,
    },
    Map {
        table: Table,
        key: Value,
    },
    /// The value for the key that was packed last.
    MapValue(Value),
}

struct Packer<'a, 'b> {
    tools: &'a Tools,
    budget: &'a mut Budget<'b>,
    open: Vec<Open>,
    /// Number of tables in `open`.
    level: usize,
    out: Vec<u8>,
}

impl Packer<'_, '_> {
    fn pack(&mut self, value: Value) -> Result<(), Fault> {
        self.value(value)?;
        while let Some(open) = self.open.last_mut() {
            let next = match open {
                Open::Array { at, len, .. } if at == len => None,
                Open::Array { table, at, .. } => {
                    *at += 1;
                    Some(table.raw_get(*at)?)
                }
                Open::MapValue(value) => {
                    let value = std::mem::replace(value, Value::Nil);
                    self.open.pop();
                    self.value(value)?;
                    continue;
                }
                Open::Map { table, key } => {
                    let (next, value) = self.tools.next(table, key.clone())?;
                    if next.is_nil() {
                        None
                    } else {
                        *key = next.clone();
                        self.open.push(Open::MapValue(value));
                        Some(next)
                    }
                }
            };
            match next {
                Some(value) => self.value(value)?,
                None => {
                    self.open.pop();
                    self.level -= 1;
                }
            }
        }
        Ok(())
    }

    /// Packs a value, or the header of a table.
    fn value(&mut self, value: Value) -> Result<(), Fault> {
        self.budget.spend(1)?;
        match value {
            Value::String(text) => self.text(&text.as_bytes()),
            Value::Boolean(value) => self.put(&[0xc2 + u8::from(value)]),
            Value::Integer(number) => self.integer(number),
            Value::Number(number) => self.number(number),
            Value::Table(table) if self.level < NESTING_MAX => self.table(table),
            _ => self.put(&[0xc0]),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.budget.reserve(&mut self.out, bytes.len())?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends a tag and the lowest bytes of a number, in big-endian order.
    fn tagged(&mut self, tag: u8, number: u64, bytes: usize) -> Result<(), Fault> {
        self.put(&[tag])?;
        self.put(&number.to_be_bytes()[8 - bytes..])
    }

    fn text(&mut self, text: &[u8]) -> Result<(), Fault> {
        self.budget.spend_bytes(text.len())?;
        let len = text.len() as u64;
        match len {
            0..=31 => self.put(&[0xa0 | len as u8])?,
            32..=0xff => self.tagged(0xd9, len, 1)?,
            0x100..=0xffff => self.tagged(0xda, len, 2)?,
            _ => self.tagged(0xdb, len, 4)?,
        }
        self.put(text)
    }

    fn integer(&mut self, number: i64) -> Result<(), Fault> {
        let bits = number.cast_unsigned();
        match number {
            -32..=127 => self.put(&[bits as u8]),
            128..=0xff => self.tagged(0xcc, bits, 1),
            0x100..=0xffff => self.tagged(0xcd, bits, 2),
            0x1_0000..=0xffff_ffff => self.tagged(0xce, bits, 4),
            0x1_0000_0000.. => self.tagged(0xcf, bits, 8),
            -0x80..=-33 => self.tagged(0xd0, bits, 1),
            -0x8000..=-0x81 => self.tagged(0xd1, bits, 2),
            -0x8000_0000..=-0x8001 => self.tagged(0xd2, bits, 4),
            _ => self.tagged(0xd3, bits, 8),
        }
    }

    /// Packs a number that mlua does not return as an integer: a fraction, a large number or -0.
    fn number(&mut self, number: f64) -> Result<(), Fault> {
        if number == 0.0 {
            return self.integer(0);
        }
        let short = number as f32;
        if f64::from(short) == number {
            self.tagged(0xca, u64::from(short.to_bits()), 4)
        } else {
            self.tagged(0xcb, number.to_bits(), 8)
        }
    }

    fn table(&mut self, table: Table) -> Result<(), Fault> {
        let table = self.tools.behind(table)?;
        let (mut count, mut largest, mut is_array) = (0_u64, 0_i64, true);
        let mut work = Ok(());
        table.for_each(|key: Value, _: Value| {
            count += 1;
            match key {
                Value::Integer(index @ 1..=0x7fff_ffff) => largest = largest.max(index),
                _ => is_array = false,
            }
            if count.is_multiple_of(WORK_PER_CHARGE) && work.is_ok() {
                work = self.budget.spend(WORK_PER_CHARGE);
            }
            Ok(())
        })?;
        work?;
        self.level += 1;
        if is_array && largest.cast_unsigned() == count {
            self.head(0x90, 0xdc, count)?;
            let len = usize::try_from(count).unwrap_or(usize::MAX);
            self.open.push(Open::Array { table, at: 0, len });
        } else {
            self.head(0x80, 0xde, count)?;
            let key = Value::Nil;
            self.open.push(Open::Map { table, key });
        }
        Ok(())
    }

    /// Appends the number of elements: in the tag itself, in two bytes, or in four.
    fn head(&mut self, tag_in_one: u8, tag: u8, count: u64) -> Result<(), Fault> {
        match count {
            0..=15 => self.put(&[tag_in_one | count as u8]),
            16..=0xffff => self.tagged(tag, count, 2),
            _ => self.tagged(tag + 1, count, 4),
        }
    }
}

/// A table that is being filled.
struct Filling {
    table: Table,
    left: u64,
    place: Place,
}

enum Place {
    /// The index of the next element.
    Index(i64),
    /// The next value is a key.
    Key,
    /// The next value belongs to this key.
    Value(Value),
}

impl Place {
    /// Slots of the C stack that this table takes while its next value is read.
    fn slots(&self) -> usize {
        match self {
            Self::Index(_) | Self::Value(_) => 2,
            Self::Key => 1,
        }
    }
}

/// The meaning of a tag.
enum Item {
    Value(Value),
    Array(u64),
    Map(u64),
}

struct Unpacker<'a, 'b> {
    lua: &'a Lua,
    budget: &'a mut Budget<'b>,
    data: &'a [u8],
    at: usize,
}

impl Unpacker<'_, '_> {
    fn take(&mut self, count: u64) -> Result<&[u8], Fault> {
        let end = usize::try_from(count)
            .ok()
            .and_then(|count| self.at.checked_add(count));
        let bytes = end
            .and_then(|end| self.data.get(self.at..end))
            .ok_or_else(|| Fault::text("Missing bytes in input."))?;
        self.at += bytes.len();
        Ok(bytes)
    }

    fn unsigned(&mut self, bytes: u64) -> Result<u64, Fault> {
        let bytes = self.take(bytes)?;
        let push = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Ok(bytes.iter().fold(0, push))
    }

    fn signed(&mut self, bytes: u64) -> Result<Item, Fault> {
        let shift = 64 - 8 * bytes as u32;
        let number = (self.unsigned(bytes)? << shift).cast_signed() >> shift;
        Ok(Item::Value(Value::Integer(number)))
    }

    fn text(&mut self, len: u64) -> Result<Item, Fault> {
        self.budget.spend(len / BYTES_PER_INSTRUCTION)?;
        let lua = self.lua;
        Ok(Item::Value(Value::String(
            lua.create_string(self.take(len)?)?,
        )))
    }

    fn item(&mut self) -> Result<Item, Fault> {
        self.budget.spend(1)?;
        let tag = self.take(1)?[0];
        Ok(Item::Value(match tag {
            0x00..=0x7f => Value::Integer(i64::from(tag)),
            0xe0..=0xff => Value::Integer(i64::from(tag.cast_signed())),
            0x80..=0x8f => return Ok(Item::Map(u64::from(tag & 0x0f))),
            0x90..=0x9f => return Ok(Item::Array(u64::from(tag & 0x0f))),
            0xa0..=0xbf => return self.text(u64::from(tag & 0x1f)),
            0xc0 => Value::Nil,
            0xc2 | 0xc3 => Value::Boolean(tag == 0xc3),
            0xca => Value::Number(f64::from(f32::from_bits(self.unsigned(4)? as u32))),
            0xcb => Value::Number(f64::from_bits(self.unsigned(8)?)),
            // Lua 5.1 cannot push unsigned integers, so the largest become negative.
            0xcc..=0xcf => Value::Integer(self.unsigned(1 << (tag - 0xcc))?.cast_signed()),
            0xd0..=0xd3 => return self.signed(1 << (tag - 0xd0)),
            0xd9..=0xdb => {
                let len = self.unsigned(1 << (tag - 0xd9))?;
                return self.text(len);
            }
            0xdc | 0xdd => return Ok(Item::Array(self.unsigned(2 << (tag - 0xdc))?)),
            0xde | 0xdf => return Ok(Item::Map(self.unsigned(2 << (tag - 0xde))?)),
            0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => {
                return Err(Fault::text("Bad data format in input."));
            }
        }))
    }

    /// Unpacks one value. `slots` is the number of slots that are already taken.
    fn unpack(&mut self, slots: usize) -> Result<Value, Fault> {
        let mut filling: Vec<Filling> = Vec::new();
        let mut slots = slots;
        loop {
            if slots + 1 > SLOTS_MAX {
                return Err(overflow(
                    "too many return values at once; use unpack_one or unpack_limit instead.",
                ));
            }
            let (count, place) = match self.item()? {
                Item::Value(value) => {
                    if let Some(whole) = fill(&mut filling, &mut slots, value)? {
                        return Ok(whole);
                    }
                    continue;
                }
                Item::Array(count) => {
                    if slots + 2 > SLOTS_MAX {
                        return Err(overflow("in function mp_decode_to_lua_array"));
                    }
                    (count, Place::Index(1))
                }
                Item::Map(count) => (count, Place::Key),
            };
            let table = self.lua.create_table()?;
            slots += place.slots();
            filling.push(Filling {
                table,
                left: count,
                place,
            });
            if count == 0 {
                let empty = close(&mut filling, &mut slots);
                if let Some(whole) = fill(&mut filling, &mut slots, empty)? {
                    return Ok(whole);
                }
            }
        }
    }
}

fn overflow(what: &str) -> Fault {
    Fault::text(format!("stack overflow ({what})"))
}

/// Puts a value into the innermost table. A table that is now complete goes into the one around it,
/// and so on. Returns the outermost value when it is complete.
fn fill(
    filling: &mut Vec<Filling>,
    slots: &mut usize,
    mut value: Value,
) -> Result<Option<Value>, Fault> {
    loop {
        let Some(into) = filling.last_mut() else {
            return Ok(Some(value));
        };
        match std::mem::replace(&mut into.place, Place::Key) {
            Place::Index(index) => {
                into.table.raw_set(index, value)?;
                into.place = Place::Index(index + 1);
                into.left -= 1;
            }
            Place::Key => {
                *slots += 1;
                into.place = Place::Value(value);
            }
            Place::Value(key) => {
                *slots -= 1;
                match key {
                    Value::Nil => return Err(Fault::Bare("table index is nil")),
                    Value::Number(key) if key.is_nan() => {
                        return Err(Fault::Bare("table index is NaN"));
                    }
                    key => into.table.raw_set(key, value)?,
                }
                into.left -= 1;
            }
        }
        if into.left > 0 {
            return Ok(None);
        }
        value = close(filling, slots);
    }
}

/// Removes the innermost table, which is complete.
fn close(filling: &mut Vec<Filling>, slots: &mut usize) -> Value {
    filling.pop().map_or(Value::Nil, |full| {
        *slots -= full.place.slots();
        Value::Table(full.table)
    })
}

fn pack<H: Host>(
    args: &Args<'_, H>,
    tools: &Tools,
    budget: &mut Budget<'_>,
) -> Result<Vec<u8>, Fault> {
    if args.values.is_empty() {
        return Err(args.wrong_call("MessagePack pack needs input.").into());
    }
    if args.values.len() > PACK_ARGUMENTS_MAX {
        return Err(args
            .wrong_call("Too many arguments for MessagePack pack.")
            .into());
    }
    let mut packer = Packer {
        tools,
        budget,
        open: Vec::new(),
        level: 0,
        out: Vec::new(),
    };
    for value in &args.values {
        packer.pack(value.clone())?;
    }
    Ok(packer.out)
}

/// Unpacks up to `limit` values from `offset` on, and returns the offset after them. If both are
/// zero, it unpacks all values and returns no offset.
fn unpack<H: Host>(
    lua: &Lua,
    args: &Args<'_, H>,
    limit: i64,
    offset: i64,
    slots: usize,
) -> Result<MultiValue, Fault> {
    let data = args.text(0)?;
    let data = data.as_bytes();
    let len = data.len();
    let is_whole = limit == 0 && offset == 0;
    // `%d` prints only the lower half of both numbers, and the length in place of the limit.
    let (offset_shown, len_shown) = (offset as i32, len as i32);
    let (Ok(limit), Ok(at)) = (u64::try_from(limit), usize::try_from(offset)) else {
        return Err(Fault::text(format!(
            "Invalid request to unpack with offset of {offset_shown} and limit of {len_shown}."
        )));
    };
    if at > len {
        return Err(Fault::text(format!(
            "Start offset {offset_shown} greater than input length {len_shown}."
        )));
    }
    let limit = if is_whole { u64::MAX } else { limit };
    budgeted(args, |budget| {
        let mut unpacker = Unpacker {
            lua,
            budget,
            data: &data,
            at,
        };
        let mut values = Vec::new();
        while unpacker.at < len && (values.len() as u64) < limit {
            let value = unpacker.unpack(slots + values.len());
            values.push(value.map_err(|fault| match fault {
                Fault::Lua(Error::StackError) => overflow(
                    "too many return values at once; use unpack_one or unpack_limit instead.",
                ),
                other => other,
            })?);
        }
        if !is_whole {
            let next = if unpacker.at == len {
                -1
            } else {
                unpacker.at as i64
            };
            values.insert(0, Value::Integer(next));
        }
        Ok(MultiValue::from_vec(values))
    })
}

pub(super) fn library<H: Host>(
    lua: &Lua,
    slot: &SharedSlot<H>,
    tools: &Arc<Tools>,
) -> mlua::Result<Table> {
    // `next` iterates in the order of insertion, which is that of the C library.
    let library = lua.create_table()?;
    let tools = Arc::clone(tools);
    add(lua, slot, &library, "pack", move |lua, args| {
        let bytes = budgeted(args, |budget| pack(args, &tools, budget))?;
        Ok(lua.create_string(bytes)?)
    })?;
    add(lua, slot, &library, "unpack", |lua, args| {
        unpack(lua, args, 0, 0, args.values.len())
    })?;
    add(lua, slot, &library, "unpack_one", |lua, args| {
        let offset = args.integer_or(1, 0)?;
        unpack(lua, args, 1, offset, 1)
    })?;
    add(lua, slot, &library, "unpack_limit", |lua, args| {
        let (limit, offset) = (args.integer(1)?, args.integer_or(2, 0)?);
        unpack(lua, args, limit, offset, 1)
    })?;
    for (name, value) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ] {
        library.raw_set(name, value)?;
    }
    Ok(library)
}
