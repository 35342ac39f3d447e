//! `redouble-foreign`: the locks of redouble-lock beside Redisson (Java) and redsync (Go).

use clap::Parser;
use redouble_benches::foreign::{CONTENDERS, Programs, SHAPES, round};
use redouble_benches::process::Program;
use redouble_benches::{Result, machine};
use redouble_conformance::bench::Load;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Puts the locks of redouble-lock, Redisson and redsync under the same load, in turn, on one Redis server.
///
/// The load is that of `redouble-check bench`: each task acquires the lock, holds it, releases it and begins again, all on
/// the same key. A client has connections of its own, which its tasks share. `benches/foreign/build.sh` builds the
/// programs of the other libraries; benches/foreign/README.md describes them.
#[derive(Parser)]
#[command(
    name = "redouble-foreign",
    version,
    max_term_width = 100,
    verbatim_doc_comment
)]
struct Cli {
    /// Folder with the built programs.
    #[arg(long, value_name = "FOLDER", default_value = "target/foreign")]
    programs: PathBuf,
    /// The server.
    #[arg(long, value_name = "PATH", default_value = "redis-server")]
    redis_server: PathBuf,
    /// Rounds. In each, all locks take turns.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seconds to measure each lock in a round.
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Write the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "redouble-foreign: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let programs = Programs::in_folder(&cli.programs)?;
    let server = Program::Redis(cli.redis_server.clone()).start()?;
    let machine = machine::facts();
    let mut rows = Vec::new();
    let mut out = std::io::stdout().lock();
    for (clients, tasks) in SHAPES {
        let load = Load {
            clients,
            tasks,
            time: Duration::from_secs(cli.seconds),
            ..Load::default()
        };
        let mut rounds: Vec<Vec<Value>> = vec![Vec::new(); CONTENDERS.len()];
        for _ in 0..cli.rounds {
            for (contender, rounds) in CONTENDERS.iter().zip(&mut rounds) {
                let figures = round(contender, &load, server.addr(), &programs)
                    .map_err(|error| format!("{}: {error}", contender.name))?;
                writeln!(out, "{clients} x {tasks}  {}  {figures}", contender.name)?;
                out.flush()?;
                rounds.push(figures);
            }
        }
        rows.extend(CONTENDERS.iter().zip(rounds).map(|(contender, rounds)| {
            json!({
                "group": contender.group,
                "lock": contender.name,
                "clients": clients,
                "tasks": tasks,
                "rounds": rounds,
            })
        }));
    }
    if let Some(path) = &cli.json {
        let figures = json!({
            "machine": machine,
            "hold_us": Load::default().hold.as_micros(),
            "seconds": cli.seconds,
            "rows": rows,
        });
        std::fs::write(path, format!("{figures:#}\n"))?;
    }
    Ok(())
}
