//! `redouble-check`, the program of the suite.

mod cli;

use clap::Parser;
use std::{io, process::ExitCode};

fn main() -> ExitCode {
    cli::run(cli::Cli::parse(), &mut io::stdout())
}
