//! The command line of the suite. It only parses, calls the library and writes.

#[cfg(feature = "bench")]
mod bench;
mod foreign;
mod list;
mod locks;
#[cfg(feature = "mutants")]
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
/// Plays thousands of small scenarios with each lock: clients contend, work past their lease, are paused,
/// crash; links are slow or break; servers restart, forget, have wrong clocks. Judges every run by
/// properties such as "no two owners at the same time". By default Redis is an embedded double and time
/// is virtual: no server is needed, and equal seeds give equal runs.
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
    /// Judges the listed locks (the default).
    Locks(locks::Locks),
    /// Plays one scenario and shows what happened, step by step.
    Replay(replay::Replay),
    /// Makes small mistakes in the scripts of locks, and lists those that the suite does not notice.
    #[cfg(feature = "mutants")]
    #[command(long_about = mutants::HELP)]
    Mutants(mutants::Mutants),
    /// (This build lacks it: build with `--features mutants`.)
    #[cfg(not(feature = "mutants"))]
    Mutants(Missing),
    /// Judges a lock of another language through an adapter, which it starts as a child process.
    #[command(long_about = foreign::HELP)]
    Foreign(foreign::Foreign),
    /// Measures locks: latency, hand-over, fairness, cost.
    #[cfg(feature = "bench")]
    #[command(long_about = bench::HELP)]
    Bench(bench::Bench),
    /// (This build lacks it: build with `--features bench`.)
    #[cfg(not(feature = "bench"))]
    Bench(Missing),
}

/// Arguments of a subcommand that this build lacks.
#[cfg(not(all(feature = "bench", feature = "mutants")))]
#[derive(clap::Args)]
struct Missing {
    #[arg(hide = true, allow_hyphen_values = true, trailing_var_arg = true)]
    _arguments: Vec<String>,
}

/// The error for a subcommand whose feature is off.
#[cfg(not(all(feature = "bench", feature = "mutants")))]
fn missing(feature: &str) -> Fallible<bool> {
    Err(format!(
        "this build lacks `{feature}`; run it with `cargo run --release --features {feature} --bin redouble-check -- {feature}`"
    )
    .into())
}

const GUIDE: &str = "\
What to start with:
  redouble-check                              judge all locks: one or two minutes
  redouble-check --list                       list locks, faults, scenarios and properties
  redouble-check --lock mutex                 one lock, by its name or id
  redouble-check --lock 'B*' --fail-fast      all known lock bugs: their ids begin with B
  redouble-check --fault pause cut            only paused clients and cut connections
  redouble-check --seeds 100000 --shard 1/4   a quarter of a long run
  redouble-check --time 10m                   as many seeds as ten minutes allow
  redouble-check --backend spawn              on a real redis-server, compared with the double
  redouble-check --fixed                      only the scenarios that are written by hand
  redouble-check replay target/redouble/canary-P1.json
                                              a counterexample again, step by step
  redouble-check foreign -- python3 my_lock.py
                                              a lock of another language, through an adapter
  redouble-check mutants --lock mutex         make mistakes in its scripts and count the noticed ones
  redouble-check bench --lock mutex fair      measure locks under load
(mutants and bench need the features of these names.)

Two lines of the result:
  ok  mutex     2000 runs    1.2 s  sound; outside its guarantee: P1 31x
  ok  canary     128 runs    0.1 s  convicted of P1, P5 (8 seeds, 3 steps)
\"ok\" means that the verdict is the expected one: our locks keep their promises, and known lock bugs are
convicted. \"!!\" means that it is another, \"..\" that too few runs were played to tell. \"Outside its
guarantee: P1 31x\" means that P1 broke in 31 runs under faults that the lock does not promise to
survive; that is no defect. A conviction also gives the number of seeds until the first of these
properties broke, and the number of steps of the shortest scenario. \"(and P4, P12)\" names further
properties that broke.

On a real server the suite first plays the fixed scenarios (see --list) there and on the double. A verdict
that differs between the two is a failure. Scenarios that the server cannot play are counted as
unsupported. Runs in which the operating system paused the suite for too long are counted as inconclusive.

The HTML report shows every verdict and counterexample: open it in a browser.

Exit code 0: no verdict differs from the expected one; a verdict that is still open (..) counts as no
difference. 1: at least one verdict differs, or a full run did not see each situation often enough.
2: wrong usage, or it could not run.";

/// Wrong usage or a missing environment: exit code 2.
type Fallible<T> = Result<T, Box<dyn Error>>;

pub(crate) fn run(cli: Cli, out: &mut impl Write) -> ExitCode {
    let outcome = match cli.command {
        None => locks::run(&cli.locks, out),
        Some(Command::Locks(args)) => locks::run(&args, out),
        Some(Command::Replay(args)) => replay::run(&args, out),
        #[cfg(feature = "mutants")]
        Some(Command::Mutants(args)) => mutants::run(&args, out),
        #[cfg(not(feature = "mutants"))]
        Some(Command::Mutants(_)) => missing("mutants"),
        Some(Command::Foreign(args)) => foreign::run(&args, out),
        #[cfg(feature = "bench")]
        Some(Command::Bench(args)) => bench::run(&args, out),
        #[cfg(not(feature = "bench"))]
        Some(Command::Bench(_)) => missing("bench"),
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

/// True if the reader of the output has closed it, as `head` does.
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
