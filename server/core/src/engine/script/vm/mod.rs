//! Lua 5.1 virtual machines: one for scripts, and one for libraries of functions.

mod entry;
mod library;
mod machine;

pub(in crate::engine) use library::{LIBRARY_NAME, LibraryVm, LoadError};
pub(in crate::engine) use machine::{Ended, FunctionId, SCRIPT_NAME, Vm, VmOptions};
