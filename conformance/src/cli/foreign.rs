//! `redouble-check foreign`: judges a lock of another language.

use super::{Fallible, place::Where, progress, reports::Reports, select, values::duration};
use clap::Args;
use redouble_conformance::{
    backend::{Backend, WallClock},
    report::terminal,
    runner::{Outcome, Plan, run_trial},
    subject::{self, DynSubject, Expected},
};
use std::{
    ffi::OsString,
    io::Write,
    time::{Duration, Instant},
};

pub(super) const HELP: &str = "\
Judges a lock of another language.

The command after -- starts an adapter: a program that reads requests from its standard input, carries
them out with the lock under test, and answers on its standard output, one JSON object a line. The suite
starts it once for each client process of a scenario. conformance/ADAPTER.md describes the lines, and
conformance/examples/adapters has complete adapters for Python (redis-py) and Node (redlock). A lock is a mutex,
a read-write lock, a semaphore, a counter that lets the first few in, or a latch; the first line says which:

  redouble-check foreign -- python3 conformance/examples/adapters/redis_py_lock.py

First two adapters acquire the lock in turns, without any fault. If that fails, the command prints the
reason and does not judge the lock. Then it plays scenarios in real time with short leases. It stops a
process (SIGSTOP) to pause it, and kills it (SIGKILL) to crash it. Processes reach the servers through
ports of the suite, which delays, cuts and separates connections. Faults of client clocks are not played,
because all processes share the machine's clock.

In real time scenarios are not reduced, and two runs of a seed differ by microseconds: a failing scenario
is shown as it was played.

Exit code 0: the lock keeps its promises. 1: it does not. 2: wrong usage, it could not run, or the adapter ended by itself.";

#[derive(Args)]
pub(super) struct Foreign {
    /// Number of seeds to try.
    #[arg(long, value_name = "N", default_value_t = 96)]
    seeds: u64,
    /// The first seed.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// The lease in milliseconds. With a short one the run is over sooner, but a busy machine spoils more runs.
    #[arg(long, value_name = "MS", default_value_t = 400, value_parser = clap::value_parser!(u64).range(60..=60_000))]
    lease: u64,
    /// Number of scenarios to play at the same time.
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: usize,
    /// Play only scenarios with one of these faults and no other (see --list).
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    fault: Vec<String>,
    /// Judge only these properties, by id or name, as in P1 or "lease exclusion".
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    property: Vec<String>,
    #[command(flatten)]
    place: Where,
    /// Begin no run after this time, as in 90s or 15m.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    #[command(flatten)]
    reports: Reports,
    /// The command that starts the adapter.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn run(args: &Foreign, out: &mut impl Write) -> Fallible<bool> {
    let backend = WallClock::new(args.place.open()?, args.lease);
    let properties = select::properties(&args.property)?;
    let faults = select::faults(&args.fault)?;
    let rehearsal = progress::waiting("the adapter starts, and rehearses without faults");
    let lock = subject::Foreign::start(&args.command);
    rehearsal.finish_and_clear();
    let lock = lock.map_err(told)?;
    let plan = Plan {
        seeds: args.seed..args.seed.saturating_add(args.seeds),
        jobs: args.jobs.max(1),
        faults,
        properties,
        until: args.time.map(|time| Instant::now() + time),
        ..Plan::quick(&backend)
    };
    let name = lock.name();
    writeln!(
        out,
        "{name} on {}, seeds {} to {}; the rehearsal went well",
        backend.name(),
        plan.seeds.start,
        plan.seeds.end.saturating_sub(1)
    )?;
    if let Some(why) = lock.unobservable() {
        write!(out, "{}", terminal::not_judged(name, why))?;
    }
    let bar = progress::bar(name, Some(args.seeds));
    let trial = run_trial(&lock, Expected::Sound, &backend, &plan, &|n| bar.inc(n));
    bar.finish_and_clear();
    let trial = trial?;
    writeln!(out, "\n{}\n", terminal::line(&trial, name.len()))?;
    terminal::counterexamples(out, &trial)?;
    let trials = [trial];
    terminal::coverage(out, &trials)?;
    args.reports.write_pages(&trials, out)?;
    let [trial] = trials;
    if trial.coverage.runs == 0 {
        return Err("no scenario could be played".into());
    }
    Ok(trial.outcome() != Outcome::Differs)
}

/// Returns an error with its sources.
fn told(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
