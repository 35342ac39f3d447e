//! `math.random` and `math.randomseed`, with the generator of Redis, so that a script draws the
//! same numbers on every machine.

use super::super::host::Host;
use super::super::slot::{SharedSlot, lock};
use super::args::Args;
use super::raise::raise_here;
use mlua::{Lua, MultiValue, Table};
use std::sync::Arc;

/// The 48-bit generator of `rand.c`, the same as `lrand48`.
fn seeded(seed: i32) -> u64 {
    (u64::from(seed.cast_unsigned()) << 16) | 0x330e
}

fn draw(state: &mut u64) -> f64 {
    const MAX: u64 = i32::MAX as u64;
    *state = state.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
    let bits = (*state >> 17) % MAX;
    bits as f64 / MAX as f64
}

/// Adds both functions.
pub(in crate::engine::script) fn randoms<H: Host>(
    lua: &Lua,
    slot: &SharedSlot<H>,
    natives: &Table,
) -> mlua::Result<()> {
    let shared = Arc::clone(slot);
    let random = move |lua: &Lua, values: MultiValue| {
        let unit = draw(lock(&shared).random_state());
        let args = Args::new(lua, &shared, "random", values);
        let (low, high) = match args.values.len() {
            0 => return Ok(unit),
            1 => (1, args.integer(0)? as i32),
            2 => (args.integer(0)? as i32, args.integer(1)? as i32),
            _ => return Err(raise_here(lua, &shared, "wrong number of arguments")),
        };
        if low > high {
            return Err(args.wrong(args.values.len() - 1, "interval is empty"));
        }
        let span = if args.values.len() == 1 {
            high
        } else {
            high.wrapping_sub(low).wrapping_add(1)
        };
        Ok((unit * f64::from(span)).floor() + f64::from(low))
    };
    natives.raw_set("random", lua.create_function(random)?)?;

    let shared = Arc::clone(slot);
    let randomseed = move |lua: &Lua, values: MultiValue| {
        let seed = Args::new(lua, &shared, "randomseed", values).integer(0)?;
        *lock(&shared).random_state() = seeded(seed as i32);
        Ok(())
    };
    natives.raw_set("randomseed", lua.create_function(randomseed)?)
}
