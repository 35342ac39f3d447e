//! `redouble-check bench`: measures locks under load, in real time.

use super::{
    Fallible, progress, select,
    values::{duration, span},
    write_file,
};
use clap::Args;
use redouble_conformance::bench::{
    BenchError, Load, LockBackend, Measured, json, measure, median, page, table,
};
use std::{
    collections::BTreeMap,
    io::Write,
    path::PathBuf,
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

pub(super) const HELP: &str = "\
Measures locks in real time: the latency of an acquisition, the time of a hand-over, how evenly clients
share the lock, and the commands per cycle.

Each client acquires the lock, holds it, releases it and begins again, over connections of its own; with
--tasks each of its tasks does so, over the connections of the client. With
--rate cycles begin at planned times, and latencies count from these, so a lock that falls behind shows
the whole waiting time.

  redouble-check bench                                     our mutex on the embedded double, over TCP
  redouble-check bench --lock mutex fair --backend spawn   two locks, on a redis-server of their own
  redouble-check bench --lock 'seed-A*' --clients 2        locks from the wild (see --list)
  redouble-check bench --rate 500 --clients 32             begins 500 cycles a second
  redouble-check bench --backend spawn --rounds 3          the median of three rounds

A line of the result:
                    ------- acquire --------  ------ hand-over ------
  lock   cycles/s  p50  p99  p99.9  max       p50  p99  p99.9  max      fairness  commands  requests  server  failed
acquire    from the request (with --rate: from its planned time) to the grant
hand-over  from the start of a release to the grant of a client that was waiting by then
fairness   Jain's index over clients (with --tasks: over all tasks): 1 if all acquired equally often, 1/n if
           one of n acquired always
commands   per cycle, as the servers count them, including commands in scripts
requests   per cycle: how often the servers read from a connection; requests that arrive together count once
server     CPU time of the servers per cycle; the embedded double reports neither this nor requests
failed     cycles whose lock was not granted in time, was lost before its release, or has an unknown outcome

If two clients hold the lock at once, the run reports it and exits with code 1. ^C ends the measurement
and shows the results so far; a second ^C ends the program.

Exit code 0: measured. 1: too many clients held a lock, or it panicked. 2: wrong usage, or it could not run.";

#[derive(Args)]
pub(super) struct Bench {
    /// Where to measure: "double" (embedded, over TCP), "spawn" (starts the redis-server from the PATH),
    /// "spawn:PROGRAM", or redis://HOST:PORT (touches only keys of its own prefix).
    #[arg(long, value_name = "WHERE", default_value = "double", value_parser = LockBackend::parse)]
    backend: LockBackend,
    /// With --backend spawn: what to start [default: the redis-server from the PATH], for instance
    /// another version, or valkey-server.
    #[arg(long, value_name = "PROGRAM")]
    redis_bin: Option<PathBuf>,
    /// Locks to measure, one after the other, by name or id; `*` stands for any number of characters, `?` for one.
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',', default_value = "mutex")]
    lock: Vec<String>,
    /// Number of clients.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=250))]
    clients: u8,
    /// Number of tasks of each client, which share its connections.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=250))]
    tasks: u8,
    /// Number of keys: client i always acquires key i modulo this.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=250))]
    keys: u8,
    /// The lease in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(60..=3_600_000))]
    lease: u64,
    /// Time for which a client holds the lock, as in 200us or 5ms.
    #[arg(long, value_name = "TIME", default_value = "200us", value_parser = span)]
    hold: Duration,
    /// Seconds to measure each lock.
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Number of rounds. Locks take turns, and of each lock the round with the median of cycles per second is shown;
    /// a second holder in any round counts.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=99))]
    rounds: u8,
    /// Cycles that all clients together start per second [default: each client starts a cycle when its last
    /// one is over].
    #[arg(long, value_name = "PER_SECOND", value_parser = rate)]
    rate: Option<f64>,
    /// Longest time for which a client waits for the lock.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    wait: Duration,
    /// Pause between two tries with a lock that cannot wait by itself.
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = span)]
    poll: Duration,
    /// Also write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also draw them, in an HTML page.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Highest accepted rate, per second; no lock reaches it.
const RATE_MAX: f64 = 1e6;
const SECONDS_MAX: f64 = 86_400.0;

fn positive(text: &str, most: f64, what: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    let fits = number.filter(|it| *it > 0.0 && *it <= most);
    fits.ok_or_else(|| format!("{what} is a number above 0, at most {most}"))
}

fn seconds(text: &str) -> Result<f64, String> {
    positive(text, SECONDS_MAX, "a time in seconds")
}

fn rate(text: &str) -> Result<f64, String> {
    positive(text, RATE_MAX, "a rate per second")
}

pub(super) fn run(args: &Bench, out: &mut impl Write) -> Fallible<bool> {
    if args.keys > args.clients {
        return Err("each key needs a client: --keys is at most --clients".into());
    }
    let load = Load {
        clients: args.clients,
        tasks: args.tasks,
        keys: args.keys,
        lease: Duration::from_millis(args.lease),
        hold: args.hold,
        time: Duration::from_secs_f64(args.seconds),
        rate: args.rate,
        wait: args.wait,
        poll: args.poll.max(Duration::from_millis(1)),
    };
    let place = match (&args.redis_bin, &args.backend) {
        (None, place) => place.clone(),
        (Some(program), LockBackend::Spawn(_)) => LockBackend::Spawn(program.clone().into()),
        (Some(_), _) => return Err("--redis-bin goes with --backend spawn".into()),
    };
    let locks = select::locks(&args.lock)?;
    let interrupted = listen_for_interrupts()?;
    let mut rounds: Vec<Vec<Measured>> = locks.iter().map(|_| Vec::new()).collect();
    let (mut left_out, mut failed) = (BTreeMap::new(), None);
    'all: for _ in 0..args.rounds {
        for (lock, rounds) in locks.iter().zip(&mut rounds) {
            if interrupted.load(Ordering::Relaxed) {
                break 'all;
            }
            if left_out.contains_key(lock.id) {
                continue;
            }
            let (subject, bar) = ((lock.row.make)(), progress::timer(lock.id, load.time));
            let moved = |elapsed: Duration| bar.set_position(progress::steps(elapsed));
            let measured = measure(&*subject, &place, &load, &interrupted, &moved);
            bar.finish_and_clear();
            match measured {
                Ok(measured) => rounds.push(measured),
                Err(error @ (BenchError::NotALock | BenchError::Unusable { .. })) => {
                    left_out.insert(lock.id, format!("not measured: {}: {error}", lock.id));
                }
                Err(error) => {
                    failed = Some(format!("{}: {error}", lock.id));
                    break 'all;
                }
            }
        }
    }
    let all: Vec<Measured> = rounds.into_iter().filter_map(median).collect();
    show(args, &load, &all, out)?;
    for line in left_out.values() {
        writeln!(out, "{line}")?;
    }
    if let Some(error) = failed {
        return Err(error.into()); // what was measured before is shown
    }
    if all.is_empty() {
        return Err("no lock was measured".into());
    }
    Ok(all.iter().all(Measured::is_sound))
}

fn show(args: &Bench, load: &Load, all: &[Measured], out: &mut impl Write) -> Fallible<()> {
    let Some(first) = all.first() else {
        return Ok(());
    };
    let how = load.rate.map_or_else(
        || "closed loop".to_owned(),
        |rate| format!("{rate} cycles/s begun"),
    );
    let tasks = match load.tasks {
        1 => String::new(),
        tasks => format!(" of {tasks} tasks"),
    };
    writeln!(
        out,
        "{}; clients: {}{tasks}, keys: {}, lease: {:?}, hold: {:?}; {how}\n",
        first.place, load.clients, load.keys, load.lease, load.hold
    )?;
    writeln!(out, "{}", table(all))?;
    if let Some(path) = &args.json {
        write_file(path, &json(all))?;
        writeln!(out, "  json: {}", path.display())?;
    }
    if let Some(path) = &args.report {
        write_file(path, &page(all))?;
        writeln!(out, "  report: {}", path.display())?;
    }
    Ok(())
}

/// The first ^C sets the returned flag; the second one ends the program.
fn listen_for_interrupts() -> Fallible<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&interrupted);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    thread::spawn(move || {
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if told.swap(true, Ordering::Relaxed) {
                    process::exit(130);
                }
            }
        });
    });
    Ok(interrupted)
}
