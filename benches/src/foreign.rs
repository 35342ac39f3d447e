//! Locks of other languages beside those of redouble-lock: the same load on the same server. `benches/foreign/` has the programs.

use crate::Result;
use redouble_conformance::bench::{Load, LockBackend, Round, ServerWork, measure};
use redouble_conformance::subject::SUBJECTS;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Permits of the semaphores, as those of the subject `semaphore`.
const PERMITS: u32 = 3;

/// The program that runs a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// This one, in this process.
    Ours,
    /// `foreign/redisson`, in Java.
    Redisson,
    /// `foreign/redsync`, in Go.
    Redsync,
}

/// A lock in the comparison.
#[derive(Clone, Copy, Debug)]
pub struct Contender {
    /// Locks that are compared with each other have the same word here.
    pub group: &'static str,
    /// Name in the table.
    pub name: &'static str,
    /// Library.
    pub library: Library,
    /// Name of the lock for its library.
    pub lock: &'static str,
}

/// All locks, by group.
pub const CONTENDERS: [Contender; 8] = [
    contender("mutex", "mutex", Library::Ours, "mutex"),
    contender("mutex", "Redisson RLock", Library::Redisson, "mutex"),
    contender("mutex", "redsync", Library::Redsync, "default"),
    contender(
        "mutex",
        "redsync, a try every 5 ms",
        Library::Redsync,
        "every-5-ms",
    ),
    contender("fair", "fair mutex", Library::Ours, "fair"),
    contender("fair", "Redisson RFairLock", Library::Redisson, "fair"),
    contender("semaphore", "semaphore of 3", Library::Ours, "semaphore"),
    contender(
        "semaphore",
        "Redisson RSemaphore of 3",
        Library::Redisson,
        "semaphore",
    ),
];

const fn contender(
    group: &'static str,
    name: &'static str,
    library: Library,
    lock: &'static str,
) -> Contender {
    Contender {
        group,
        name,
        library,
        lock,
    }
}

/// Numbers of clients, and of tasks of each.
pub const SHAPES: [(u8, u8); 3] = [(1, 128), (16, 1), (16, 8)];

/// The folder with the built programs.
#[derive(Clone, Debug)]
pub struct Programs(PathBuf);

impl Programs {
    /// Checks that the programs are there.
    ///
    /// # Errors
    /// If one is missing.
    pub fn in_folder(folder: &Path) -> Result<Self> {
        for name in ["redisson", "redsync/redsync-load"] {
            let path = folder.join(name);
            if !path.exists() {
                let path = path.display();
                return Err(
                    format!("there is no {path}: build it with benches/foreign/build.sh").into(),
                );
            }
        }
        Ok(Self(folder.to_owned()))
    }

    fn command(&self, library: Library) -> Command {
        if library == Library::Redsync {
            return Command::new(self.0.join("redsync/redsync-load"));
        }
        let mut java = Command::new("java");
        let folder = self.0.join("redisson");
        java.arg("-cp")
            .arg(format!("{0}:{0}/*", folder.display()))
            .arg("Load");
        java
    }
}

/// Puts a lock under load.
///
/// # Errors
/// If the server or the program of the lock fails.
pub fn round(
    contender: &Contender,
    load: &Load,
    server: SocketAddr,
    programs: &Programs,
) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let client = redis::Client::open(format!("redis://{server}"))?;
    let mut observer = runtime.block_on(client.get_multiplexed_async_connection())?;
    runtime.block_on(redis::cmd("FLUSHALL").query_async::<()>(&mut observer))?;
    if contender.library == Library::Ours {
        return ours(contender.lock, load, server);
    }
    let arguments = [
        server.to_string(),
        contender.lock.to_owned(),
        load.clients.to_string(),
        load.tasks.to_string(),
        load.time.as_secs().to_string(),
        load.hold.as_micros().to_string(),
        PERMITS.to_string(),
    ];
    let mut program = Running::start(programs.command(contender.library).args(arguments))?;
    program.expect("ready")?;
    let before = runtime.block_on(ServerWork::of(&mut observer))?;
    program.go()?;
    let result: Value = serde_json::from_str(&program.line()?)?;
    let work = runtime.block_on(ServerWork::of(&mut observer))?;
    figures(&result, &work.since(&before))
}

/// Measures a lock of this project.
fn ours(name: &str, load: &Load, server: SocketAddr) -> Result<Value> {
    let row = SUBJECTS.iter().find(|row| row.name == name);
    let row = row.ok_or_else(|| format!("no lock is named {name}"))?;
    let place = LockBackend::parse(&format!("redis://{server}"))?;
    let never = AtomicBool::new(false);
    let measured = measure(&*(row.make)(), &place, load, &never, &|_| {})?;
    let us = |time: Option<Duration>| time.map(|it| it.as_micros());
    let [round] = measured.rounds[..] else {
        return Err("a measurement is one round".into());
    };
    let Round {
        cycles_per_second,
        failed,
        acquire_p50,
        acquire_p99,
        fairness,
        commands_per_cycle,
        requests_per_cycle,
        server_us_per_cycle,
    } = round;
    Ok(json!({
        "cycles_per_second": cycles_per_second,
        "acquire_p50_us": us(acquire_p50),
        "acquire_p99_us": us(acquire_p99),
        "fairness": fairness,
        "commands_per_cycle": commands_per_cycle,
        "requests_per_cycle": requests_per_cycle,
        "server_us_per_cycle": server_us_per_cycle,
        "failed": failed,
        "overlaps": measured.overlaps.count,
    }))
}

/// Returns the same figures from the result of a foreign program and the work of the server.
fn figures(result: &Value, work: &ServerWork) -> Result<Value> {
    let cycles = result["cycles"].as_array().ok_or("no cycles")?;
    let cycles: Vec<f64> = cycles.iter().filter_map(Value::as_f64).collect();
    let sum: f64 = cycles.iter().sum();
    let squares: f64 = cycles.iter().map(|it| it.powi(2)).sum();
    let seconds = result["seconds"].as_f64().ok_or("no seconds")?;
    let commands: u64 = work.commands.values().sum();
    Ok(json!({
        "cycles_per_second": sum / seconds,
        "acquire_p50_us": result["acquire_p50_us"],
        "acquire_p99_us": result["acquire_p99_us"],
        "fairness": sum.powi(2) / (cycles.len() as f64 * squares),
        "commands_per_cycle": commands as f64 / sum,
        "requests_per_cycle": work.reads as f64 / sum,
        "server_us_per_cycle": work.cpu.as_secs_f64() * 1e6 / sum,
        "failed": result["failed"],
        "overlaps": result["overlaps"],
    }))
}

/// A foreign program. Dropping this value ends it.
struct Running {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Running {
    fn start(command: &mut Command) -> Result<Self> {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped
            .spawn()
            .map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let output = child.stdout.take().ok_or("no output")?;
        let output = BufReader::new(output);
        Ok(Self { child, output })
    }

    /// Reads a line.
    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err("the program ended without a result".into());
        }
        Ok(line.trim().to_owned())
    }

    fn expect(&mut self, wanted: &str) -> Result<()> {
        match self.line()? {
            line if line == wanted => Ok(()),
            line => Err(format!("the program says {line:?} instead of {wanted:?}").into()),
        }
    }

    /// Starts the load.
    fn go(&mut self) -> Result<()> {
        let input = self.child.stdin.as_mut().ok_or("no input")?;
        input.write_all(b"go\n")?;
        Ok(input.flush()?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn figures_of_a_foreign_lock_are_per_cycle() -> Result<()> {
        let result = json!({ "seconds": 2.0, "cycles": [30, 10], "acquire_p50_us": 1, "acquire_p99_us": 2, "failed": 0, "overlaps": 0 });
        let work = ServerWork {
            commands: BTreeMap::from([("eval".to_owned(), 80), ("get".to_owned(), 40)]),
            reads: 100,
            cpu: Duration::from_millis(4),
        };
        let figures = figures(&result, &work)?;
        for (name, value) in [
            ("cycles_per_second", 20.0),
            ("commands_per_cycle", 3.0),
            ("requests_per_cycle", 2.5),
            ("server_us_per_cycle", 100.0),
            ("fairness", 0.8),
        ] {
            assert_eq!(figures[name], value, "{name}");
        }
        assert!(super::figures(&json!({ "seconds": 1 }), &work).is_err());
        Ok(())
    }

    #[test]
    fn a_missing_program_is_reported_with_the_remedy() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let error = Programs::in_folder(folder.path())
            .err()
            .map(|it| it.to_string());
        assert!(error.is_some_and(|it| it.contains("benches/foreign/build.sh")));
        Ok(())
    }
}
