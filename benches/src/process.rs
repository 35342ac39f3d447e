//! A server in a separate process: started, observed through `/proc`, and always killed.

use crate::client::Control;
use crate::{Error, Result};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest time until a server replies to PING.
const START_MAX: Duration = Duration::from_secs(20);
/// Another process may take a free port before the server binds it.
const PORT_ATTEMPTS: usize = 3;
/// `USER_HZ`, the unit of CPU time in `/proc/PID/stat`; part of the kernel's interface.
const TICKS_PER_SECOND: u64 = 100;

/// A kind of server, and its program.
#[derive(Clone, Debug)]
pub enum Program {
    /// A real Redis.
    Redis(PathBuf),
    /// `redouble serve`.
    Redouble(PathBuf),
    /// This program as the do-nothing server (see [`crate::floor`]).
    Floor(PathBuf),
}

impl Program {
    /// Returns the `redouble` in the folder of the running program, where cargo puts both.
    ///
    /// # Errors
    /// If it has not been built.
    pub fn redouble_beside_this() -> Result<Self> {
        let name = format!("redouble{}", std::env::consts::EXE_SUFFIX);
        let path = std::env::current_exe()?.with_file_name(name);
        if path.is_file() {
            Ok(Self::Redouble(path))
        } else {
            Err(not_built(&path))
        }
    }

    /// Starts the server on a free port of 127.0.0.1, without persistence, and waits for its first PONG.
    ///
    /// # Errors
    /// If the program is missing, ends, or does not reply.
    pub fn start(&self) -> Result<Server> {
        match self {
            Self::Redouble(path) => start_announcing(path, &["serve", "--port", "0"]),
            Self::Floor(path) => start_announcing(path, &["--serve-floor"]),
            Self::Redis(path) => {
                let mut result = start_redis(path);
                for _ in 1..PORT_ATTEMPTS {
                    if !matches!(&result, Err(error) if error.to_string().contains("ddress already in use"))
                    {
                        break;
                    }
                    result = start_redis(path);
                }
                result
            }
        }
    }
}

fn not_built(path: &Path) -> Error {
    format!(
        "there is no {}; build it with\n    cargo build --release -p redouble --features cli\nor name it with --redouble PATH",
        path.display()
    )
    .into()
}

fn start_redis(path: &Path) -> Result<Server> {
    let dir = tempfile::tempdir()?;
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port();
    let log = dir.path().join("redis.log");
    let output = File::create(&log)?;
    let mut command = Command::new(path);
    command
        .args([
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
            "--daemonize",
            "no",
            "--port",
        ])
        .arg(port.to_string())
        .arg("--dir")
        .arg(dir.path())
        .stdin(Stdio::null())
        .stderr(output.try_clone()?)
        .stdout(output);
    let child = command.spawn().map_err(|error| -> Error {
        if error.kind() == std::io::ErrorKind::NotFound {
            format!(
                "there is no {}; install Redis or name the program with --redis-server PATH",
                path.display()
            )
            .into()
        } else {
            format!("cannot start {}: {error}", path.display()).into()
        }
    })?;
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut server = Server {
        child,
        addr,
        _dir: Some(dir),
    };
    let explain = |why: &str| -> Error {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        format!("{} {why}; it said:\n{}", path.display(), log.trim_end()).into()
    };
    let began = Instant::now();
    loop {
        if let Some(status) = server.child.try_wait()? {
            return Err(explain(&format!("ended at once ({status})")));
        }
        if Control::connect(addr)
            .and_then(|mut control| control.call(&["PING"]))
            .is_ok()
        {
            return Ok(server);
        }
        if began.elapsed() > START_MAX {
            return Err(explain(&format!("did not reply for {START_MAX:?}")));
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Starts a program that prints its address when it listens.
fn start_announcing(path: &Path, args: &[&str]) -> Result<Server> {
    let mut command = Command::new(path);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let child = command.spawn().map_err(|error| -> Error {
        if error.kind() == std::io::ErrorKind::NotFound {
            not_built(path)
        } else {
            format!("cannot start {}: {error}", path.display()).into()
        }
    })?;
    let mut server = Server {
        child,
        addr: (Ipv4Addr::LOCALHOST, 0).into(),
        _dir: None,
    };
    let stdout = server
        .child
        .stdout
        .take()
        .ok_or("redouble has no standard output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let addr = line
        .trim_end()
        .strip_prefix("ready redis://")
        .and_then(|addr| addr.parse().ok());
    server.addr =
        addr.ok_or_else(|| format!("{} did not print its address: {line:?}", path.display()))?;
    Control::connect(server.addr)?.call(&["PING"])?;
    Ok(server)
}

/// A running server. Dropping this value kills it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    addr: SocketAddr,
    _dir: Option<TempDir>,
}

impl Server {
    /// Returns the address of the server.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the version that the server reports.
    ///
    /// # Errors
    /// If INFO fails or has no version.
    pub fn version(&self) -> Result<String> {
        let info = Control::connect(self.addr)?.call(&["INFO", "server"])?;
        let info = String::from_utf8_lossy(&info);
        let version = info
            .lines()
            .find_map(|line| line.strip_prefix("redis_version:"));
        Ok(version.ok_or("INFO has no version")?.trim_end().to_owned())
    }

    /// Returns the CPU time of all its threads since its start, user and system.
    ///
    /// # Errors
    /// If there is no `/proc`.
    pub fn cpu(&self) -> Result<Duration> {
        self.threads_cpu()
            .map_or_else(|| ticks(&self.read("stat")?), Ok)
    }

    /// Returns the CPU time in nanoseconds from the scheduler's statistics of each thread. Threads that have
    /// ended are missing, but neither server ends threads during a measurement.
    fn threads_cpu(&self) -> Option<Duration> {
        let mut nanos = 0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()? {
            let schedstat = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            nanos += schedstat
                .split_ascii_whitespace()
                .next()?
                .parse::<u64>()
                .ok()?;
        }
        // A kernel without these statistics shows zeros.
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }

    /// Returns the resident memory in bytes.
    ///
    /// # Errors
    /// If there is no `/proc`.
    pub fn resident_bytes(&self) -> Result<u64> {
        resident(&self.read("status")?)
    }

    fn read(&self, file: &str) -> Result<String> {
        let path = format!("/proc/{}/{file}", self.child.id());
        std::fs::read_to_string(&path)
            .map_err(|error| format!("cannot read {path} (Linux is needed): {error}").into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn ticks(stat: &str) -> Result<Duration> {
    // The name in parentheses may contain spaces and parentheses; the state is the first field after it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let field = |index: usize| {
        fields
            .split_ascii_whitespace()
            .nth(index)
            .and_then(|field| field.parse::<u64>().ok())
    };
    let (user, system) = field(11)
        .zip(field(12))
        .ok_or("/proc/PID/stat has another form than expected")?;
    Ok(Duration::from_millis(
        (user + system) * 1000 / TICKS_PER_SECOND,
    ))
}

fn resident(status: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes =
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kibibytes.ok_or("/proc/PID/status has no VmRSS")? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_proc_are_parsed() {
        let stat = "17 (a) b (c) S 1 17 17 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 5 0 900 1 2";
        assert_eq!(ticks(stat).expect("well formed"), Duration::from_secs(3));
        assert!(ticks("17 (a").is_err());
        assert_eq!(
            resident("VmSize:\t  9 kB\nVmRSS:\t  1536 kB\n").expect("well formed"),
            1536 * 1024
        );
        assert!(resident("VmSize:\t 9 kB\n").is_err());
    }

    #[test]
    fn an_error_names_a_missing_program_and_a_remedy() {
        for (program, expected) in [
            (
                Program::Redis("/nonexistent/redis-server".into()),
                "--redis-server PATH",
            ),
            (
                Program::Redouble("/nonexistent/redouble".into()),
                "cargo build --release",
            ),
        ] {
            let error = program.start().expect_err("it is missing").to_string();
            assert!(
                error.contains("/nonexistent/") && error.contains(expected),
                "{error}"
            );
        }
    }
}
