//! The native half of a script's environment: `redis`, patterns, random numbers, and errors with a
//! line.
//!
//! The other half is `prelude.lua`. A native function that fails stores an error *value* in the
//! slot and raises a token. `pcall`, `xpcall`, `coroutine.resume` and the end of the run, which are
//! all ours, exchange the token for the value. After a stop the exchange raises again, so no script
//! can catch a stop. Knows no command.

mod args;
mod call;
mod errors;
mod frame;
mod raise;
mod random;
mod redis;
mod register;
mod text;

pub(super) use args::Args;
pub(super) use call::template_calls;
pub(super) use errors::errors;
pub(super) use frame::script_line;
pub(super) use raise::{NO_MEMORY, out_of_memory, problem_text, token};
pub(super) use random::randoms;
pub(super) use redis::redis;
pub(super) use register::registration;
pub(super) use text::texts;
