//! The entry points of a script: how its arguments get to the Lua heap.

use super::Script;
use crate::resp::Request;
use mlua::{Either, Function, IntoLuaMulti, Lua, LuaString, MultiValue, Table, Value, Variadic};

/// Limit of arguments that are passed on the Lua stack; more are passed in tables.
const STACK_ARGS_MAX: usize = 64;
/// Limit of keys for which there is a special entry point.
const KEYS_MAX: usize = 2;
/// Limit of ARGV elements for which a script that only reads its arguments gets reused tables.
const SAME_ARGV_MAX: usize = 4;

/// The entry points: by number of keys, with new tables; by number of keys and of other arguments,
/// with reused tables; and with tables that are created here.
pub(super) struct Entries {
    new: [Function; KEYS_MAX + 1],
    same: Vec<Function>,
    tables: Function,
    /// Compiles a text; not an entry point of a script.
    pub(super) compile: Function,
}

impl Entries {
    pub(super) fn of(prelude: &Table) -> mlua::Result<Self> {
        let new = |keys: u8| prelude.raw_get(format!("run{keys}"));
        let same: Table = prelude.raw_get("again")?;
        Ok(Self {
            new: [new(0)?, new(1)?, new(2)?],
            same: same.sequence_values().collect::<mlua::Result<_>>()?,
            tables: prelude.raw_get("run")?,
            compile: prelude.raw_get("compile")?,
        })
    }

    /// Runs a script with arguments `first_key..first_key + keys` of `request` as KEYS, the rest as ARGV.
    pub(super) fn enter(
        &self,
        lua: &Lua,
        script: &Script,
        request: Request<'_>,
        first_key: usize,
        keys: usize,
        bytes_max: usize,
    ) -> mlua::Result<(bool, Value)> {
        let count = request.len().saturating_sub(first_key);
        let function = &script.function;
        let limit = MemoryLimit(bytes_max);
        if keys <= KEYS_MAX && keys <= count && count <= STACK_ARGS_MAX {
            let arg = |index: usize| pass(lua, request.arg(first_key + index).unwrap_or_default());
            let others = count - keys;
            if script.only_reads_arguments && others <= SAME_ARGV_MAX {
                let key = |nth: usize| (nth < keys).then(|| arg(nth)).transpose();
                let other = |nth: usize| (nth < others).then(|| arg(keys + nth)).transpose();
                let keys_given = (key(0)?, key(1)?);
                return self.same[keys * (SAME_ARGV_MAX + 1) + others].call((
                    function,
                    keys_given.0,
                    keys_given.1,
                    other(0)?,
                    other(1)?,
                    other(2)?,
                    other(3)?,
                    limit,
                ));
            }
            let entry = &self.new[keys];
            return match count {
                0 => entry.call((function, limit)),
                1 => entry.call((function, arg(0)?, limit)),
                2 => entry.call((function, arg(0)?, arg(1)?, limit)),
                3 => entry.call((function, arg(0)?, arg(1)?, arg(2)?, limit)),
                4 => entry.call((function, arg(0)?, arg(1)?, arg(2)?, arg(3)?, limit)),
                5 => entry.call((function, arg(0)?, arg(1)?, arg(2)?, arg(3)?, arg(4)?, limit)),
                _ => {
                    let rest: Variadic<_> = (0..count).map(arg).collect::<mlua::Result<_>>()?;
                    lua.set_memory_limit(bytes_max)?;
                    entry.call((function, rest))
                }
            };
        }
        let table = |from: usize, to: usize| -> mlua::Result<Table> {
            let table = lua.create_table_with_capacity(to.saturating_sub(from), 0)?;
            for index in from..to {
                table.raw_set(
                    index - from + 1,
                    lua.create_string(request.arg(index).unwrap_or_default())?,
                )?;
            }
            Ok(table)
        };
        let middle = (first_key + keys).min(request.len());
        let (keys, argv) = (table(first_key, middle)?, table(middle, request.len())?);
        self.tables.call((function, keys, argv, limit))
    }
}

/// The last argument or result. It has no value, and turns the memory limit on.
///
/// With a memory limit mlua pushes every string in a protected call, which is slow. So the limit is
/// off while values are passed, and this follows the last of them.
pub(crate) struct MemoryLimit(pub(crate) usize);

impl IntoLuaMulti for MemoryLimit {
    fn into_lua_multi(self, lua: &Lua) -> mlua::Result<MultiValue> {
        lua.set_memory_limit(self.0)?;
        Ok(MultiValue::new())
    }
}

/// Passes bytes to the VM. Strings in UTF-8 need no reference.
fn pass<'a>(lua: &Lua, bytes: &'a [u8]) -> mlua::Result<Either<&'a str, LuaString>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Either::Left(text)),
        Err(_) => lua.create_string(bytes).map(Either::Right),
    }
}
