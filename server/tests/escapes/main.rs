//! Scripts that try to leave the sandbox, to crash the server, or to block it. Each runs in a
//! process of its own, over sockets and in process.
//!
//! The parent starts this test binary again for every script. The child runs a server and the
//! script, and must answer other requests afterwards. The parent judges the outcome.

mod child;
mod table;

use std::fmt;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use table::{ESCAPES, End, Escape};

/// Memory limit of scripts in a child.
const SCRIPT_BYTES_MAX: usize = 64 << 20;
/// Memory limit of a child: some values exist two or three times on their way.
const PEAK_KIB_MAX: u64 = 3 * (SCRIPT_BYTES_MAX as u64 >> 10);
/// A machine may be slow; no script takes a tenth of this.
const PATIENCE: Duration = Duration::from_secs(300);
/// Tells a child its role.
const ROLE: &str = "REDOUBLE_ESCAPE";

/// The role of a child.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Sockets(usize),
    InProcess(usize),
    Canary(Canary),
}

/// Broken children, which show that the parent detects failures.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Canary {
    Aborts,
    SaysNothing,
    TakesMemory,
    Hangs,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sockets(index) => write!(f, "sockets {index}"),
            Self::InProcess(index) => write!(f, "in-process {index}"),
            Self::Canary(canary) => write!(f, "canary {canary:?}"),
        }
    }
}

impl Role {
    fn parse(text: &str) -> Option<Self> {
        let canaries = [
            Canary::Aborts,
            Canary::SaysNothing,
            Canary::TakesMemory,
            Canary::Hangs,
        ];
        let indices = 0..ESCAPES.len();
        indices
            .flat_map(|index| [Self::Sockets(index), Self::InProcess(index)])
            .chain(canaries.map(Self::Canary))
            .find(|role| role.to_string() == text)
    }
}

/// The entry point of a child. Without the environment variable it does nothing.
#[test]
fn child() {
    if let Ok(text) = std::env::var(ROLE) {
        child::act(Role::parse(&text).expect("a role"));
    }
}

#[test]
fn no_script_escapes() {
    let roles: Vec<(Role, &Escape)> = ESCAPES
        .iter()
        .enumerate()
        .flat_map(|(index, escape)| {
            [Role::Sockets(index), Role::InProcess(index)].map(|role| (role, escape))
        })
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut broken = Vec::new();
        while let Some((role, escape)) = roles.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(why) = judge(escape, run(*role, PATIENCE)) {
                broken.push(format!(
                    "{} ({role}): {why}\n  {}",
                    escape.name, escape.script
                ));
            }
        }
        broken
    };
    let broken: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    assert!(
        broken.is_empty(),
        "{} scripts escaped:\n\n{}",
        broken.len(),
        broken.join("\n\n")
    );
}

#[test]
fn the_parent_notices_a_child_that_aborts_hangs_or_takes_memory() {
    let escape = |end| Escape {
        name: "canary",
        script: "",
        end,
    };
    for (canary, expected) in [
        (Canary::Aborts, "ended with"),
        (Canary::SaysNothing, "said nothing"),
        (Canary::TakesMemory, "KiB"),
        (Canary::Hangs, "does not end"),
    ] {
        if canary == Canary::TakesMemory && !cfg!(target_os = "linux") {
            continue;
        }
        let patience = match canary {
            Canary::Hangs => Duration::from_millis(200),
            Canary::Aborts | Canary::SaysNothing | Canary::TakesMemory => PATIENCE,
        };
        let why = judge(&escape(End::With("")), run(Role::Canary(canary), patience));
        assert!(
            why.as_ref().is_err_and(|why| why.contains(expected)),
            "{why:?}"
        );
    }
    let answer = |text: &str| {
        let stdout = format!("{}{text}\n", child::REPLY).into_bytes();
        let status = std::process::ExitStatus::default();
        let stderr = Vec::new();
        let output = Output {
            status,
            stdout,
            stderr,
        };
        Some(output)
    };
    for (end, text, is_fine) in [
        (End::With("readonly"), "-ERR readonly x", true),
        (End::With("readonly"), "-ERR x", false),
        (End::With("readonly"), ":1", false),
        (End::Killed, "-ERR Script killed by user", true),
        (End::Killed, "-ERR x", false),
    ] {
        assert_eq!(judge(&escape(end), answer(text)).is_ok(), is_fine, "{text}");
    }
}

/// The output of a child; nothing if it had to be killed.
#[expect(
    clippy::disallowed_methods,
    reason = "a child that does not end is a matter of real time"
)]
fn run(role: Role, patience: Duration) -> Option<Output> {
    let mut child = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "child", "--nocapture"])
        .env(ROLE, role.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let begun = Instant::now();
    while child.try_wait().expect("it can be waited for").is_none() {
        if begun.elapsed() > patience {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Some(child.wait_with_output().expect("its output"))
}

fn judge(escape: &Escape, left: Option<Output>) -> Result<(), String> {
    let output = left.ok_or("it does not end")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let after = |what: &str| said.lines().find_map(|line| line.split_once(what));
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = errors.lines().take(5).collect();
        return Err(format!(
            "it ended with {}: {}",
            output.status,
            last.join(" ")
        ));
    }
    let peak = after(child::PEAK).and_then(|(_, kib)| kib.parse::<u64>().ok());
    if let Some(kib) = peak.filter(|kib| *kib > PEAK_KIB_MAX) {
        return Err(format!("it took {kib} KiB"));
    }
    let (_, reply) = after(child::REPLY).ok_or("it said nothing")?;
    let wanted = match escape.end {
        End::With(text) => text,
        End::Killed => "Script killed by user",
    };
    if reply.contains(wanted) {
        Ok(())
    } else {
        Err(format!("wanted {wanted:?}, found {reply:?}"))
    }
}
