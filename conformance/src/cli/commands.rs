//! `redouble-check commands`: the double beside a real Redis.

use super::{Fallible, progress, write_file};
use clap::Args;
use redouble_conformance::{
    backend::redis_server,
    differential::{
        Campaign, KNOWN, LENIENT, NEVER_ACCEPTED, NOT_SENT, Peer, Report, parse_corpus, transcript,
    },
};
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

pub(super) const HELP: &str = "\
Compares the double with a real Redis, command by command.

Starts a redis-server of its own and sends the same random requests to it and to the double, in
short sequences that each begin with empty databases. The requests are generated from the double's
command table: every command, every option, right and wrong values, over RESP2 and RESP3, from up
to three connections. Every reply has to be the same, byte for byte, and at the end of each
sequence all keys in all databases: values, encodings, times to live. What chance or a clock
decides is compared more loosely; `redouble-check commands --list` says how, and why.

A sequence that differs is shortened to the few requests that it takes, and shown like this:

  seed 17, seen in 3 sequences; 2 requests:
  > SET s1 v          sent by the first connection (2>: the second; +>: with its next request)
  < +OK               what both answer
  > GET s1
  < $1                what Redis answers to the last request
  < v
  | $-1               what the double answers instead

Each is also saved to a file, which --file plays again after a change. Without --seed the run is the
same every time; other seeds give other sequences.

Exit code 0: no difference. 1: at least one. 2: wrong usage, or no real server.";

#[derive(Args)]
pub(super) struct Commands {
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
    #[arg(long, visible_alias = "redis-bin", value_name = "PROGRAM")]
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

pub(super) fn run(args: &Commands, out: &mut impl Write) -> Fallible<bool> {
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
        return of_file(path, &mut real, &mut double, out);
    }
    let campaign = Campaign {
        seeds: args.seed..args.seed.saturating_add(args.count),
        requests: args.requests,
        only: args.only.clone(),
        findings_max: args.findings,
    };
    let bar = progress::bar("commands", Some(args.count));
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
fn of_file(
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
