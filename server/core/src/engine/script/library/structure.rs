//! `struct`: converts numbers and strings to bytes and back, as a format describes
//! (`lua_struct.c`).

use super::super::host::Host;
use super::super::sandbox::Args;
use super::super::slot::SharedSlot;
use super::tools::{Budget, Fault, SLOTS_MAX, add, budgeted};
use mlua::{Lua, MultiValue, Table, Value};

/// Size of the largest integer in bytes. Bytes beyond the eighth are padding.
const INTEGER_BYTES_MAX: usize = 32;
/// Alignment for `!` without a number.
const ALIGNMENT: usize = 8;

#[derive(Clone, Copy, PartialEq)]
enum Endian {
    Big,
    Little,
}

/// Reads a format letter by letter. Like a C string, it ends at its first zero byte.
struct Format<'a> {
    text: &'a [u8],
    at: usize,
    endian: Endian,
    align: usize,
}

impl<'a> Format<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            at: 0,
            endian: Endian::Little,
            align: 1,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied().filter(|byte| *byte != 0)
    }

    /// Reads a number; returns `default` if there are no digits.
    fn count(&mut self, default: usize) -> Result<usize, Fault> {
        let mut count = None;
        while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
            self.at += 1;
            let so_far: usize = count.unwrap_or(0) * 10 + usize::from(digit - b'0');
            if so_far > i32::MAX as usize {
                return Err(Fault::text("integral size overflow"));
            }
            count = Some(so_far);
        }
        Ok(count.unwrap_or(default))
    }

    /// The next letter, and the size of its item in bytes.
    fn next(&mut self) -> Result<Option<(u8, usize)>, Fault> {
        let Some(letter) = self.peek() else {
            return Ok(None);
        };
        self.at += 1;
        let size = match letter {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'c' => self.count(1)?,
            b'i' | b'I' => {
                let size = self.count(4)?;
                if size > INTEGER_BYTES_MAX {
                    return Err(Fault::text(format!(
                        "integral size {size} is larger than limit of {INTEGER_BYTES_MAX}"
                    )));
                }
                size
            }
            _ => 0,
        };
        Ok(Some((letter, size)))
    }

    /// Number of padding bytes at `position` before an item of `size` bytes.
    fn padding(&self, position: usize, letter: u8, size: usize) -> usize {
        if size == 0 || letter == b'c' {
            return 0;
        }
        let size = size.min(self.align);
        // The C code uses this formula even for sizes that are not powers of two.
        size.wrapping_sub(position & (size - 1)) & (size - 1)
    }

    /// Applies a letter that stands for no bytes.
    fn control<H>(&mut self, args: &Args<'_, H>, letter: u8) -> Result<(), Fault> {
        match letter {
            b' ' => {}
            b'>' => self.endian = Endian::Big,
            b'<' => self.endian = Endian::Little,
            b'!' => {
                let align = self.count(ALIGNMENT)?;
                if !align.is_power_of_two() {
                    return Err(Fault::text(format!(
                        "alignment {align} is not a power of 2"
                    )));
                }
                self.align = align;
            }
            other => {
                let what = [&b"invalid format option '"[..], &[other], b"'"].concat();
                return Err(args.wrong_bytes(0, &what).into());
            }
        }
        Ok(())
    }
}

/// Converts a double as the C cast `(size_t)` does on x86.
fn unsigned(number: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if number >= HALF {
        super::super::convert::truncate(number - HALF).cast_unsigned() ^ (1 << 63)
    } else {
        super::super::convert::truncate(number).cast_unsigned()
    }
}

fn push_integer(out: &mut Vec<u8>, number: f64, endian: Endian, size: usize) {
    let bytes = unsigned(number).to_le_bytes();
    let start = out.len();
    out.extend((0..size).map(|index| bytes.get(index).copied().unwrap_or(0)));
    if endian == Endian::Big {
        out[start..].reverse();
    }
}

fn push_float(out: &mut Vec<u8>, little: &[u8], endian: Endian) {
    let start = out.len();
    out.extend_from_slice(little);
    if endian == Endian::Big {
        out[start..].reverse();
    }
}

fn read_integer(bytes: &[u8], endian: Endian, is_signed: bool) -> f64 {
    let push = |whole: u64, byte: &u8| whole << 8 | u64::from(*byte);
    let whole = match endian {
        Endian::Big => bytes.iter().fold(0, push),
        Endian::Little => bytes.iter().rev().fold(0, push),
    };
    if !is_signed {
        return whole as f64;
    }
    // Beyond eight bytes the C code shifts too far. On x86 the distance then counts modulo 64.
    let mask = u64::MAX.wrapping_shl((bytes.len() as u32 * 8).wrapping_sub(1));
    let whole = if whole & mask == 0 {
        whole
    } else {
        whole | mask
    };
    whole.cast_signed() as f64
}

fn pack<H: Host>(args: &Args<'_, H>, budget: &mut Budget<'_>) -> Result<Vec<u8>, Fault> {
    let format = args.text(0)?;
    let format = format.as_bytes();
    let mut format = Format::new(&format);
    let mut out = Vec::new();
    let mut index = 1;
    while let Some((letter, size)) = format.next()? {
        let padding = format.padding(out.len(), letter, size);
        budget.reserve(&mut out, padding + size.min(INTEGER_BYTES_MAX))?;
        budget.spend_bytes(padding)?;
        out.resize(out.len() + padding, 0);
        match letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                push_integer(&mut out, args.number_or_nil(index)?, format.endian, size);
                index += 1;
            }
            b'x' => out.push(0),
            b'f' => {
                let number = args.number_or_nil(index)? as f32;
                push_float(&mut out, &number.to_le_bytes(), format.endian);
                index += 1;
            }
            b'd' => {
                let number = args.number_or_nil(index)?;
                push_float(&mut out, &number.to_le_bytes(), format.endian);
                index += 1;
            }
            b'c' | b's' => {
                let text = args.text_or_nil(index)?;
                let text = text.as_bytes();
                index += 1;
                let size = if size == 0 { text.len() } else { size };
                // The C code reports the argument's number plus one.
                let text = text
                    .get(..size)
                    .ok_or_else(|| args.wrong(index, "string too short"))?;
                budget.reserve(&mut out, size + 1)?;
                budget.spend_bytes(size)?;
                out.extend_from_slice(text);
                if letter == b's' {
                    out.push(0);
                }
            }
            other => format.control(args, other)?,
        }
    }
    Ok(out)
}

fn unpack<H: Host>(
    lua: &Lua,
    args: &Args<'_, H>,
    budget: &mut Budget<'_>,
) -> Result<MultiValue, Fault> {
    let (format, data) = (args.text(0)?, args.text(1)?);
    let (format, data) = (format.as_bytes(), data.as_bytes());
    let mut format = Format::new(&format);
    let mut at = match args.integer_or(2, 1)? {
        0 => return Err(args.wrong(2, "offset must be 1 or greater").into()),
        position => position.cast_unsigned() as usize - 1,
    };
    let span = |at: usize, size: usize| {
        at.checked_add(size)
            .and_then(|end| data.get(at..end))
            .ok_or_else(|| args.wrong(1, "data string too short"))
    };
    let mut out: Vec<Value> = Vec::new();
    while let Some((letter, mut size)) = format.next()? {
        budget.spend_bytes(size)?;
        at = at.wrapping_add(format.padding(at, letter, size));
        let bytes = span(at, size)?;
        if args.values.len() + out.len() + 2 > SLOTS_MAX {
            return Err(Fault::text("stack overflow (too many results)"));
        }
        let value = match letter {
            b'b' | b'h' | b'l' | b'i' => Value::Number(read_integer(bytes, format.endian, true)),
            b'B' | b'H' | b'L' | b'T' | b'I' => {
                Value::Number(read_integer(bytes, format.endian, false))
            }
            b'x' => {
                at += size;
                continue;
            }
            b'f' | b'd' => Value::Number(read_float(bytes, format.endian)),
            b'c' => {
                let mut bytes = bytes;
                if size == 0 {
                    let number = out
                        .last()
                        .and_then(|value| lua.coerce_number(value.clone()).ok().flatten())
                        .ok_or_else(|| Fault::text("format 'c0' needs a previous size"))?;
                    out.pop();
                    size = usize::try_from(unsigned(number)).unwrap_or(usize::MAX);
                    bytes = span(at, size)?;
                }
                text(lua, bytes)?
            }
            b's' => {
                let rest = span(at, 0).map(|_| &data[at..])?;
                let len = rest
                    .iter()
                    .position(|byte| *byte == 0)
                    .ok_or_else(|| Fault::text("unfinished string in data"))?;
                budget.spend_bytes(len)?;
                size = len + 1;
                text(lua, &rest[..len])?
            }
            other => {
                format.control(args, other)?;
                continue;
            }
        };
        out.push(value);
        at += size;
    }
    out.push(Value::Integer(at as i64 + 1));
    Ok(MultiValue::from_vec(out))
}

/// A string among the results. Creating it fails only if other values take the slots of the virtual
/// machine.
fn text(lua: &Lua, bytes: &[u8]) -> Result<Value, Fault> {
    match lua.create_string(bytes) {
        Err(mlua::Error::StackError) => Err(Fault::text("stack overflow (too many results)")),
        other => Ok(Value::String(other?)),
    }
}

fn read_float(bytes: &[u8], endian: Endian) -> f64 {
    let mut little = [0; 8];
    for (to, from) in little.iter_mut().zip(bytes) {
        *to = *from;
    }
    if endian == Endian::Big {
        little[..bytes.len()].reverse();
    }
    if bytes.len() == 4 {
        f64::from(f32::from_le_bytes([
            little[0], little[1], little[2], little[3],
        ]))
    } else {
        f64::from_le_bytes(little)
    }
}

fn size<H: Host>(args: &Args<'_, H>) -> Result<i64, Fault> {
    let format = args.text(0)?;
    let format = format.as_bytes();
    let mut format = Format::new(&format);
    let mut position: usize = 0;
    while let Some((letter, size)) = format.next()? {
        position = position.wrapping_add(format.padding(position, letter, size));
        match letter {
            b's' => return Err(args.wrong(0, "option 's' has no fixed size").into()),
            b'c' if size == 0 => {
                return Err(args.wrong(0, "option 'c0' has no fixed size").into());
            }
            // Letters without a meaning are ignored, but only here.
            letter if letter.is_ascii_alphanumeric() => {}
            other => format.control(args, other)?,
        }
        position = position.wrapping_add(size);
    }
    Ok(position as i64)
}

pub(super) fn library<H: Host>(lua: &Lua, slot: &SharedSlot<H>) -> mlua::Result<Table> {
    let library = lua.create_table_with_capacity(0, 3)?;
    add(lua, slot, &library, "pack", |lua, args| {
        let bytes = budgeted(args, |budget| pack(args, budget))?;
        Ok(lua.create_string(bytes)?)
    })?;
    add(lua, slot, &library, "unpack", |lua, args| {
        budgeted(args, |budget| unpack(lua, args, budget))
    })?;
    add(lua, slot, &library, "size", |_, args| size(args))?;
    Ok(library)
}
