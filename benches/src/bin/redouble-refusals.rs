//! `redouble-refusals`: the time of Redis for a refused request, by the number of holders.

use clap::Parser;
use redouble_benches::Result;
use redouble_benches::process::Program;
use redouble_benches::refusals::{Held, refused_us};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measures the time of a real Redis for a refused request to a lock with many holders.
///
/// The figure is `usec_per_call` of EVALSHA in `INFO commandstats`, so it contains neither the network nor the client. With `--check`
/// the program ends with exit code 1 if a figure reaches the limit.
#[derive(Parser)]
#[command(name = "redouble-refusals", version, max_term_width = 100)]
struct Cli {
    /// The real server.
    #[arg(long, value_name = "PATH", default_value = "redis-server")]
    redis_server: PathBuf,
    /// Number of holders; may be given several times.
    #[arg(long, value_name = "N", default_values_t = [1, 10, 100, 1000], value_parser = clap::value_parser!(u32).range(1..=100_000))]
    holders: Vec<u32>,
    /// Refused requests for each figure.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Limit in microseconds for each figure.
    #[arg(long, value_name = "US")]
    check: Option<f64>,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "redouble-refusals: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns false if a figure reaches the limit.
fn run(cli: &Cli) -> Result<bool> {
    let server = Program::Redis(cli.redis_server.clone()).start()?;
    let url = format!("redis://{}", server.addr());
    let mut out = std::io::stdout().lock();
    writeln!(out, "| refused request | holders | time of Redis |")?;
    writeln!(out, "|---|--:|--:|")?;
    let mut within = true;
    for held in Held::ALL {
        for holders in &cli.holders {
            let us = refused_us(&url, held, *holders, cli.requests)?;
            writeln!(out, "| {} | {holders} | {us:.1} us |", held.name())?;
            within &= cli.check.is_none_or(|limit| us < limit);
        }
    }
    Ok(within)
}
