//! `redouble-check`, the program of the suite.

mod cli;

use clap::Parser;
use redouble_conformance::simulation;
use std::{io, panic, process::ExitCode};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |it| {
        // The report shows the panics of a lock under test.
        if !simulation::is_playing() {
            usual(it);
        }
    }));
    cli::run(cli::Cli::parse(), &mut io::stdout())
}
