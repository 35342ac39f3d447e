//! `redouble-scenarios`: the number of scenarios that the suite plays and judges per second of one core.

use clap::Parser;
use redouble_benches::arithmetic::median;
use redouble_benches::scenarios::{SHAPES, pace, subject};
use redouble_benches::{Result, machine};
use serde_json::json;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Plays scenarios of redouble-check on one thread and prints the rate: the whole simulation with real Lua,
/// and every history judged by all checkers. Only the seconds count for which the thread had a core.
#[derive(Parser)]
#[command(name = "redouble-scenarios", version, max_term_width = 100)]
struct Cli {
    /// The lock to play with, one of redouble-lock.
    #[arg(long, value_name = "NAME", default_value = "mutex")]
    lock: String,
    /// Rounds; the median counts.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seconds for each round.
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Write the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// End with exit code 1 if a figure misses its target.
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "redouble-scenarios: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> Result<bool> {
    let lock = subject(&cli.lock)?;
    let machine = machine::facts();
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "| scenarios with {} | per core-second | lowest | highest | grants | steps | to reach |",
        cli.lock
    )?;
    writeln!(out, "|---|--:|--:|--:|--:|--:|--:|")?;
    let (mut seeds, mut enough) = (0, true);
    let mut shapes = Vec::new();
    for shape in SHAPES {
        let mut rates = Vec::new();
        let (mut grants, mut steps) = (0.0, 0.0);
        for _ in 0..cli.rounds {
            let round = Duration::from_secs(cli.seconds);
            let pace = pace(shape, &*lock, &mut seeds, round)?;
            rates.push(pace.per_second);
            (grants, steps) = (pace.grants, pace.steps);
        }
        let rate = median(&rates);
        enough &= shape.per_second_min.is_none_or(|min| rate >= min);
        let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = rates.iter().copied().fold(0.0, f64::max);
        let target = shape
            .per_second_min
            .map_or_else(|| "-".to_owned(), |min| format!("{min:.0}"));
        writeln!(
            out,
            "| {} | {rate:.0} | {lowest:.0} | {highest:.0} | {grants:.0} | {steps:.0} | {target} |",
            shape.title
        )?;
        out.flush()?;
        shapes.push(json!({
            "title": shape.title,
            "per_second": rate.round(),
            "target": shape.per_second_min,
        }));
    }
    if let Some(path) = &cli.json {
        let figures = json!({ "machine": machine, "lock": cli.lock, "shapes": shapes });
        std::fs::write(path, format!("{figures:#}\n"))?;
    }
    Ok(enough || !cli.check)
}
