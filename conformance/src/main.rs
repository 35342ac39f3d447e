//! The command line of the suite. It only parses, calls the library and writes.

use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use redouble_conformance::{
    backend::redis_server,
    backend::{Backend, Double, Real},
    checker::{Finding, Property},
    differential::{
        Campaign, KNOWN, LENIENT, NEVER_ACCEPTED, NOT_SENT, Peer, Report, parse_corpus, transcript,
    },
    report::{html, json, terminal},
    runner::{Plan, QUICK, QUICK_REAL, Trial, judge, run_trial},
    scenario::{Scenario, generate::Generator, nemesis::NEMESES},
    subject::{Expected, Row, subjects},
};
use std::{
    fs,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// Convicts bad distributed locks and clears good ones.
///
/// Plays thousands of small scenarios (clients that contend, work too long, are paused, die; links
/// that are slow or break) with each lock and judges every run by properties such as "no two
/// owners at the same time". Without further options it needs nothing but itself: the Redis is an
/// embedded double, time is virtual, and equal seeds give equal runs.
///
/// Exit code 0: all verdicts as expected (our locks sound, the canary convicted). 1: not so.
/// 2: wrong usage, or the server is out of reach.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    locks: Locks,
}

#[derive(Subcommand)]
enum Command {
    /// Judges locks (what happens without a subcommand).
    Locks(Locks),
    /// Plays one scenario and shows what happened, step by step.
    Replay(Replay),
    /// Compares the double with a real Redis, command by command.
    #[command(long_about = COMMANDS_HELP)]
    Commands(Commands),
}

const COMMANDS_HELP: &str = "\
Compares the double with a real Redis, command by command.

Starts a redis-server of its own and sends the same random requests to it and to the double, in
short sequences that each begin with empty databases. The requests are generated from the double's
command table: every command, every option, right and wrong values, over RESP2 and RESP3, from up
to three connections. Every reply has to be the same, byte for byte, and at the end of each
sequence all keys in all databases: values, encodings, times to live. What chance or a clock
decides is compared more loosely; `redouble-check commands --list` says how, and why.

A sequence that differs is shortened to the few requests that it takes, and shown like this:

  seed 17, seen in 3 sequences; 2 requests:
  > SET s1 v          sent by the first connection (2> would be the second)
  < +OK               what both answer
  > GET s1
  < $1                what Redis answers to the last request
  < v
  | $-1               what the double answers instead

Each is also saved to a file, which --file plays again after a change. Without --seed the run is the
same every time; other seeds give other sequences.

Exit code 0: no difference. 1: at least one. 2: wrong usage, or no real server.";

#[derive(Args)]
struct Commands {
    /// How many sequences to play.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    count: u64,
    /// The first seed; each sequence has the next one.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Requests in a sequence, about.
    #[arg(long, value_name = "N", default_value_t = 40)]
    requests: usize,
    /// Only commands whose names contain this, as in "config|get".
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Give up after so many kinds of differences.
    #[arg(long, value_name = "N", default_value_t = 20)]
    findings: usize,
    /// Play this file instead: a difference that was saved, or a transcript of requests alone.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The real server [default: the redis-server of the PATH, or what REDOUBLE_REDIS names].
    #[arg(long, value_name = "PROGRAM")]
    server: Option<PathBuf>,
    /// Where to save the differences.
    #[arg(long, value_name = "FOLDER", default_value = "target/redouble")]
    save: PathBuf,
    /// Show how often each command and option was sent, and accepted, over both protocols.
    #[arg(long)]
    coverage: bool,
    /// List what is not sent and what is compared loosely, with the reasons, and do nothing else.
    #[arg(long)]
    list: bool,
    /// Also write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Args)]
struct Locks {
    /// Where to run: "double" (embedded, virtual time), "spawn" (starts the redis-server from the
    /// PATH), "spawn:PROGRAM", or redis://HOST:PORT (touches only keys of its own prefix).
    #[arg(long, value_name = "WHERE", default_value = "double")]
    backend: String,
    /// How many seeds to try per lock [default: 2000, on a real server 16].
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// The first seed; alone, only this one.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Judge only this lock; can be given several times.
    #[arg(long, value_name = "NAME")]
    lock: Vec<String>,
    /// Play only scenarios in which this strikes (see --list).
    #[arg(long, value_name = "NAME")]
    nemesis: Option<String>,
    /// List the locks, nemeses and properties, and do nothing else.
    #[arg(long)]
    list: bool,
    /// Also write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where to write the HTML report.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "target/redouble/report.html"
    )]
    report: PathBuf,
}

#[derive(Args)]
struct Replay {
    /// A saved scenario, as the report shows it.
    #[arg(required_unless_present = "seed")]
    file: Option<PathBuf>,
    /// The scenario of this seed instead of a file.
    #[arg(long, value_name = "S", requires = "lock", conflicts_with = "file")]
    seed: Option<u64>,
    /// With --seed: the nemesis that the seed was tried with, if it was tried with one.
    #[arg(long, value_name = "NAME", requires = "seed")]
    nemesis: Option<String>,
    /// The lock to play it with [default: the one in the file].
    #[arg(long, value_name = "NAME")]
    lock: Option<String>,
    /// Where to run, as without subcommand.
    #[arg(long, value_name = "WHERE", default_value = "double")]
    backend: String,
}

/// Wrong usage or a missing environment: exit code 2.
type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = io::stdout().lock();
    let outcome = match cli.command {
        None => locks(&cli.locks, &mut out),
        Some(Command::Locks(args)) => locks(&args, &mut out),
        Some(Command::Replay(args)) => replay(&args, &mut out),
        Some(Command::Commands(args)) => commands(&args, &mut out),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let _ = writeln!(io::stderr(), "redouble-check: {error}");
            ExitCode::from(2)
        }
    }
}

fn backend(name: &str) -> Fallible<Box<dyn Backend>> {
    match name.split_once(':') {
        None if name == "double" => Ok(Box::new(Double)),
        None if name == "spawn" => Ok(Box::new(Real::spawn("redis-server")?)),
        Some(("spawn", program)) => Ok(Box::new(Real::spawn(program)?)),
        Some(("redis", _)) => Ok(Box::new(Real::at(name)?)),
        _ => Err(format!("unknown backend {name:?}: double, spawn or redis://HOST:PORT").into()),
    }
}

fn chosen(names: &[String]) -> Fallible<Vec<&'static Row>> {
    let name = |row: &Row| (row.make)().name();
    if let Some(unknown) = names
        .iter()
        .find(|it| !subjects().any(|row| name(row) == **it))
    {
        return Err(format!("no lock is called {unknown:?} (see --list)").into());
    }
    let wanted = |row: &&Row| names.is_empty() || names.iter().any(|it| name(row) == *it);
    Ok(subjects().filter(wanted).collect())
}

fn known_nemesis(name: Option<&str>) -> Fallible<()> {
    match name.filter(|name| !NEMESES.iter().any(|nemesis| nemesis.name() == *name)) {
        Some(name) => Err(format!("no nemesis is called {name:?} (see --list)").into()),
        None => Ok(()),
    }
}

fn locks(args: &Locks, out: &mut impl Write) -> Fallible<bool> {
    if args.list {
        list(out)?;
        return Ok(true);
    }
    known_nemesis(args.nemesis.as_deref())?;
    let rows = chosen(&args.lock)?;
    let backend = backend(&args.backend)?;
    let quick = Plan::quick(&*backend);
    let count = args.seeds.unwrap_or_else(|| match args.seed {
        Some(_) => 1,
        None if backend.virtual_time() => QUICK,
        None => QUICK_REAL,
    });
    let first = args.seed.unwrap_or(0);
    let plan = Plan {
        seeds: first..first + count,
        nemesis: args.nemesis.clone(),
        ..quick
    };

    let mut trials = Vec::new();
    for row in rows {
        let suspect = (row.make)();
        let bar = progress_bar(suspect.name(), count);
        let trial = run_trial(&*suspect, row.expected, &*backend, &plan, &|n| bar.inc(n));
        bar.finish_and_clear();
        trials.push(trial?);
    }

    writeln!(out, "backend: {}\n", backend.name())?;
    terminal::table(out, &trials)?;
    writeln!(out)?;
    for trial in &trials {
        terminal::counterexamples(out, trial)?;
    }
    for path in save(&args.report, &trials)? {
        writeln!(out, "  replay: redouble-check replay {}", path.display())?;
    }
    terminal::coverage(out, &trials)?;

    // With few seeds or a single nemesis nobody can expect to see everything, or a conviction.
    let few = args.nemesis.is_some() || args.seed.is_some() || args.seeds.is_some();
    let filtered = few || !args.lock.is_empty();
    let mut blind = false;
    for trial in &trials {
        let missed: Vec<String> = trial.missed().iter().map(ToString::to_string).collect();
        let verb = if filtered {
            "not seen often enough in this selection"
        } else {
            "NOT SEEN OFTEN ENOUGH"
        };
        if !missed.is_empty() {
            blind = true;
            writeln!(out, "  {} {verb}: {}", trial.name, missed.join(", "))?;
        }
    }
    write_file(&args.report, &html::page(&trials))?;
    writeln!(out, "  report: {}", args.report.display())?;
    if let Some(path) = &args.json {
        write_file(path, &serde_json::to_string_pretty(&json::report(&trials))?)?;
        writeln!(out, "  json: {}", path.display())?;
    }
    let as_expected = trials.iter().all(|trial| {
        trial.as_expected() || (few && matches!(trial.expected, Expected::Convicted(_)))
    });
    Ok(as_expected && (filtered || !blind))
}

/// Saves the counterexamples beside the report.
fn save(report: &Path, trials: &[Trial]) -> Fallible<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for trial in trials {
        for example in &trial.counterexamples {
            let name = format!("{}-{}.json", trial.name, example.property.id());
            let path = report.with_file_name(name);
            write_file(&path, &json::Saved::of(trial, example).to_json())?;
            paths.push(path);
        }
    }
    Ok(paths)
}

fn write_file(path: &Path, text: &str) -> Fallible<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), fs::create_dir_all);
    let written = made.and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

fn progress_bar(name: &str, count: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(count).with_message(name.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    let template = "{msg:16} {bar:40} {pos}/{len}, {per_sec}, {eta} left";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn list(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "locks:")?;
    for row in subjects() {
        let expected = match row.expected {
            Expected::Sound => "sound".to_owned(),
            Expected::Convicted(of) => {
                let ids: Vec<&str> = of.iter().map(|property| property.id()).collect();
                format!("convicted of {}", ids.join(", "))
            }
        };
        writeln!(
            out,
            "  {:16} {} (expected: {expected})",
            (row.make)().name(),
            row.summary
        )?;
    }
    writeln!(out, "\nnemeses:")?;
    for nemesis in NEMESES {
        writeln!(out, "  {:16} {}", nemesis.name(), nemesis.summary())?;
    }
    writeln!(out, "\nproperties:")?;
    for property in Property::ALL {
        writeln!(
            out,
            "  {:16} {}",
            property.to_string(),
            property.statement()
        )?;
    }
    Ok(())
}

fn replay(args: &Replay, out: &mut impl Write) -> Fallible<bool> {
    let (lock, scenario): (String, Scenario) = match (&args.file, args.seed) {
        (Some(path), _) => {
            let text = fs::read_to_string(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let saved = json::Saved::from_json(&text)
                .map_err(|error| format!("{} is not a saved scenario: {error}", path.display()))?;
            (args.lock.clone().unwrap_or(saved.lock), saved.scenario)
        }
        (None, Some(seed)) => {
            known_nemesis(args.nemesis.as_deref())?;
            let scenario = Generator::new(args.nemesis.as_deref()).scenario(seed);
            (args.lock.clone().unwrap_or_default(), scenario)
        }
        (None, None) => return Err("a file or a seed is needed".into()),
    };
    let backend = backend(&args.backend)?;
    let scenario = backend.lease_ms().map_or_else(
        || scenario.clone(),
        |lease_ms| scenario.snapped().scaled(lease_ms),
    );
    let rows = chosen(&[lock])?;
    let [row] = *rows else {
        return Err("one lock is needed".into());
    };
    let suspect = (row.make)();
    let judged = judge(&*suspect, &*backend, &scenario)?;
    writeln!(out, "{} on {}\n", suspect.name(), backend.name())?;
    terminal::lanes(out, &judged.run.history)?;
    writeln!(out)?;
    for (property, finding) in &judged.findings {
        let says = match finding {
            Finding::Valid => "holds".to_owned(),
            Finding::Unknown(why) => format!("not judged: {why}"),
            Finding::Violation(witness) => format!("BROKEN: {}", witness.message),
        };
        writeln!(out, "  {property}: {says}")?;
    }
    Ok(judged
        .findings
        .iter()
        .all(|(_, finding)| finding.witness().is_none()))
}

fn commands(args: &Commands, out: &mut impl Write) -> Fallible<bool> {
    if args.list {
        list_excused(out)?;
        return Ok(true);
    }
    let program = match &args.server {
        Some(program) => program.clone(),
        None => {
            redis_server::find()?.ok_or("no real server to compare with (REDOUBLE_REDIS=off)")?
        }
    };
    let (mut real, mut double) = (Peer::real(&program)?, Peer::double()?);
    if let Some(path) = &args.file {
        return commands_of_file(path, &mut real, &mut double, out);
    }
    let campaign = Campaign {
        seeds: args.seed..args.seed.saturating_add(args.count),
        requests: args.requests,
        only: args.only.clone(),
        findings_max: args.findings,
    };
    let bar = progress_bar("commands", args.count);
    let report = campaign.run(&mut real, &mut double, &mut |found| {
        let plural = if found == 1 { "" } else { "s" };
        bar.set_message(format!("{found} difference{plural}"));
        bar.inc(1);
    });
    bar.finish_and_clear();
    let report = report?;
    for finding in &report.findings {
        let path = args.save.join(format!("commands-{}.txt", finding.seed));
        write_file(&path, &finding.difference.transcript())?;
        writeln!(out, "{finding}")?;
        writeln!(
            out,
            "  replay: redouble-check commands --file {}\n",
            path.display()
        )?;
    }
    if args.coverage {
        coverage(&report, out)?;
    }
    summary(&report, &program, out)?;
    if let Some(path) = &args.json {
        write_file(path, &serde_json::to_string_pretty(&report.to_json())?)?;
        writeln!(out, "  json: {}", path.display())?;
    }
    Ok(report.findings.is_empty())
}

fn summary(report: &Report, program: &Path, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{} sequences with {} requests beside {}; {} replies compared ({} errors), {} kinds of differences",
        report.sequences,
        report.requests,
        program.display(),
        report.replies,
        report.errors,
        report.findings.len()
    )?;
    let (all, missed) = (report.tallies.len(), report.missed.len());
    writeln!(
        out,
        "{all} commands and options, {missed} of them not accepted over both protocols"
    )?;
    // With few sequences there are many.
    for name in report.missed.iter().take(MISSED_MAX) {
        writeln!(out, "  {name}")?;
    }
    if missed > MISSED_MAX {
        writeln!(out, "  ... (--coverage shows them all)")?;
    }
    Ok(())
}

/// How many commands and options that were missed are named.
const MISSED_MAX: usize = 12;

fn coverage(report: &Report, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "sent, accepted: RESP2   RESP3")?;
    for (name, tally) in &report.tallies {
        let of = |at: usize| format!("{}/{}", tally.accepted[at], tally.sent[at]);
        writeln!(out, "{:>21} {:>7}   {name}", of(0), of(1))?;
    }
    writeln!(out)
}

fn list_excused(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "deliberate differences:")?;
    for known in KNOWN {
        writeln!(out, "  {:22} {}", known.name, known.reason)?;
    }
    writeln!(out, "\nnot sent:")?;
    for excused in NOT_SENT {
        writeln!(out, "  {:22} {}", excused.name, excused.reason)?;
    }
    writeln!(out, "\nnever accepted:")?;
    for excused in NEVER_ACCEPTED {
        writeln!(out, "  {:22} {}", excused.name, excused.reason)?;
    }
    writeln!(out, "\ncompared loosely:")?;
    for lenient in LENIENT {
        writeln!(
            out,
            "  {:22} {}: {}",
            lenient.name, lenient.how, lenient.reason
        )?;
    }
    Ok(())
}

/// Plays the requests of a file on both servers, as they are.
fn commands_of_file(
    path: &Path,
    real: &mut Peer,
    double: &mut Peer,
    out: &mut impl Write,
) -> Fallible<bool> {
    let text = fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let malformed = || format!("{} is no list of requests with replies", path.display());
    let mut same = true;
    for played in parse_corpus(&text).ok_or_else(malformed)? {
        let played = played.sequence().play(real)?;
        let shown = transcript(&played);
        match played.compare(double)? {
            Some(difference) => {
                same = false;
                writeln!(out, "{}", difference.transcript())?;
            }
            None => writeln!(out, "{shown}# no difference")?,
        }
    }
    Ok(same)
}
