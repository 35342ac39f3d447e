//! Converts the value that a script returns to a reply (`script_lua.c: luaReplyToRedisReply`).
//!
//! Incomplete tables are in a list instead of on the stack. The depth is limited nevertheless,
//! because other code walks the reply recursively. Knows no command and no state of the virtual
//! machine.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enums belong to mlua, and most variants are treated alike"
)]

use super::convert::{c_text, truncate};
use crate::resp::{Blob, ErrorReply, Reply};
use mlua::{Error, Function, LuaString, Table, Value};

/// Limit of nested arrays. Redis stops at the limit of the Lua stack, about 8,000 levels. Here
/// other code walks the reply recursively on a stack of 2 MiB.
const DEPTH_MAX: usize = 500;

/// A table that is partly converted.
enum Open {
    Array {
        table: Table,
        items: Vec<Reply>,
    },
    Map {
        pairs: Pairs,
        /// The key of the next value.
        key: Option<Reply>,
        value: Value,
        done: Vec<(Reply, Reply)>,
    },
    Set {
        pairs: Pairs,
        items: Vec<Reply>,
    },
}

/// The pairs of a table, one after the other.
struct Pairs {
    table: Table,
    next: Function,
    key: Value,
}

impl Pairs {
    fn of(table: Table) -> mlua::Result<Self> {
        let lua = table.weak_lua().upgrade();
        Ok(Self {
            next: lua.globals().raw_get("next")?,
            table,
            key: Value::Nil,
        })
    }

    fn next(&mut self) -> mlua::Result<Option<(Value, Value)>> {
        let key = std::mem::replace(&mut self.key, Value::Nil);
        let (key, value): (Value, Value) = self.next.call((&self.table, key))?;
        self.key = key.clone();
        Ok((!key.is_nil()).then_some((key, value)))
    }
}

impl Open {
    /// The next value; `None` at the end.
    fn next(&mut self) -> mlua::Result<Option<Value>> {
        match self {
            Self::Array { table, items } => {
                let item: Value = table.raw_get(items.len() + 1)?;
                Ok((!item.is_nil()).then_some(item))
            }
            Self::Map {
                pairs, key, value, ..
            } => {
                if key.is_some() {
                    return Ok(Some(std::mem::replace(value, Value::Nil)));
                }
                Ok(pairs.next()?.map(|(key, its_value)| {
                    *value = its_value;
                    key
                }))
            }
            Self::Set { pairs, .. } => Ok(pairs.next()?.map(|(item, _)| item)),
        }
    }

    fn push(&mut self, reply: Reply) {
        match self {
            Self::Array { items, .. } | Self::Set { items, .. } => items.push(reply),
            Self::Map { key, done, .. } => match key.take() {
                Some(key) => done.push((key, reply)),
                None => *key = Some(reply),
            },
        }
    }

    fn close(self) -> Reply {
        match self {
            Self::Array { items, .. } => Reply::Array(items),
            Self::Map { done, .. } => Reply::Map(done),
            Self::Set { items, .. } => Reply::Set(items),
        }
    }
}

enum Begun {
    Whole(Reply),
    Open(Open),
}

/// Converts the value that a script returned to a reply of at most `bytes_max` bytes. `resp3` is
/// the protocol that the script chose with `redis.setresp`.
pub(super) fn to_reply(value: &Value, resp3: bool, bytes_max: usize) -> Reply {
    if let Some(reply) = scalar(value, resp3) {
        return reply;
    }
    nested(value, resp3, bytes_max).unwrap_or_else(|problem| {
        Reply::error(match problem {
            Error::MemoryError(_) => {
                "ERR the script's reply takes more memory than a script may".into()
            }
            other => format!("ERR cannot read the script's reply: {other}"),
        })
    })
}

/// Converts a value that is neither a table nor a string.
fn scalar(value: &Value, resp3: bool) -> Option<Reply> {
    Some(match value {
        Value::Integer(number) => Reply::Int(*number),
        Value::Number(number) => Reply::Int(truncate(*number)),
        Value::Boolean(value) if resp3 => Reply::Bool(*value),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(_) | Value::String(_) => return None,
        _ => Reply::Nil,
    })
}

fn nested(value: &Value, resp3: bool, bytes_max: usize) -> mlua::Result<Reply> {
    let mut open: Vec<Open> = Vec::new();
    let mut left = bytes_max;
    let mut begun = begin(value, resp3, &mut left)?;
    loop {
        let mut whole = match begun {
            Begun::Whole(reply) => reply,
            Begun::Open(_) if open.len() >= DEPTH_MAX => {
                Reply::error("ERR reached lua stack limit")
            }
            Begun::Open(table) => {
                open.push(table);
                match next(&mut open)? {
                    Ok(value) => {
                        begun = begin(&value, resp3, &mut left)?;
                        continue;
                    }
                    Err(empty) => empty,
                }
            }
        };
        // A complete value goes into the innermost table, which may be complete then.
        loop {
            let Some(around) = open.last_mut() else {
                return Ok(whole);
            };
            around.push(whole);
            match next(&mut open)? {
                Ok(value) => {
                    begun = begin(&value, resp3, &mut left)?;
                    break;
                }
                Err(closed) => whole = closed,
            }
        }
    }
}

/// The next value of the innermost table, or the reply that the complete table becomes.
fn next(open: &mut Vec<Open>) -> mlua::Result<Result<Value, Reply>> {
    let Some(innermost) = open.last_mut() else {
        return Ok(Err(Reply::Nil));
    };
    match innermost.next()? {
        Some(value) => Ok(Ok(value)),
        None => Ok(Err(open.pop().map_or(Reply::Nil, Open::close))),
    }
}

fn begin(value: &Value, resp3: bool, left: &mut usize) -> mlua::Result<Begun> {
    let mut spend = |bytes: usize| {
        *left = left
            .checked_sub(bytes + size_of::<Reply>())
            .ok_or_else(|| Error::MemoryError(String::new()))?;
        Ok::<_, Error>(())
    };
    let table = match value {
        Value::String(text) => {
            let text = text.as_bytes();
            spend(text.len())?;
            return Ok(Begun::Whole(Reply::Bulk(Blob::new(&text))));
        }
        Value::Table(table) => table,
        other => {
            spend(0)?;
            return Ok(Begun::Whole(scalar(other, resp3).unwrap_or(Reply::Nil)));
        }
    };
    spend(0)?;
    if let Value::String(text) = table.raw_get("err")? {
        spend(text.as_bytes().len())?;
        let error = ErrorReply::from_c_text(&text.as_bytes());
        return Ok(Begun::Whole(Reply::Error(error)));
    }
    if let Value::String(text) = table.raw_get("ok")? {
        spend(text.as_bytes().len())?;
        return Ok(Begun::Whole(Reply::Status(one_line(c_text(&text)))));
    }
    match table.raw_get("double")? {
        Value::Number(number) => return Ok(Begun::Whole(Reply::Double(number))),
        Value::Integer(number) => return Ok(Begun::Whole(Reply::Double(number as f64))),
        _ => {}
    }
    if let Value::Table(map) = table.raw_get("map")? {
        return Ok(Begun::Open(Open::Map {
            pairs: Pairs::of(map)?,
            key: None,
            value: Value::Nil,
            done: Vec::new(),
        }));
    }
    if let Value::Table(set) = table.raw_get("set")? {
        return Ok(Begun::Open(Open::Set {
            pairs: Pairs::of(set)?,
            items: Vec::new(),
        }));
    }
    if let Value::String(digits) = table.raw_get("big_number")? {
        spend(digits.as_bytes().len())?;
        return Ok(Begun::Whole(Reply::BigNumber(one_line(
            digits.as_bytes().to_vec(),
        ))));
    }
    if let Value::Table(parts) = table.raw_get("verbatim_string")?
        && let Value::String(format) = parts.raw_get("format")?
        && let Value::String(body) = parts.raw_get("string")?
    {
        spend(body.as_bytes().len())?;
        return Ok(Begun::Whole(verbatim(&format, &body)));
    }
    Ok(Begun::Open(Open::Array {
        table: table.clone(),
        items: Vec::new(),
    }))
}

/// Replaces line breaks by spaces.
fn one_line(mut text: Vec<u8>) -> Vec<u8> {
    text.iter_mut()
        .filter(|byte| matches!(byte, b'\r' | b'\n'))
        .for_each(|byte| *byte = b' ');
    text
}

fn verbatim(format: &LuaString, body: &LuaString) -> Reply {
    let mut letters = *b"   ";
    letters
        .iter_mut()
        .zip(format.as_bytes().iter())
        .for_each(|(to, from)| *to = *from);
    Reply::Verbatim {
        format: letters,
        text: body.as_bytes().to_vec(),
    }
}
