//! Locks of other languages: the verdicts on redis-py's `Lock` and on `redlock` of npm, and the messages to the author
//! of an adapter that breaks the protocol. A missing interpreter fails under `CI=true`.

use redouble_conformance::{
    backend::{Backend, Double, Real, WallClock},
    checker::Property,
    coverage::Coverage,
    history::Actor,
    report::terminal,
    runner::{self, Counterexample, Plan, Trial, run_trial},
    scenario::{Event, Fault, Happening, Lost, Op, Scenario, Schedule, ServerError, Topology},
    subject::{DynSubject, Expected, Foreign, ForeignError},
};
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

const REDIS_PY: &str = "6.4.0";
const ADAPTERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/adapters");

/// Runs a program to its end. If it fails, returns its error output.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(()).ok_or(complaint)
}

/// Largest number of attempts to get a package from its registry.
const DOWNLOADS_MAX: usize = 3;

/// Gets a package by a program that may fail because a registry does not answer.
fn download(command: &mut Command) -> Result<(), String> {
    let mut got = run(command);
    for _ in 1..DOWNLOADS_MAX {
        if got.is_ok() {
            break;
        }
        thread::sleep(std::time::Duration::from_secs(5));
        got = run(command);
    }
    got
}

/// Returns the value. Without it the test prints the reason and ends; under `CI=true` it fails.
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

/// Lets one test at a time install packages.
static INSTALLS: Mutex<()> = Mutex::new(());

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Returns the command of the redis-py adapter, in an environment with this package.
fn redis_py() -> Result<Vec<OsString>, String> {
    let _alone = INSTALLS.lock();
    let folder = folder(&format!("adapter-redis-py-{REDIS_PY}"));
    let python = folder.join("bin/python");
    let import = format!("import redis; assert redis.__version__ == '{REDIS_PY}'");
    let has_it = || run(Command::new(&python).args(["-c", &import]));
    if has_it().is_err() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        let package = format!("redis=={REDIS_PY}");
        download(Command::new(&python).args(["-m", "pip", "install", "--quiet", &package]))?;
        has_it()?;
    }
    let adapter = format!("{ADAPTERS}/redis_py_lock.py");
    Ok(vec![python.into(), adapter.into()])
}

/// Returns the command of the redlock adapter, beside its packages.
fn redlock(nodes: &str) -> Result<Vec<OsString>, String> {
    let _alone = INSTALLS.lock();
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
        download(npm.current_dir(&folder))?;
    }
    let adapter = folder.join("redlock.mjs");
    Ok(vec!["node".into(), adapter.into(), nodes.into()])
}

const LEASE_MS: u64 = 400;

/// Judges a lock until its runs have shown enough. A busy machine spoils runs in real time, so the number of seeds is
/// not known beforehand.
fn judge(
    lock: &Foreign,
    backend: &dyn Backend,
    properties: &[Property],
    enough: fn(&Coverage) -> bool,
) {
    let mut seen = Coverage::default();
    for first in (0..SEEDS_MAX).step_by(JOBS) {
        let plan = Plan {
            seeds: first..first + JOBS as u64,
            jobs: JOBS,
            properties: properties.to_vec(),
            ..Plan::quick(backend)
        };
        let trial = run_trial(lock, Expected::Sound, backend, &plan, &|_| {});
        let trial = trial.expect("the server is there");
        eprintln!("{}, seeds from {first}: {:?}", trial.name, told(&trial));
        is_safe(lock, backend, properties, &trial);
        seen.add(&trial.coverage);
        if enough(&seen) {
            return;
        }
    }
    panic!("{SEEDS_MAX} seeds have not shown enough: {seen:?}");
}

const JOBS: usize = 4; // a run mostly sleeps, and another test may run beside it
const SEEDS_MAX: u64 = 120;

/// True if the runs prove anything: clients contended for the lock, and leases ended while it was held.
fn contended_and_expired(seen: &Coverage) -> bool {
    let of = |name: &str| seen.probes().find(|it| it.0 == name).map_or(0, |it| it.1);
    seen.runs >= 12 && of("contended") * 10 >= seen.runs && of("expiry while held") > 0
}

/// Returns the promised properties that broke, with the messages of the violations.
fn told(trial: &Trial) -> Vec<(Property, &str)> {
    let examples = trial.counterexamples.iter();
    let told = examples.map(|it| {
        let witness = it.judged.witness(it.property);
        (it.property, witness.map_or("", |it| &*it.message))
    });
    told.collect()
}

/// Properties that every lock must keep: holders exclude each other, and no client is kept out for longer than a lease.
const SAFETY: [Property; 7] = [
    Property::NoPanics,
    Property::Exclusion,
    Property::Accesses,
    Property::Linearizable,
    Property::Ownership,
    Property::Progress,
    Property::GroundedBelief,
];

/// Checks that no violation of these properties shows again in two further runs: the machine may have been busy with
/// other programs.
fn is_safe(lock: &Foreign, backend: &dyn Backend, properties: &[Property], trial: &Trial) {
    let again = |it: &Counterexample| {
        let judged = runner::judge(lock, backend, &it.scenario).expect("the server is there");
        judged.witness(it.property).is_some()
    };
    let mut unsafe_in = trial.counterexamples.iter();
    let broken = unsafe_in.find(|it| properties.contains(&it.property) && again(it) && again(it));
    if let Some(broken) = broken {
        panic!(
            "{:?}\n{}\n{}",
            told(trial),
            broken.scenario.to_json(),
            broken.timeline()
        );
    }
}

/// A scenario with one client: its calls with their times in milliseconds. The first reply after `lost_at_ms` is lost.
fn reply_lost(calls: &[(u64, Op)], lost_at_ms: u64) -> Scenario {
    let calls = (0..).zip(calls).map(|(id, &(at_ms, op))| {
        let actor = Actor::on(0);
        let happening = Happening::Op { actor, op };
        Event {
            id,
            at_ms,
            happening,
        }
    });
    let lost = Fault::Cut {
        host: 0,
        node: None,
        lost: Lost::Reply,
    };
    let fault = Event {
        id: 100,
        at_ms: lost_at_ms,
        happening: Happening::Fault {
            for_ms: 300,
            fault: lost,
        },
    };
    Scenario {
        seed: 1,
        lease_ms: 6_000, // redis-py waits for up to two seconds before it connects again
        schedule: Schedule::Random,
        latency_ms: 0,
        timeout_ms: None,
        topology: Topology::ONE,
        events: calls.chain([fault]).collect(),
    }
}

/// Largest number of runs of a scenario: its times are real, and a busy machine may keep an adapter from sending in time.
const ATTEMPTS_MAX: usize = 5;

/// Checks that a lock breaks a property in a scenario, with a message that contains `says`.
fn breaks(lock: &Foreign, property: Property, scenario: &Scenario, says: &str) {
    let backend = WallClock::new(Double, scenario.lease_ms);
    let mut told = String::new();
    for _ in 0..ATTEMPTS_MAX {
        let judged = runner::judge(lock, &backend, scenario).expect("the double is there");
        let mut lanes = Vec::new();
        terminal::lanes(&mut lanes, &judged.run.history, None).expect("it is written to memory");
        let witness = judged.witness(property);
        told = witness.map_or_else(
            || format!("nothing:\n{}", String::from_utf8_lossy(&lanes)),
            |it| it.message.clone(),
        );
        if told.contains(says) {
            return;
        }
        eprintln!("{}: {told}", lock.name());
    }
    panic!("{ATTEMPTS_MAX} runs did not show {says:?}; the last one: {told}");
}

/// The reply to a release is lost, the client sends the release again, and the lock mistakes the second reply for the
/// first.
fn calls_lost_what_it_gave_back(lock: &Foreign) {
    // At the first release the server does not know the script yet.
    let calls = [
        (0, Op::TRY),
        (300, Op::Release),
        (600, Op::TRY),
        (1_400, Op::Release),
    ];
    let release = reply_lost(&calls, 900);
    let lie = "that the lock was lost already, but its own request had removed it";
    breaks(lock, Property::Truth, &release, lie);
}

#[test]
fn redis_py_keeps_holders_apart_and_a_lost_reply_keeps_it_from_its_own_lock() {
    let Some(command) = there("redis-py", redis_py()) else {
        return;
    };
    let lock = Foreign::start(command).unwrap();
    assert!(lock.is_observed());
    calls_lost_what_it_gave_back(&lock);
    // When the client sends SET NX again, the command finds the client's own token, which the client does not
    // recognize. The next call finds this token as well.
    let calls = [
        (0, Op::TRY),
        (300, Op::Release),
        (1_000, Op::TRY),
        (4_000, Op::TRY),
    ];
    let left = "these remain: keys [{lock}]";
    breaks(&lock, Property::CleanUp, &reply_lost(&calls, 500), left);
    judge(
        &lock,
        &WallClock::new(Double, LEASE_MS),
        &SAFETY,
        contended_and_expired,
    );
}

#[test]
fn redlock_of_npm_keeps_holders_apart_and_calls_lost_what_it_gave_back() {
    let Some(command) = there("node with redlock", redlock("1")) else {
        return;
    };
    let lock = Foreign::start(command).unwrap();
    calls_lost_what_it_gave_back(&lock);
    judge(
        &lock,
        &WallClock::new(Double, LEASE_MS),
        &SAFETY,
        contended_and_expired,
    );
}

/// Two of three servers answer an extension with errors, and one of these stores the grant. The lock then frees it on the third server:
/// it belongs to no majority any more before its holder hears of it.
fn gives_away_what_it_cannot_extend(lock: &Foreign) {
    let op = |id, at_ms, op| Event {
        id,
        at_ms,
        happening: Happening::Op {
            actor: Actor::on(0),
            op,
        },
    };
    let errors = |id, at_ms, node, error| Event {
        id,
        at_ms,
        happening: Happening::Fault {
            for_ms: 3_000 - at_ms,
            fault: Fault::AnswerError { node, error },
        },
    };
    let scenario = Scenario {
        seed: 1,
        lease_ms: 6_000,
        schedule: Schedule::Random,
        latency_ms: 0,
        timeout_ms: None,
        topology: Topology::Nodes(3),
        // In real time a fault may strike some time later: the adapters start first.
        events: vec![
            errors(0, 0, 2, ServerError::MasterDown),
            op(1, 1_000, Op::TRY),
            errors(2, 1_200, 1, ServerError::Busy),
            op(3, 2_000, Op::Renew),
        ],
    };
    let freed = "a request of c1 freed the grant of c1";
    breaks(lock, Property::Ownership, &scenario, freed);
}

#[test]
fn redlock_of_npm_on_three_servers_keeps_holders_apart_until_an_extension_fails() {
    let Some(command) = there("node with redlock", redlock("3")) else {
        return;
    };
    let lock = Foreign::start(command).unwrap();
    gives_away_what_it_cannot_extend(&lock);
    let of_grants = [Property::Ownership, Property::GroundedBelief];
    let others = SAFETY.into_iter().filter(|it| !of_grants.contains(it));
    judge(
        &lock,
        &WallClock::new(Double, LEASE_MS),
        &others.collect::<Vec<_>>(),
        contended_and_expired,
    );
}

#[test]
fn the_same_adapter_on_a_real_server() {
    let Some(real) = Real::from_environment().unwrap() else {
        eprintln!("no redis-server: only the double was asked");
        return;
    };
    let Some(command) = there("redis-py", redis_py()) else {
        return;
    };
    let lock = Foreign::start(command).unwrap();
    judge(&lock, &WallClock::new(real, LEASE_MS), &SAFETY, |seen| {
        seen.runs >= 6 && seen.grants > 0
    });
}

/// An adapter of the kinds in `redis_py_kinds.py`, with one text of the source replaced.
fn kind(kind: &str, right: &str, wrong: &str) -> Option<Foreign> {
    let python = there("redis-py", redis_py().map(|command| command[0].clone()))?;
    let source = fs::read_to_string(Path::new(ADAPTERS).join("redis_py_kinds.py"));
    let source = source.expect("the adapter");
    assert!(source.contains(right), "the adapter has changed");
    let source = source.replace(right, wrong);
    let command = [python, "-c".into(), source.into(), kind.into()];
    Some(Foreign::start(command).expect("the rehearsal goes well"))
}

/// Plays a few more seeds each time and judges these properties, until `enough` returns true for those that broke and the
/// number of runs that counted. A busy machine spoils runs.
fn judge_until(lock: &Foreign, properties: &[Property], enough: impl Fn(&[Property], u64) -> bool) {
    let backend = WallClock::new(Double, LEASE_MS);
    let (mut broken, mut runs) = (Vec::new(), 0);
    for first in (0..SEEDS_MAX).step_by(JOBS) {
        let plan = Plan {
            seeds: first..first + JOBS as u64,
            jobs: JOBS,
            properties: properties.to_vec(),
            ..Plan::quick(&backend)
        };
        let trial = run_trial(lock, Expected::Sound, &backend, &plan, &|_| {});
        let trial = trial.expect("the double is there");
        eprintln!("{}, seeds from {first}: {:?}", trial.name, told(&trial));
        broken.extend(trial.broken());
        runs += trial.coverage.runs;
        if enough(&broken, runs) {
            return;
        }
    }
    panic!("{}: {broken:?} in {runs} runs", lock.name());
}

/// Two at a time: their runs mostly sleep.
fn two_at_a_time<T: Sync>(all: &[T], one: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let worker = || {
        while let Some(it) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            one(it);
        }
    };
    thread::scope(|scope| {
        scope.spawn(worker);
        worker();
    });
}

#[test]
fn adapters_of_other_kinds_are_cleared() {
    two_at_a_time(
        &["read_write", "semaphore", "stream", "admission", "latch"],
        |name| {
            let Some(lock) = kind(name, "PERMITS = 3", "PERMITS = 3") else {
                return;
            };
            let properties = [&[Property::Admission, Property::Latch], &SAFETY[..]].concat();
            judge_until(&lock, &properties, |broken, runs| {
                assert!(broken.is_empty(), "{name}: {broken:?}");
                runs >= 6
            });
            assert!(lock.unobservable().is_none(), "{:?}", lock.unobservable());
        },
    );
}

#[test]
fn one_slip_in_an_adapter_of_another_kind_is_convicted() {
    let readers = "redis.call('PEXPIRE', KEYS[2], ARGV[2])";
    let half = "redis.call('PEXPIRE', KEYS[2], ARGV[2] / 2)";
    let full = "if redis.call('ZCARD', KEYS[1]) >= {PERMITS} then return 0 end";
    let early = "!= b\"0\"";
    let lasts = [
        "redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])",
        "redis.call('ZADD', KEYS[1], now + ARGV[2] / 2, ARGV[1])",
    ];
    let delivered = [
        "'>')\n        redis.call('PEXPIRE', KEYS[1], ARGV[2])",
        "'>')\n        redis.call('PEXPIRE', KEYS[1], ARGV[2] / 2)",
    ];
    let slips = [
        ("read_write", readers, half, Property::GroundedBelief),
        (
            "stream",
            delivered[0],
            delivered[1],
            Property::GroundedBelief,
        ),
        ("semaphore", lasts[0], lasts[1], Property::GroundedBelief),
        ("latch", early, "not in (b\"0\", b\"1\")", Property::Latch),
    ];
    two_at_a_time(&slips, |&(name, right, wrong, property)| {
        if let Some(lock) = kind(name, right, wrong) {
            judge_until(&lock, &[property], |broken, _| !broken.is_empty());
        }
    });
    let Some(python) = there("redis-py", redis_py().map(|command| command[0].clone())) else {
        return;
    };
    let source = fs::read_to_string(Path::new(ADAPTERS).join("redis_py_kinds.py")).unwrap();
    let source = source.replace(full, "");
    let error = Foreign::start([python, "-c".into(), source.into(), "semaphore".into()]);
    let error = error.err().expect("the rehearsal fails").to_string();
    let told = "try of a held lock, one permit: refused was expected, the answer is ok";
    assert!(error.contains(told), "{error}");
}

#[test]
fn an_adapter_that_ends_by_itself_is_no_verdict_on_its_lock() {
    let release = "if op == \"release\" and self.scripts:";
    let ends = "if op == \"release\" and self.lease_ms < 1000:\n            os._exit(7)\n        ";
    let Some(lock) = kind("semaphore", release, &format!("{ends}{release}")) else {
        return;
    };
    let backend = WallClock::new(Double, LEASE_MS);
    let plan = Plan {
        seeds: 0..4,
        jobs: 4,
        ..Plan::quick(&backend)
    };
    let error = run_trial(&lock, Expected::Sound, &backend, &plan, &|_| {});
    let error = error.expect_err("no verdict").to_string();
    assert!(
        error.starts_with("the adapter failed: in the scenario of seed "),
        "{error}"
    );
    assert!(error.contains("it has closed its output"), "{error}");
    assert!(error.ends_with("exit status: 7"), "{error}");
}

/// The suite's message to the author of an adapter in Python that consists of these lines.
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
fn an_error_says_what_an_adapter_does_wrong() {
    if there("python3", run(Command::new("python3").arg("--version"))).is_none() {
        return;
    }
    let always_ok = "say(name='yes')\n\
                     for line in sys.stdin: say(id=json.loads(line)['id'], answer='ok')";
    let wrong_clock = "say(name='late', deadline=True)\n\
                       for line in sys.stdin: say(id=json.loads(line)['id'], answer='ok', deadline_ns=1)";
    let wrong_id = "say(name='x')\n\
                    for line in sys.stdin: say(id=json.loads(line)['id'] + 1000, answer='ok')";
    let wrong_type = "say(name='x')\n\
                      for line in sys.stdin: say(id=json.loads(line)['id'], answer='ok', fence='3')";
    for (body, told) in [
        (
            "sys.exit(3)",
            "first line is invalid: it has closed its output, and has ended with exit status: 3",
        ),
        ("print('hello')", "it wrote \"hello\""),
        ("say(name='x', fenced=True)", "unknown field `fenced`"),
        (
            "say(name='x')",
            "the adapter is of no more use: it has closed its output",
        ),
        ("say(name='x', nodes=0)", "nodes has to be from 1 to 64"),
        ("say(name='x', fair=True)", "add \"waits\": true"),
        (
            "sys.stdout.write('{\"name\":')",
            "it has closed its output in the middle of the line",
        ),
        (
            "print('x' * 100_000)",
            "it wrote a line of more than 65536 bytes",
        ),
        (wrong_id, "it answered a request with the id 1001"),
        (wrong_type, "invalid type: string \"3\", expected u64"),
        (wrong_clock, "is not within a lease"),
        (always_ok, "store nothing"),
    ] {
        let said = refused(body);
        assert!(said.contains(told), "{body}\n{said}");
    }
}

#[test]
fn an_error_names_a_command_that_cannot_start() {
    let error = Foreign::start(["/nowhere/adapter"]).err();
    let error = error.map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("cannot start /nowhere/adapter"));
    let nothing = Foreign::start(Vec::<OsString>::new()).err();
    assert!(matches!(nothing, Some(ForeignError::NoCommand)));
}

#[test]
fn the_program_reports_a_failed_rehearsal() {
    let output = Command::new(env!("CARGO_BIN_EXE_redouble-check"))
        .args(["foreign", "--", "echo", r#"{"name": "echo"}"#])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("failed its rehearsal"), "{said}");
}
