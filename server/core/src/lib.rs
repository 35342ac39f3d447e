//! The state machine of [redouble](https://docs.rs/redouble), a test double for Redis: the protocol, the commands, the
//! data, and scripts in real Lua 5.1. It has no socket, no timer, no clock and no randomness of its own.
//!
//! Use `redouble`: it has servers, clocks and faults, and it exports from here what its users need. This crate is apart so that
//! cargo can build it beside `tokio` and `redis`, which it does not need. Items that `redouble` does not export may change with
//! any version.

pub mod command;
#[cfg_attr(
    not(feature = "script"),
    expect(dead_code, reason = "scripts use parts of the engine")
)]
pub mod engine;
pub mod resp;

pub use command::{command_names, command_names_of, missing_command_names};
pub use engine::{Profile, parameters_without_effect};

/// The version of Redis that the double imitates unless told otherwise; its replies were compared with it byte for byte.
pub const REDIS_VERSION: &str = "7.0.15";
