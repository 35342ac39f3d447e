//! `redouble`: the double as a program, for clients of any language.

mod cli;

use std::process::ExitCode;

/// Lua's garbage collector frees and allocates memory in every cycle. The allocator of the C
/// library returns such memory to the kernel each time. Redis also brings an allocator of its own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
