//! Encodes Lua values as JSON. Incomplete tables are in a list instead of on the stack, so deep
//! nesting needs no recursion.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enums belong to mlua, and most variants are treated alike"
)]

use super::super::super::convert::type_name;
use super::super::tools::{Budget, Fault, SLOTS_MAX, Tools, WORK_PER_CHARGE};
use super::number;
use crate::engine::scripting::{InvalidNumbers, Settings};
use mlua::{Error, Table, Value};

/// A table that is partly encoded.
enum Open {
    Array { table: Table, at: i32, len: i32 },
    Object { table: Table, key: Value },
}

impl Open {
    /// Slots of the C stack that this table takes while its content is encoded.
    fn slots(&self) -> usize {
        match self {
            Self::Array { .. } => 1,
            Self::Object { .. } => 2,
        }
    }
}

struct Encoder<'a, 'b> {
    settings: Settings,
    tools: &'a Tools,
    budget: &'a mut Budget<'b>,
    open: Vec<Open>,
    slots: usize,
    out: Vec<u8>,
}

/// Encodes a value.
pub(super) fn encode(
    value: Value,
    settings: Settings,
    tools: &Tools,
    budget: &mut Budget<'_>,
) -> Result<Vec<u8>, Fault> {
    let mut encoder = Encoder {
        settings,
        tools,
        budget,
        open: Vec::new(),
        slots: 1,
        out: Vec::new(),
    };
    encoder.run(value)?;
    Ok(encoder.out)
}

fn exception(value: &Value, reason: &str) -> Fault {
    let kind = type_name(value);
    Fault::text(format!("Cannot serialise {kind}: {reason}"))
}

impl Encoder<'_, '_> {
    fn run(&mut self, value: Value) -> Result<(), Fault> {
        self.value(value)?;
        while let Some(open) = self.open.last_mut() {
            let is_first;
            let (key, value) = match open {
                Open::Array { at, len, .. } if at == len => {
                    self.close(b"]")?;
                    continue;
                }
                Open::Array { table, at, .. } => {
                    *at += 1;
                    is_first = *at == 1;
                    (None, table.raw_get(*at)?)
                }
                Open::Object { table, key } => {
                    let (next, value) = self.tools.next(table, key.clone())?;
                    if next.is_nil() {
                        self.close(b"}")?;
                        continue;
                    }
                    is_first = key.is_nil();
                    *key = next.clone();
                    (Some(next), value)
                }
            };
            if !is_first {
                self.put(b",")?;
            }
            if let Some(key) = key {
                self.key(&key)?;
            }
            self.value(value)?;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.budget.reserve(&mut self.out, bytes.len())?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn close(&mut self, bracket: &[u8]) -> Result<(), Fault> {
        if let Some(closed) = self.open.pop() {
            self.slots -= closed.slots();
        }
        self.put(bracket)
    }

    fn key(&mut self, key: &Value) -> Result<(), Fault> {
        match key {
            Value::String(text) => self.text(&text.as_bytes())?,
            Value::Integer(_) | Value::Number(_) => {
                self.put(b"\"")?;
                self.number(key)?;
                self.put(b"\"")?;
            }
            other => return Err(exception(other, "table key must be a number or string")),
        }
        self.put(b":")
    }

    /// Encodes a scalar, or the opening bracket of a table.
    fn value(&mut self, value: Value) -> Result<(), Fault> {
        self.budget.spend(1)?;
        match value {
            Value::String(text) => self.text(&text.as_bytes()),
            Value::Integer(_) | Value::Number(_) => self.number(&value),
            Value::Boolean(true) => self.put(b"true"),
            Value::Boolean(false) => self.put(b"false"),
            Value::Nil => self.put(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.put(b"null"),
            Value::Table(table) => self.table(table),
            other => Err(exception(&other, "type not supported")),
        }
    }

    fn number(&mut self, value: &Value) -> Result<(), Fault> {
        let number = match value {
            Value::Integer(number) => *number as f64,
            Value::Number(number) => *number,
            _ => f64::NAN,
        };
        match self.settings.encode_invalid {
            InvalidNumbers::Refuse if !number.is_finite() => {
                return Err(exception(value, "must not be NaN or Inf"));
            }
            InvalidNumbers::Null if !number.is_finite() => return self.put(b"null"),
            _ => {}
        }
        let digits = usize::try_from(self.settings.precision).unwrap_or(1);
        self.put(number::format(number, digits).as_bytes())
    }

    fn text(&mut self, text: &[u8]) -> Result<(), Fault> {
        self.budget.spend_bytes(text.len())?;
        self.put(b"\"")?;
        let mut rest = text;
        while let Some(at) = rest.iter().position(|byte| is_escaped(*byte)) {
            let escaped = rest[at];
            self.put(&rest[..at])?;
            match escaped {
                8 => self.put(b"\\b")?,
                9 => self.put(b"\\t")?,
                10 => self.put(b"\\n")?,
                12 => self.put(b"\\f")?,
                13 => self.put(b"\\r")?,
                b'"' | b'\\' | b'/' => self.put(&[b'\\', escaped])?,
                other => self.put(format!("\\u{other:04x}").as_bytes())?,
            }
            rest = &rest[at + 1..];
        }
        self.put(rest)?;
        self.put(b"\"")
    }

    fn table(&mut self, table: Table) -> Result<(), Fault> {
        let depth = self.open.len() + 1;
        // The C code reserves slots for a key, a value and an error message.
        if depth > usize::try_from(self.settings.encode_depth_max).unwrap_or(0)
            || self.slots + 3 > SLOTS_MAX
        {
            return Err(nesting(depth));
        }
        self.open_table(table).map_err(|fault| match fault {
            Fault::Lua(Error::StackError) => nesting(depth),
            other => other,
        })
    }

    fn open_table(&mut self, table: Table) -> Result<(), Fault> {
        let table = self.tools.behind(table)?;
        let len = self.array_len(&table)?;
        let open = if len > 0 {
            self.put(b"[")?;
            Open::Array { table, at: 0, len }
        } else {
            self.put(b"{")?;
            let key = Value::Nil;
            Open::Object { table, key }
        };
        self.slots += open.slots();
        self.open.push(open);
        Ok(())
    }

    /// The length of an array: the largest index if all keys are positive integers and the array is
    /// not too sparse. Otherwise zero or less.
    fn array_len(&mut self, table: &Table) -> Result<i32, Fault> {
        // In C, a double that does not fit in an `int` becomes the smallest integer.
        let index = |key: &Value| match key {
            Value::Integer(key @ 1..) => {
                Some((*key as f64, i32::try_from(*key).unwrap_or(i32::MIN)))
            }
            Value::Number(key) if *key >= 1.0 && key.floor() == *key => Some((*key, i32::MIN)),
            _ => None,
        };
        if index(&self.tools.next(table, Value::Nil)?.0).is_none() {
            return Ok(-1);
        }
        let (mut count, mut largest, mut is_array) = (0_u64, 0_i32, true);
        let mut work = Ok(());
        table.for_each(|key: Value, _: Value| {
            count += 1;
            match index(&key) {
                Some((key, shortened)) if key > f64::from(largest) => largest = shortened,
                Some(_) => {}
                None => is_array = false,
            }
            if count.is_multiple_of(WORK_PER_CHARGE) && work.is_ok() {
                work = self.budget.spend(WORK_PER_CHARGE);
            }
            Ok(())
        })?;
        work?;
        if !is_array {
            return Ok(-1);
        }
        let Settings {
            sparse_ratio,
            sparse_safe,
            sparse_convert,
            ..
        } = self.settings;
        let items = i32::try_from(count).unwrap_or(i32::MAX);
        if sparse_ratio > 0 && largest > items.wrapping_mul(sparse_ratio) && largest > sparse_safe {
            if !sparse_convert {
                return Err(Fault::text(
                    "Cannot serialise table: excessively sparse array",
                ));
            }
            return Ok(-1);
        }
        Ok(largest)
    }
}

fn nesting(depth: usize) -> Fault {
    Fault::text(format!("Cannot serialise, excessive nesting ({depth})"))
}

fn is_escaped(byte: u8) -> bool {
    matches!(byte, 0..=31 | b'"' | b'/' | b'\\' | 127)
}
