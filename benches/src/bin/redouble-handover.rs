//! `redouble-handover`: the cost of a lock, and the time from one holder to the next.

use clap::Parser;
use redouble_benches::handover::{Cost, Way, contest, cost};
use redouble_benches::process::Program;
use redouble_benches::{Result, machine};
use serde_json::json;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Measures the locks of redouble-lock on a real Redis and on the double, both over loopback.
///
/// First a cycle (acquire, release) as a multiple of SET NX PX and EVALSHA on the same connection, and a
/// cycle with a watchdog as a multiple of one without. Then the hand-over: several clients contend for one
/// lock. It is the time from the start of a release to the next grant. Needs Linux and release builds of both
/// programs:
///
///     cargo build --release -p redouble -p redouble-benches --features redouble/cli
#[derive(Parser)]
#[command(
    name = "redouble-handover",
    version,
    max_term_width = 100,
    verbatim_doc_comment
)]
struct Cli {
    /// The real server.
    #[arg(long, value_name = "PATH", default_value = "redis-server")]
    redis_server: PathBuf,
    /// The `redouble` program [default: the one beside this program].
    #[arg(long, value_name = "PATH")]
    redouble: Option<PathBuf>,
    /// Rounds of the first part; the median counts.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seconds for each contest.
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Number of clients that contend for the lock; may be given several times.
    #[arg(long, value_name = "N", default_values_t = [2, 16, 128], value_parser = clap::value_parser!(u16).range(1..=1000))]
    waiters: Vec<u16>,
    /// Write the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "redouble-handover: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let double = match &cli.redouble {
        Some(path) => Program::Redouble(path.clone()),
        None => Program::redouble_beside_this()?,
    };
    let servers = [
        ("Redis", Program::Redis(cli.redis_server.clone()).start()?),
        ("redouble", double.start()?),
    ];
    let machine = machine::facts();
    let (mut cycles, mut contests) = (Vec::new(), Vec::new());
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "| one client, cycles | raw commands | mutex | over raw | with a watchdog | over without |"
    )?;
    writeln!(out, "|---|--:|--:|--:|--:|--:|")?;
    for (name, server) in &servers {
        let url = format!("redis://{}", server.addr());
        let Cost {
            raw,
            mutex,
            watched,
            over_raw,
            over_mutex,
        } = cost(&url, usize::from(cli.rounds))?;
        writeln!(
            out,
            "| {name} | {raw:.0}/s | {mutex:.0}/s | {over_raw:.2}x | {watched:.0}/s | {over_mutex:.2}x |"
        )?;
        cycles.push(json!({
            "server": name,
            "raw": raw.round(),
            "mutex": mutex.round(),
            "over_raw": over_raw,
            "with_a_watchdog": watched.round(),
            "over_without": over_mutex,
        }));
    }
    writeln!(
        out,
        "\n| waiters | lock | server | hand-overs | p50 | p99 | fairness |"
    )?;
    writeln!(out, "|--:|---|---|--:|--:|--:|--:|")?;
    for waiters in &cli.waiters {
        for way in Way::ALL {
            for (name, server) in &servers {
                let url = format!("redis://{}", server.addr());
                let seen = contest(
                    &url,
                    way,
                    usize::from(*waiters),
                    Duration::from_secs(cli.seconds),
                )?;
                writeln!(
                    out,
                    "| {waiters} | {} | {name} | {:.0}/s | {} us | {} us | {:.2} |",
                    way.name(),
                    seen.per_second,
                    seen.p50_us,
                    seen.p99_us,
                    seen.fairness
                )?;
                out.flush()?;
                contests.push(json!({
                    "waiters": waiters,
                    "lock": way.name(),
                    "server": name,
                    "per_second": seen.per_second.round(),
                    "p50_us": seen.p50_us,
                    "p99_us": seen.p99_us,
                    "fairness": seen.fairness,
                }));
            }
        }
    }
    if let Some(path) = &cli.json {
        let figures = json!({ "machine": machine, "cycles": cycles, "contests": contests });
        std::fs::write(path, format!("{figures:#}\n"))?;
    }
    Ok(())
}
