//! Locks of other languages: what is true of redis-py's `Lock` and of `redlock` of npm, and what an
//! adapter is told that does not do its part. Interpreters that are missing fail under `CI=true`.

#![cfg(unix)]

use redouble_conformance::{
    backend::{Double, Real, WallClock},
    checker::Property,
    runner::{Plan, Trial, run_trial},
    subject::{Expected, Foreign, ForeignError, Suspect},
};
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};

const REDIS_PY: &str = "6.4.0";
const ADAPTERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/adapters");

/// Runs a program to its end; what it complained of otherwise.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(()).ok_or(complaint)
}

/// Without what it takes a test says so and ends, but not under `CI=true`.
fn there<T>(what: &str, made: Result<T, String>) -> Option<T> {
    let required = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    match made {
        Ok(made) => Some(made),
        Err(why) if required => panic!("no {what}: {why}"),
        Err(why) => {
            eprintln!("no {what}, its lock was not tried: {why}");
            None
        }
    }
}

/// Only one test at a time makes packages or measures times.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The adapter of redis-py, in an environment that has it.
fn redis_py() -> Result<Vec<OsString>, String> {
    let folder = folder(&format!("adapter-redis-py-{REDIS_PY}"));
    let python = folder.join("bin/python");
    let import = format!("import redis; assert redis.__version__ == '{REDIS_PY}'");
    let has_it = || run(Command::new(&python).args(["-c", &import]));
    if has_it().is_err() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        let package = format!("redis=={REDIS_PY}");
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", &package]))?;
        has_it()?;
    }
    let adapter = format!("{ADAPTERS}/redis_py_lock.py");
    Ok(vec![python.into(), adapter.into()])
}

/// The adapter of redlock beside its packages.
fn redlock(nodes: &str) -> Result<Vec<OsString>, String> {
    let folder = folder("adapter-redlock");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    for file in ["package.json", "redlock.mjs"] {
        let copied = fs::copy(format!("{ADAPTERS}/node/{file}"), folder.join(file));
        copied.map_err(|error| error.to_string())?;
    }
    let has_it = || {
        let packages = ["redlock", "ioredis"].map(|it| folder.join("node_modules").join(it));
        packages.iter().all(|package| package.is_dir())
    };
    run(Command::new("node").arg("--version"))?;
    if !has_it() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund"]);
        run(npm.current_dir(&folder))?;
    }
    let adapter = folder.join("redlock.mjs");
    Ok(vec!["node".into(), adapter.into(), nodes.into()])
}

const LEASE_MS: u64 = 400;

fn judge(lock: &Foreign, plan: Plan) -> Trial {
    let backend = WallClock::new(Double, LEASE_MS);
    let trial = run_trial(lock, Expected::Sound, &backend, &plan, &|_| {});
    let trial = trial.expect("the double is there");
    eprintln!("{}: {:?}", trial.name, told(&trial));
    trial
}

/// What broke within what was promised, with how it was seen.
fn told(trial: &Trial) -> Vec<(Property, &str)> {
    let examples = trial.counterexamples.iter();
    let told = examples.map(|it| {
        let witness = it.judged.witness(it.property);
        (it.property, witness.map_or("", |it| &*it.message))
    });
    told.collect()
}

fn plan(seeds: u64) -> Plan {
    Plan {
        seeds: 0..seeds,
        jobs: 2,
        ..Plan::quick(&WallClock::new(Double, LEASE_MS))
    }
}

/// Whether the runs have shown anything: locks that were contended, and faults that struck.
fn shows_enough(trial: &Trial) {
    let seen: Vec<_> = trial.coverage.sights().collect();
    let of = |name: &str| seen.iter().find(|it| it.0 == name).map_or(0, |it| it.1);
    let runs = trial.coverage.runs;
    assert!(runs * 2 >= trial.plan.seeds.end, "{runs} runs: {trial:?}");
    assert!(of("contended") * 10 >= runs, "{seen:?}");
    for sight in ["death of a holder", "pause of a holder"] {
        assert!(of(sight) > 0, "{sight}: {seen:?}");
    }
}

#[test]
fn redis_py_keeps_its_holders_apart() {
    let _alone = ONE_AT_A_TIME.lock();
    let Some(command) = there("redis-py", redis_py()) else {
        return;
    };
    let lock = Foreign::start(command).unwrap();
    assert!(lock.is_observed());
    let trial = judge(&lock, plan(60));
    shows_enough(&trial);
}

#[test]
fn redlock_of_npm() {
    let _alone = ONE_AT_A_TIME.lock();
    for nodes in ["1", "3"] {
        let Some(command) = there("node with redlock", redlock(nodes)) else {
            return;
        };
        let lock = Foreign::start(command).unwrap();
        let trial = judge(&lock, plan(60));
        shows_enough(&trial);
    }
}

#[test]
fn the_same_adapter_on_a_real_server() {
    let _alone = ONE_AT_A_TIME.lock();
    let Some(real) = Real::from_environment().unwrap() else {
        eprintln!("no redis-server: only the double was asked");
        return;
    };
    let Some(command) = there("redis-py", redis_py()) else {
        return;
    };
    let lock = Foreign::start(command).unwrap();
    let backend = WallClock::new(real, LEASE_MS);
    let trial = run_trial(&lock, Expected::Sound, &backend, &plan(12), &|_| {}).unwrap();
    assert!(trial.coverage.grants > 0);
    assert_eq!(told(&trial), []);
}

/// What an adapter in Python is told that consists of these lines.
fn refused(body: &str) -> String {
    let script = format!(
        "import json, os, sys\n\
         def say(**line): print(json.dumps(line), flush=True)\n\
         {body}\n"
    );
    match Foreign::start(["python3", "-c", &script]) {
        Ok(lock) => panic!("{} was let in", lock.name()),
        Err(error) => {
            assert!(!matches!(error, ForeignError::Start { .. }), "{error}");
            error.to_string()
        }
    }
}

#[test]
fn an_adapter_that_does_not_do_its_part_is_told_so() {
    if there("python3", run(Command::new("python3").arg("--version"))).is_none() {
        return;
    }
    let always_ok = "say(name='yes')\n\
                     for line in sys.stdin: say(id=json.loads(line)['id'], answer='ok')";
    let wrong_clock = "say(name='late', deadline=True)\n\
                       for line in sys.stdin: say(id=json.loads(line)['id'], answer='ok', deadline_ns=1)";
    for (body, told) in [
        ("", "did not say who it is: it has closed its output"),
        ("print('hello')", "it wrote \"hello\""),
        ("say(name='x', fenced=True)", "unknown field `fenced`"),
        ("say(name='x')", "the adapter is gone"),
        (wrong_clock, "is not within a lease"),
        (always_ok, "store nothing"),
    ] {
        let said = refused(body);
        assert!(said.contains(told), "{body}\n{said}");
    }
}

#[test]
fn what_cannot_be_started_is_named() {
    let error = Foreign::start(["/nowhere/adapter"]).err();
    let error = error.map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("cannot start /nowhere/adapter"));
    let nothing = Foreign::start(Vec::<OsString>::new()).err();
    assert!(matches!(nothing, Some(ForeignError::NoCommand)));
}
