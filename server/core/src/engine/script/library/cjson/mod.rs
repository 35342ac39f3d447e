//! `cjson`: converts Lua values to JSON and back, with settings (lua-cjson 2.1.0).

mod decode;
mod encode;
mod number;

use super::super::host::Host;
use super::super::sandbox::Args;
use super::super::slot::{SharedSlot, lock};
use super::tools::{Fault, Tools, add, budgeted};
use crate::engine::scripting::{InvalidNumbers, Settings};
use mlua::{IntoLuaMulti, Lua, Table, Value};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

/// Cost of `cjson.new`, in instructions.
const NEW_COST: u64 = 2_000;

/// The owner of the settings that a table of functions uses.
enum Holder<H> {
    /// The node: settings of the global `cjson`, which all scripts share.
    Node(SharedSlot<H>),
    /// The table itself: settings of an instance that `cjson.new` created.
    Own(Arc<Mutex<Settings>>),
}

impl<H> Clone for Holder<H> {
    fn clone(&self) -> Self {
        match self {
            Self::Node(slot) => Self::Node(Arc::clone(slot)),
            Self::Own(settings) => Self::Own(Arc::clone(settings)),
        }
    }
}

impl<H: Host> Holder<H> {
    fn with<R>(&self, work: impl FnOnce(&mut Settings) -> R) -> R {
        match self {
            Self::Node(slot) => work(lock(slot).settings()),
            Self::Own(settings) => {
                work(&mut settings.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    fn read(&self) -> Settings {
        self.with(|settings| *settings)
    }
}

/// The argument at `index`, unless it is missing or nil.
fn given<'a, H>(args: &'a Args<'_, H>, index: usize) -> Option<&'a Value> {
    args.values.get(index).filter(|value| !value.is_nil())
}

fn at_most<H>(args: &Args<'_, H>, count: usize) -> Result<(), Fault> {
    if args.values.len() > count {
        return Err(args.wrong(count, "found too many arguments").into());
    }
    Ok(())
}

/// Reads one of the words; returns its index. `true` means the second word and `false` the first.
fn option<H>(args: &Args<'_, H>, index: usize, words: &[&str]) -> Result<Option<usize>, Fault> {
    match given(args, index) {
        None => Ok(None),
        Some(Value::Boolean(value)) => Ok(Some(usize::from(*value))),
        Some(_) => {
            let text = args.text(index)?;
            let word = super::super::convert::c_text(&text);
            match words.iter().position(|known| known.as_bytes() == word) {
                Some(found) => Ok(Some(found)),
                None => {
                    let what = [&b"invalid option '"[..], &word, b"'"].concat();
                    Err(args.wrong_bytes(index, &what).into())
                }
            }
        }
    }
}

const SWITCH: &[&str] = &["off", "on"];

/// Reads an integer within bounds. The C code reports a wrong argument number, and so does this.
fn integer<H>(args: &Args<'_, H>, index: usize, min: i32, max: i32) -> Result<Option<i32>, Fault> {
    if given(args, index).is_none() {
        return Ok(None);
    }
    let value = args.integer(index)? as i32;
    if (min..=max).contains(&value) {
        return Ok(Some(value));
    }
    let what = format!("expected integer between {min} and {max}");
    Err(args.wrong(0, &what).into())
}

/// Adds a function that sets an integer within bounds.
fn add_integer<H: Host>(
    own: &Own<'_, H>,
    name: &'static str,
    bounds: RangeInclusive<i32>,
    field: fn(&mut Settings) -> &mut i32,
) -> mlua::Result<()> {
    let holder = own.holder.clone();
    own.add(name, move |_, args| {
        at_most(args, 1)?;
        let value = integer(args, 0, *bounds.start(), *bounds.end())?;
        Ok(holder.with(|all| {
            let field = field(all);
            *field = value.unwrap_or(*field);
            *field
        }))
    })
}

/// Adds a function that sets a switch.
fn add_switch<H: Host>(
    own: &Own<'_, H>,
    name: &'static str,
    field: fn(&mut Settings) -> &mut bool,
) -> mlua::Result<()> {
    let holder = own.holder.clone();
    own.add(name, move |_, args| {
        at_most(args, 1)?;
        let value = option(args, 0, SWITCH)?;
        Ok(holder.with(|all| {
            let field = field(all);
            *field = value.map_or(*field, |value| value == 1);
            *field
        }))
    })
}

fn add_sparse_array<H: Host>(own: &Own<'_, H>) -> mlua::Result<()> {
    let holder = own.holder.clone();
    own.add("encode_sparse_array", move |_, args| {
        at_most(args, 3)?;
        // A valid first argument takes effect even if the second one is invalid.
        let convert = option(args, 0, SWITCH)?;
        holder.with(|all| all.sparse_convert = convert.map_or(all.sparse_convert, |on| on == 1));
        let ratio = integer(args, 1, 0, i32::MAX)?;
        holder.with(|all| all.sparse_ratio = ratio.unwrap_or(all.sparse_ratio));
        let safe = integer(args, 2, 0, i32::MAX)?;
        Ok(holder.with(|all| {
            all.sparse_safe = safe.unwrap_or(all.sparse_safe);
            (all.sparse_convert, all.sparse_ratio, all.sparse_safe)
        }))
    })
}

fn add_encode_invalid_numbers<H: Host>(own: &Own<'_, H>) -> mlua::Result<()> {
    let holder = own.holder.clone();
    own.add("encode_invalid_numbers", move |lua, args| {
        at_most(args, 1)?;
        let value = option(args, 0, &["off", "on", "null"])?;
        let now = holder.with(|all| {
            match value {
                Some(0) => all.encode_invalid = InvalidNumbers::Refuse,
                Some(1) => all.encode_invalid = InvalidNumbers::Write,
                Some(_) => all.encode_invalid = InvalidNumbers::Null,
                None => {}
            }
            all.encode_invalid
        });
        Ok(match now {
            InvalidNumbers::Refuse => Value::Boolean(false),
            InvalidNumbers::Write => Value::Boolean(true),
            InvalidNumbers::Null => Value::String(lua.create_string("null")?),
        })
    })
}

/// A `cjson` instance under construction.
struct Own<'a, H> {
    lua: &'a Lua,
    slot: &'a SharedSlot<H>,
    tools: &'a Arc<Tools>,
    table: Table,
    holder: Holder<H>,
}

impl<H: Host> Own<'_, H> {
    fn add<R: IntoLuaMulti>(
        &self,
        name: &'static str,
        body: impl Fn(&Lua, &Args<'_, H>) -> Result<R, Fault> + Send + 'static,
    ) -> mlua::Result<()> {
        add(self.lua, self.slot, &self.table, name, body)
    }

    /// Adds the functions in the order of the C library, which is the order of `next`.
    fn fill(self) -> mlua::Result<Table> {
        let (holder, tools) = (self.holder.clone(), Arc::clone(self.tools));
        self.add("encode", move |lua, args| {
            let (1, Some(value)) = (args.values.len(), args.values.front()) else {
                return Err(args.wrong(0, "expected 1 argument").into());
            };
            let bytes = budgeted(args, |budget| {
                encode::encode(value.clone(), holder.read(), &tools, budget)
            })?;
            Ok(lua.create_string(bytes)?)
        })?;
        let holder = self.holder.clone();
        self.add("decode", move |lua, args| {
            if args.values.len() != 1 {
                return Err(args.wrong(0, "expected 1 argument").into());
            }
            let text = args.text(0)?;
            budgeted(args, |budget| {
                decode::decode(lua, &text.as_bytes(), holder.read(), budget)
            })
        })?;
        let any = 1..=i32::MAX;
        add_sparse_array(&self)?;
        add_integer(&self, "encode_max_depth", any.clone(), |all| {
            &mut all.encode_depth_max
        })?;
        add_integer(&self, "decode_max_depth", any, |all| {
            &mut all.decode_depth_max
        })?;
        add_integer(&self, "encode_number_precision", 1..=14, |all| {
            &mut all.precision
        })?;
        add_switch(&self, "encode_keep_buffer", |all| &mut all.keep_buffer)?;
        add_encode_invalid_numbers(&self)?;
        add_switch(&self, "decode_invalid_numbers", |all| {
            &mut all.decode_invalid
        })?;
        let (slot, tools) = (Arc::clone(self.slot), Arc::clone(self.tools));
        self.add("new", move |lua, args| {
            budgeted(args, |budget| budget.spend(NEW_COST))?;
            Ok(make(lua, &slot, &tools, Holder::Own(Arc::default()))?)
        })?;
        self.table.raw_set("null", Value::NULL)?;
        self.table.raw_set("_NAME", "cjson")?;
        self.table.raw_set("_VERSION", "2.1.0")?;
        Ok(self.table)
    }
}

fn make<H: Host>(
    lua: &Lua,
    slot: &SharedSlot<H>,
    tools: &Arc<Tools>,
    holder: Holder<H>,
) -> mlua::Result<Table> {
    let own = Own {
        lua,
        slot,
        tools,
        table: lua.create_table()?,
        holder,
    };
    own.fill()
}

pub(super) fn library<H: Host>(
    lua: &Lua,
    slot: &SharedSlot<H>,
    tools: &Arc<Tools>,
) -> mlua::Result<Table> {
    make(lua, slot, tools, Holder::Node(Arc::clone(slot)))
}
