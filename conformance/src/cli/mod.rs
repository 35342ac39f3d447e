//! The command line of the suite. It only parses, calls the library and writes.

mod bench;
mod commands;
mod foreign;
mod list;
mod locks;
mod mutants;
mod place;
mod progress;
mod replay;
mod reports;
mod select;
mod values;

use clap::{Parser, Subcommand};
use std::{
    error::Error,
    fs,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

/// Convicts bad distributed locks and clears good ones.
///
/// Plays thousands of small scenarios (clients that contend, work too long, are paused, die; links
/// that are slow or break; servers that restart, forget, have wrong clocks) with each lock and judges
/// every run by properties such as "no two owners at the same time". Without further options it
/// needs nothing but itself: the Redis is an embedded double, time is virtual, and equal seeds give
/// equal runs.
#[derive(Parser)]
#[command(
    name = "redouble-check",
    version,
    args_conflicts_with_subcommands = true,
    after_long_help = GUIDE
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    locks: locks::Locks,
}

#[derive(Subcommand)]
enum Command {
    /// Judges locks (what happens without a subcommand).
    Locks(locks::Locks),
    /// Plays one scenario and shows what happened, step by step.
    Replay(replay::Replay),
    /// Compares the double with a real Redis, command by command.
    #[command(long_about = commands::HELP)]
    Commands(commands::Commands),
    /// Makes small mistakes in the scripts of locks, and tells which of them nobody notices.
    #[command(long_about = mutants::HELP)]
    Mutants(mutants::Mutants),
    /// Judges a lock of another language, behind an adapter that is started as a child process.
    #[command(long_about = foreign::HELP)]
    Foreign(foreign::Foreign),
    /// Measures locks: latency, hand-over, fairness, cost.
    #[command(long_about = bench::HELP)]
    Bench(bench::Bench),
}

const GUIDE: &str = "\
What to start with:
  redouble-check                              judge all locks: a minute or so
  redouble-check --list                       what there is: locks, faults, properties
  redouble-check --lock mutex                 one lock
  redouble-check --lock 'B*' --fail-fast      all locks whose names begin with B
  redouble-check --fault pause cut            only paused clients and cut connections
  redouble-check --seeds 100000 --shard 1/4   a quarter of a long run
  redouble-check --time 10m                   as many seeds as ten minutes allow
  redouble-check --backend spawn              on a real redis-server, beside the double
  redouble-check --fixed                      only the scenarios that were written by hand
  redouble-check replay target/redouble/canary-P1.json
                                              a counterexample again, step by step
  redouble-check foreign -- python3 my_lock.py
                                              a lock of another language, through an adapter
  redouble-check mutants --lock mutex         whether mistakes in its scripts would be noticed
  redouble-check bench --lock mutex fair      how fast locks are, and how evenly they are shared

A line of the result, and what it says:
  ok  mutex     2000 runs    1.2 s  sound; outside its guarantee: P1 31x
  ok  canary     128 runs    0.1 s  convicted of P1, P5 (8 seeds, 3 steps)
\"ok\" means that the verdict is the expected one: our locks keep what they promise, locks with a
known mistake are convicted of it. \"!!\" means that it is not, \"..\" that too little was run to tell.
\"Outside its guarantee\" is what broke under faults that the lock never promised to bear. A conviction
says how many seeds it took and how many steps the shortest scenario has that shows it.

On a real server each lock is first tried with the fixed scenarios, which --list names: the same things
happen there and on the double, and a verdict that is not the same is a failure. What a server cannot do
is counted as such, and so is a run in which the machine did not let us run for too long.

The HTML report has it all: open it in a browser.

Exit code 0: all verdicts as expected. 1: at least one is not. 2: wrong usage, or it could not run.";

/// Wrong usage or a missing environment: exit code 2.
type Fallible<T> = Result<T, Box<dyn Error>>;

pub(crate) fn run(cli: Cli, out: &mut impl Write) -> ExitCode {
    let outcome = match cli.command {
        None => locks::run(&cli.locks, out),
        Some(Command::Locks(args)) => locks::run(&args, out),
        Some(Command::Replay(args)) => replay::run(&args, out),
        Some(Command::Commands(args)) => commands::run(&args, out),
        Some(Command::Mutants(args)) => mutants::run(&args, out),
        Some(Command::Foreign(args)) => foreign::run(&args, out),
        Some(Command::Bench(args)) => bench::run(&args, out),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            if !is_closed_pipe(&*error) {
                let _ = writeln!(io::stderr(), "redouble-check: {error}");
            }
            ExitCode::from(2)
        }
    }
}

/// Whether nobody reads on, as when `head` has seen enough.
fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe)
}

fn write_file(path: &Path, text: &str) -> Fallible<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), fs::create_dir_all);
    let written = made.and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}
