//! `redouble`: the double as a program, for clients of any language.

mod cli;

use std::process::ExitCode;

/// The C library's allocator gives memory back to the kernel and takes it again with every cycle of
/// Lua's collector; Redis brings an allocator of its own for such reasons.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
