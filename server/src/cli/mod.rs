//! The program: command line, exit codes and error messages.

mod group;
mod options;
mod proxy;
mod run;
mod serve;
mod signals;
mod start;
mod topology;

use options::{Cli, Command};
use std::io::Write as _;
use std::process::ExitCode;

/// An error message for the user.
type Error = Box<dyn std::error::Error>;

pub(crate) fn main() -> ExitCode {
    match Cli::read().command {
        Command::Serve(options) => match serve::serve(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(1, &error.to_string()),
        },
        Command::Proxy(options) => match proxy::proxy(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(1, &error.to_string()),
        },
        Command::Run(options) => match run::run(&options) {
            Ok(code) => ExitCode::from(code),
            Err(failure) => fail(failure.code, &failure.text),
        },
    }
}

fn fail(code: u8, text: &str) -> ExitCode {
    let _closed = writeln!(std::io::stderr(), "redouble: {text}");
    ExitCode::from(code)
}
