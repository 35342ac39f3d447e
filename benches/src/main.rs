//! `redouble-compare`: the double and a real Redis, side by side.

use clap::{Parser, ValueEnum};
use redouble_benches::load::{self, Effort, Row};
use redouble_benches::process::{Program, Server};
use redouble_benches::report::Report;
use redouble_benches::workload::Workload;
use redouble_benches::{Result, floor, in_process, machine, memory, start};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Measures redouble against a real Redis on this machine, side by side.
///
/// Starts `redis-server` and `redouble serve` on free ports of 127.0.0.1, sends both the same
/// requests in turn (A B A B), checks every reply and prints the medians, their ratio and the
/// target. Requests per CPU-second count the CPU time of the server process, all threads, user and
/// system: on a small machine requests per second are limited by the client.
///
/// Needs Linux, and both programs built in release mode:
///
///     cargo build --release -p redouble --features cli
///     cargo run --release -p redouble-benches -- --check
///
/// A full run takes about three minutes. Do not use the machine meanwhile; the column "rounds" shows how far
/// the rounds differ.
#[derive(Parser)]
#[command(
    name = "redouble-compare",
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
    /// Measure only this row; may be given several times.
    #[arg(long, value_name = "ROW", value_enum)]
    only: Vec<Only>,
    /// Rounds per server and row; the median counts.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// CPU time of the faster server in one round of a row under load.
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// Requests per round in place of the CPU time, for a quick look.
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = clap::value_parser!(u32).range(1..))]
    requests: Option<u32>,
    /// Connections of the rows under load.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=5000))]
    clients: u16,
    /// Number of locks from which keys are drawn; as many again exist. Far beyond 10,000 both servers spend
    /// much of their time waiting for memory.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    keys: u32,
    /// Seed for drawing keys.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Measure a do-nothing server too: it reads each batch and sends replies of the usual size, without
    /// parsing anything. The table then shows, for each row under load, the CPU time per request above
    /// that server's, redouble over Redis, and the 99th percentile of the latency.
    #[arg(long)]
    floor: bool,
    /// Run as the do-nothing server.
    #[arg(long, hide = true)]
    serve_floor: bool,
    /// Print a Markdown table.
    #[arg(long)]
    markdown: bool,
    /// Write all measurements to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// End with exit code 1 if a target is missed (2 is for errors).
    #[arg(long)]
    check: bool,
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give a number from 0.001 to 600".to_owned()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Only {
    /// SET NX PX, one request at a time per client.
    Set,
    /// SET NX PX, pipeline of 16.
    SetP16,
    /// EVAL of the release script, one request at a time.
    Eval,
    /// EVAL of the release script, pipeline of 16.
    EvalP16,
    /// EVALSHA of the release script, one request at a time.
    Evalsha,
    /// EVALSHA of the release script, pipeline of 16.
    EvalshaP16,
    /// GET, one request at a time.
    Get,
    /// GET, pipeline of 16.
    GetP16,
    /// INCR, one request at a time.
    Incr,
    /// INCR, pipeline of 16.
    IncrP16,
    /// HINCRBY, pipeline of 16.
    HincrbyP16,
    /// HSET of one field, one request at a time.
    Hset,
    /// HSET of one field, pipeline of 16.
    HsetP16,
    /// LPUSH and RPOP in turn, one request at a time.
    PushPop,
    /// LPUSH and RPOP in turn, pipeline of 16.
    PushPopP16,
    /// ZADD to a large sorted set, one request at a time.
    Zadd,
    /// ZADD to a large sorted set, pipeline of 16.
    ZaddP16,
    /// ZADD to a sorted set of one element, one request at a time.
    ZaddOne,
    /// ZADD to a sorted set of one element, pipeline of 16.
    ZaddOneP16,
    /// ZRANGEBYSCORE of ten members of a large sorted set, one request at a time.
    Zrangebyscore,
    /// ZRANGEBYSCORE of ten members of a large sorted set, pipeline of 16.
    ZrangebyscoreP16,
    /// SADD to a large set, one request at a time.
    Sadd,
    /// SADD to a large set, pipeline of 16.
    SaddP16,
    /// XADD, one request at a time.
    Xadd,
    /// XADD, pipeline of 16.
    XaddP16,
    /// XREADGROUP of one entry, one request at a time.
    Xreadgroup,
    /// XREADGROUP of one entry, pipeline of 16.
    XreadgroupP16,
    /// PUBLISH to a channel without subscribers, one request at a time.
    Publish,
    /// PUBLISH to a channel without subscribers, pipeline of 16.
    PublishP16,
    /// MULTI, INCR, PEXPIRE, EXEC, one request at a time.
    Multi,
    /// MULTI, INCR, PEXPIRE, EXEC, pipeline of 16.
    MultiP16,
    /// Lock cycles of one client in process, and the first cycle of a fresh server.
    Lock,
    /// From the start of a server to its first PONG.
    Start,
    /// Resident memory per lock.
    Memory,
    /// Resident memory per element of small and of large collections.
    MemoryTypes,
}

impl Only {
    /// Returns the row under load, if it is one.
    fn row(self) -> Option<Row> {
        use Workload::{
            EvalRelease, EvalshaRelease, Get, Hincrby, Hset, Incr, Multi, Publish, PushPop, Sadd,
            SetNxPx, Xadd, Xreadgroup, Zadd, ZaddOne, Zrangebyscore,
        };
        // The last two fields: lowest ratio of requests per CPU-second, highest ratio of CPU time above the
        // do-nothing server.
        let (title, workload, pipeline, per_cpu_second_min, above_floor_max) = match self {
            Self::Set => ("SET NX PX", SetNxPx, 1, 1.1, Some(0.3)),
            Self::SetP16 => ("SET NX PX, pipeline 16", SetNxPx, 16, 2.2, Some(0.22)),
            Self::Eval => ("EVAL release", EvalRelease, 1, 1.1, Some(0.62)),
            Self::EvalP16 => (
                "EVAL release, pipeline 16",
                EvalRelease,
                16,
                2.0,
                Some(0.62),
            ),
            Self::Evalsha => ("EVALSHA release", EvalshaRelease, 1, 1.1, Some(0.62)),
            Self::EvalshaP16 => (
                "EVALSHA release, pipeline 16",
                EvalshaRelease,
                16,
                1.0,
                Some(0.62),
            ),
            Self::Get => ("GET", Get, 1, 1.0, Some(0.3)),
            Self::GetP16 => ("GET, pipeline 16", Get, 16, 2.0, Some(0.3)),
            Self::Incr => ("INCR", Incr, 1, 1.0, None),
            Self::IncrP16 => ("INCR, pipeline 16", Incr, 16, 1.5, None),
            Self::HincrbyP16 => ("HINCRBY, pipeline 16", Hincrby, 16, 1.5, None),
            Self::Hset => ("HSET", Hset, 1, 1.0, None),
            Self::HsetP16 => ("HSET, pipeline 16", Hset, 16, 1.5, None),
            Self::PushPop => ("LPUSH, RPOP", PushPop, 1, 1.0, None),
            Self::PushPopP16 => ("LPUSH, RPOP, pipeline 16", PushPop, 16, 1.5, None),
            Self::Zadd => ("ZADD", Zadd, 1, 1.0, None),
            Self::ZaddP16 => ("ZADD, pipeline 16", Zadd, 16, 1.5, None),
            Self::ZaddOne => ("ZADD, one element", ZaddOne, 1, 1.0, None),
            Self::ZaddOneP16 => ("ZADD, one element, pipeline 16", ZaddOne, 16, 1.5, None),
            Self::Sadd => ("SADD", Sadd, 1, 1.0, None),
            Self::SaddP16 => ("SADD, pipeline 16", Sadd, 16, 1.5, None),
            Self::Xadd => ("XADD", Xadd, 1, 1.0, None),
            Self::XaddP16 => ("XADD, pipeline 16", Xadd, 16, 1.5, None),
            Self::Xreadgroup => ("XREADGROUP", Xreadgroup, 1, 1.0, None),
            Self::XreadgroupP16 => ("XREADGROUP, pipeline 16", Xreadgroup, 16, 1.5, None),
            Self::Zrangebyscore => ("ZRANGEBYSCORE", Zrangebyscore, 1, 1.0, None),
            Self::ZrangebyscoreP16 => ("ZRANGEBYSCORE, pipeline 16", Zrangebyscore, 16, 1.5, None),
            Self::Publish => ("PUBLISH", Publish, 1, 1.0, None),
            Self::PublishP16 => ("PUBLISH, pipeline 16", Publish, 16, 1.5, None),
            Self::Multi => ("MULTI, INCR, PEXPIRE, EXEC", Multi, 1, 1.0, None),
            Self::MultiP16 => (
                "MULTI, INCR, PEXPIRE, EXEC, pipeline 16",
                Multi,
                16,
                1.5,
                Some(0.4),
            ),
            Self::Lock | Self::Start | Self::Memory | Self::MemoryTypes => return None,
        };
        Some(Row {
            title,
            workload,
            pipeline,
            per_cpu_second_min,
            above_floor_max,
        })
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(report) if cli.check && !report.is_met() => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("redouble-compare: {error}"));
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> Result<Report> {
    if cli.serve_floor {
        floor::serve(|addr| Ok(writeln!(std::io::stdout(), "ready redis://{addr}")?))?;
    }
    if cfg!(debug_assertions) {
        say("this is a debug build: the rows in process will be slow");
    }
    let redis = Program::Redis(cli.redis_server.clone());
    let redouble = cli
        .redouble
        .clone()
        .map_or_else(Program::redouble_beside_this, |path| {
            Ok(Program::Redouble(path))
        })?;
    let effort = Effort {
        rounds: cli.rounds.into(),
        clients: cli.clients.into(),
        cpu: Duration::from_secs_f64(cli.seconds),
        requests: cli.requests.map(|requests| requests as usize),
        locks: cli.keys as usize,
        seed: cli.seed,
    };
    let mut report = Report {
        machine: machine::facts(),
        redis_version: redis.start()?.version()?,
        figures: Vec::new(),
    };
    let mut pair: Option<[Server; 2]> = None;
    let floor = match cli.floor {
        true => Some(Program::Floor(std::env::current_exe()?).start()?),
        false => None,
    };
    let chosen = Only::value_variants()
        .iter()
        .filter(|row| cli.only.is_empty() || cli.only.contains(row));
    for only in chosen {
        let name = only
            .to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default();
        say(&format!("measuring {name}"));
        let result = match (only, only.row()) {
            (_, Some(row)) => {
                let [redis, redouble] = match &mut pair {
                    Some(pair) => pair,
                    none => none.insert([redis.start()?, redouble.start()?]),
                };
                load::compare(&row, redis, redouble, floor.as_ref(), &effort)
            }
            (Only::Start, None) => start::compare(&redis, &redouble),
            (Only::Memory, None) => memory::compare(&redis, &redouble).map(|figure| vec![figure]),
            (Only::MemoryTypes, None) => memory::compare_types(&redis, &redouble),
            (_, None) => in_process::compare(&redis, effort.rounds),
        };
        report
            .figures
            .extend(result.map_err(|error| format!("{name}: {error}"))?);
    }
    if let Some(path) = &cli.json {
        std::fs::write(path, format!("{:#}\n", report.json()))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    let table = if cli.markdown {
        report.markdown()
    } else {
        report.text()
    };
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(table.as_bytes())?;
    stdout.flush()?;
    Ok(report)
}

/// Writes progress and errors, apart from the table.
fn say(text: &str) {
    // A closed standard error must not stop the program.
    let _closed = writeln!(std::io::stderr().lock(), "{text}");
}
