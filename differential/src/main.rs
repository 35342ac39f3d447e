//! `redouble-diff`: compares the double with a real Redis.

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use redouble::Profile;
use redouble_conformance::backend::redis_server;
use redouble_differential::{
    Campaign, KNOWN, LENIENT, NEVER_ACCEPTED, NOT_SENT, Peer, Report, Traffic, parse_corpus,
    transcript,
};
use std::{
    error::Error,
    fs,
    io::{self, IsTerminal as _, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

const HELP: &str = "\
Compares the double with a real Redis, command by command.

Starts a redis-server of its own and sends the same random requests to it and to the double, in
short sequences that each begin with empty databases. The requests are generated from the double's
command table: every command, every option, right and wrong values, over RESP2 and RESP3, from up
to three connections. Every reply has to be the same, byte for byte, and at the end of each
sequence all keys in all databases: values, encodings, times to live. What chance or a clock
decides is compared more loosely; `redouble-diff --list` says how, and why.

A sequence whose replies differ is reduced to the few requests that show it, and printed like this:

  seed 17, seen in 3 sequences; 2 requests:
  > SET s1 v          sent by the first connection (2>: the second; +>: with its next request)
  < +OK               the reply of both servers
  > GET s1
  < $1                Redis's reply to the last request
  < v
  | $-1               the double's reply to it

Each difference is also saved to a file; --file plays it again after a change. Without --seed every run
plays the same sequences; other seeds give other sequences.

Exit code 0: no difference. 1: at least one, or with --thresholds a command or an option that falls short. 2: wrong usage,
or no real server.";

/// Compares the double with a real Redis, command by command.
#[derive(Parser)]
#[command(name = "redouble-diff", version, long_about = HELP)]
struct Options {
    /// Number of sequences to play.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    count: u64,
    /// The first seed; each sequence has the next one.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Approximate number of requests in a sequence.
    #[arg(long, value_name = "N", default_value_t = 40)]
    requests: usize,
    /// Only commands whose names contain this, as in "config|get".
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Stop after this many kinds of differences.
    #[arg(long, value_name = "N", default_value_t = 20)]
    findings: usize,
    /// Count the uses of keys in every sequence, and compare OBJECT FREQ. By default one sequence in ten does.
    #[arg(long, conflicts_with_all = ["file", "traffic"])]
    uses: bool,
    /// Fail if a command or an option falls short: fewer than 60 % of a command's replies are no errors, an option is sent fewer
    /// than 500 times per million requests, or one of them is never accepted.
    #[arg(long, conflicts_with_all = ["file", "traffic", "only"])]
    thresholds: bool,
    /// Play this file instead: a saved difference, or a list of requests.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Play mutated recorded traffic instead: a file with the output of `redis-cli MONITOR`, or a folder of such files.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["file", "only"])]
    traffic: Option<PathBuf>,
    /// Program of the real server [default: REDOUBLE_REDIS, else the redis-server on the PATH].
    #[arg(long, visible_alias = "redis-bin", value_name = "PROGRAM")]
    server: Option<PathBuf>,
    /// The release that the double imitates, as in `redouble --compat`; --server then names a program of such a release. Only 7.0
    /// is complete: the book's page on versions says what the others change.
    #[arg(long, value_name = "VERSION", default_value_t)]
    compat: Profile,
    /// Folder in which differences are saved.
    #[arg(long, value_name = "FOLDER", default_value = "target/redouble")]
    save: PathBuf,
    /// Show how often each command and option was sent, and accepted, over both protocols.
    #[arg(long)]
    coverage: bool,
    /// List the commands that are not sent or compared loosely, with the reasons, and do nothing else.
    #[arg(long)]
    list: bool,
    /// Also write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Wrong usage or a missing environment: exit code 2.
type Fallible<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    match run(&Options::parse(), &mut io::stdout()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let closed = error
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
            if !closed {
                let _ = writeln!(io::stderr(), "redouble-diff: {error}");
            }
            ExitCode::from(2)
        }
    }
}

fn run(args: &Options, out: &mut impl Write) -> Fallible<bool> {
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
    let (mut real, mut double) = (Peer::real(&program)?, Peer::double_of(args.compat)?);
    if let Some(path) = &args.file {
        return of_file(path, &mut real, &mut double, out);
    }
    let campaign = Campaign {
        seeds: args.seed..args.seed.saturating_add(args.count),
        requests: args.requests,
        only: args.only.clone(),
        counts_uses: args.uses,
        findings_max: args.findings,
        traffic: args.traffic.as_deref().map(Traffic::read).transpose()?,
    };
    let bar = bar(args.count);
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
        writeln!(out, "  replay: redouble-diff --file {}\n", path.display())?;
    }
    if args.coverage {
        coverage(&report, out)?;
    }
    summary(&report, &program, out)?;
    if let Some(path) = &args.json {
        write_file(path, &serde_json::to_string_pretty(&report.to_json())?)?;
        writeln!(out, "  json: {}", path.display())?;
    }
    let falls_short = args.thresholds && !(report.short.is_empty() && report.missed.is_empty());
    Ok(report.findings.is_empty() && !falls_short)
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
    for name in report.missed.iter().take(MISSED_MAX) {
        writeln!(out, "  {name}")?;
    }
    if missed > MISSED_MAX {
        writeln!(out, "  ... (--coverage shows them all)")?;
    }
    writeln!(
        out,
        "{} commands and options with too many errors, or too few requests",
        report.short.len()
    )?;
    for text in &report.short {
        writeln!(out, "  {text}")?;
    }
    Ok(())
}

/// Number of missed commands and options that the summary names.
const MISSED_MAX: usize = 12;

fn coverage(report: &Report, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "sent, accepted: RESP2   RESP3")?;
    for (name, tally) in &report.tallies {
        let of = |at: usize| format!("{}/{}", tally.accepted[at], tally.sent[at]);
        writeln!(out, "{:>21} {:>7}   {name}", of(0), of(1))?;
    }
    writeln!(out, "\nanswered without an error:")?;
    for (name, answers) in report.coverage.answers() {
        let (percent, all) = (answers.percent(), answers.all);
        writeln!(out, "{percent:>4} % of {all:>7}   {name}")?;
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

/// Plays the requests of a file on both servers, without changes.
fn of_file(
    path: &Path,
    real: &mut Peer,
    double: &mut Peer,
    out: &mut impl Write,
) -> Fallible<bool> {
    let text = fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let malformed = || format!("{} is not a list of requests with replies", path.display());
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

/// Progress on the terminal; hidden if standard error is not one.
fn bar(count: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(count);
    bar.enable_steady_tick(Duration::from_millis(200));
    let template = "{msg:24} {bar:32} {pos}/{len}, {per_sec}, {eta} left";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn write_file(path: &Path, text: &str) -> Fallible<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), fs::create_dir_all);
    let written = made.and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}
