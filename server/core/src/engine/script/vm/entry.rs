//! The entry points of a script: how its arguments get to the Lua heap.

use super::super::convert::{MemoryLimit, pass};
use super::super::template::Input;
use crate::resp::Request;
use mlua::{Function, Lua, Table, Value, Variadic};

/// Limit of arguments that are passed on the Lua stack; more are passed in tables.
const STACK_ARGS_MAX: usize = 64;
/// Limit of keys for which there is a special entry point.
const KEYS_MAX: usize = 2;
/// Limit of ARGV elements for which a script that only reads its arguments gets reused tables.
const SAME_ARGV_MAX: usize = 4;

/// A compiled script.
pub(super) struct Script {
    pub(super) function: Function,
    pub(super) sha: Box<str>,
    /// Line 1, if the text has no other.
    pub(super) only_line: Option<usize>,
    pub(super) only_reads_arguments: bool,
    /// True if the compiled text names KEYS.
    pub(super) names_keys: bool,
    /// True if it names ARGV.
    pub(super) names_argv: bool,
    /// True if the script runs without a memory limit and returns one value (see `reuse.rs`).
    pub(super) is_small: bool,
    /// Elements of KEYS and ARGV that its templates name.
    pub(super) inputs: Vec<Input>,
}

/// The entry points: by number of keys, with new tables; by number of keys and of other arguments,
/// with reused tables; and with tables that are created here.
pub(super) struct Entries {
    new: [Function; KEYS_MAX + 1],
    same: Vec<Function>,
    /// Entry points of small scripts, by number of elements of ARGV.
    small: Vec<Function>,
    tables: Function,
    /// Compiles a text; not an entry point of a script.
    pub(super) compile: Function,
}

impl Entries {
    pub(super) fn of(prelude: &Table) -> mlua::Result<Self> {
        let new = |keys: u8| prelude.raw_get(format!("run{keys}"));
        let list = |name: &str| -> mlua::Result<Vec<Function>> {
            let list: Table = prelude.raw_get(name)?;
            list.sequence_values().collect()
        };
        Ok(Self {
            new: [new(0)?, new(1)?, new(2)?],
            same: list("again")?,
            small: list("small")?,
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
        let limit = MemoryLimit((!script.is_small).then_some(bytes_max));
        let arg = |index: usize| pass(lua, request.arg(first_key + index).unwrap_or_default());
        if script.only_reads_arguments && keys <= count {
            // Elements that only commands get do not pass through Lua.
            let keys_read = if script.names_keys { keys } else { 0 };
            let others = if script.names_argv { count - keys } else { 0 };
            if script.is_small && !script.names_keys && others <= SAME_ARGV_MAX {
                let other = |nth: usize| arg(keys + nth);
                let entry = &self.small[others];
                return match others {
                    0 => entry.call(function),
                    1 => entry.call((function, other(0)?)),
                    2 => entry.call((function, other(0)?, other(1)?)),
                    3 => entry.call((function, other(0)?, other(1)?, other(2)?)),
                    _ => entry.call((function, other(0)?, other(1)?, other(2)?, other(3)?)),
                };
            }
            if keys_read <= KEYS_MAX && others <= SAME_ARGV_MAX {
                let key = |nth: usize| (nth < keys_read).then(|| arg(nth)).transpose();
                let other = |nth: usize| (nth < others).then(|| arg(keys + nth)).transpose();
                return self.same[keys_read * (SAME_ARGV_MAX + 1) + others].call((
                    function,
                    key(0)?,
                    key(1)?,
                    other(0)?,
                    other(1)?,
                    other(2)?,
                    other(3)?,
                    limit,
                ));
            }
        }
        if keys <= KEYS_MAX && keys <= count && count <= STACK_ARGS_MAX {
            let entry = &self.new[keys];
            return match count {
                0 => entry.call((function, limit)),
                1 => entry.call((function, arg(0)?, limit)),
                2 => entry.call((function, arg(0)?, arg(1)?, limit)),
                3 => entry.call((function, arg(0)?, arg(1)?, arg(2)?, limit)),
                4 => entry.call((function, arg(0)?, arg(1)?, arg(2)?, arg(3)?, limit)),
                5 => entry.call((function, arg(0)?, arg(1)?, arg(2)?, arg(3)?, arg(4)?, limit)),
                _ => {
                    // The strings are made before the limit is on.
                    let text = |index: usize| {
                        lua.create_string(request.arg(first_key + index).unwrap_or_default())
                    };
                    let rest: Variadic<_> = (0..count).map(text).collect::<mlua::Result<_>>()?;
                    lua.set_memory_limit(limit.0.unwrap_or(0))?;
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
