//! Lua: virtual machines for scripts and for libraries of functions, and the environment that scripts see.
//!
//! `vm/` runs texts. `sandbox/` and `library/` are the native functions that scripts can call, `prelude.lua` is the rest
//! of their environment. `reuse.rs` and `template.rs` find out from a text what it does not do, so that it runs faster.
//! A script reaches its node through [`Host`] alone; nothing here knows commands, sessions or the state of a node.

mod convert;
mod host;
mod library;
mod natives;
mod pattern;
mod returned;
mod reuse;
mod sandbox;
mod slot;
mod source;
mod template;
mod vm;

pub(in crate::engine) use convert::Digits;
pub(in crate::engine) use host::{Host, Tick};
pub(in crate::engine) use slot::{CallbackId, Registered};
pub(in crate::engine) use vm::{
    Ended, FunctionId, LIBRARY_NAME, LibraryVm, LoadError, SCRIPT_NAME, Vm, VmOptions,
};
