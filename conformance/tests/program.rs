//! `redouble-check` as its users start it.

#![expect(clippy::unwrap_used, reason = "a test that fails")]

use serde_json::Value;
use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.read("result.json")).unwrap()
    }

    fn start(&self, args: &[&str]) -> Output {
        program(self.0.path(), args, "")
    }

    /// Judges with reports that are kept in the folder.
    fn judge(&self, args: &[&str]) -> Output {
        let reports = [
            "--report",
            "report.html",
            "--json",
            "result.json",
            "--junit",
            "result.xml",
        ];
        self.start(&[args, &reports].concat())
    }
}

fn program(folder: &Path, args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_redouble-check"))
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A program that has no use for its input may have ended.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn text(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    format!("{out}{err}")
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

#[test]
fn help_says_what_it_is_for_and_what_to_start_with() {
    let help = text(&Folder::new().start(&["--help"]));
    for part in [
        "Convicts bad distributed locks",
        "What to start with",
        "--list",
        "--lock <NAME>",
        "--fault <NAME>",
        "--property <NAME>",
        "--seeds <N>",
        "--shard <i/n>",
        "--time <TIME>",
        "--fail-fast",
        "--fixed",
        "--redis-bin <PROGRAM>",
        "--json <FILE>",
        "--junit <FILE>",
        "--report <FILE>",
        "replay",
        "Exit code 0",
    ] {
        assert!(help.contains(part), "{part} is missing:\n{help}");
    }
}

#[test]
fn the_list_names_locks_by_groups_faults_and_properties() {
    let folder = Folder::new();
    let list = text(&folder.start(&["--list"]));
    for part in [
        "locks, ours",
        "mutex",
        "canary",
        "convicted of P1, P5",
        "faults:",
        "pause",
        "fixed scenarios (",
        "failover-to-a-late-replica",
        "P20",
    ] {
        assert!(list.contains(part), "{part} is missing:\n{list}");
    }
    let some = text(&folder.start(&["--list", "--lock", "mutex*"]));
    assert!(
        some.contains("mutex-watchdog") && !some.contains("canary"),
        "{some}"
    );
}

#[test]
fn locks_are_chosen_by_patterns_and_the_verdicts_decide_the_exit_code() {
    let folder = Folder::new();
    let output = folder.judge(&["--lock", "can*", "mut?x", "--seeds", "64"]);
    let text = text(&output);
    assert_eq!(code(&output), 0, "{text}");
    for line in [
        "2 locks on double, seeds 0 to 63",
        "ok  mutex",
        "ok  canary",
        "1 of 1 as expected",
    ] {
        assert!(text.contains(line), "{line} is missing:\n{text}");
    }
    assert!(!text.contains("mutex-watchdog"), "{text}");
    assert!(
        !text.contains('\u{1b}'),
        "no bars where there is no terminal:\n{text}"
    );
    let report = folder.read("report.html");
    assert!(report.starts_with("<!doctype html>") && report.contains("\"canary\""));

    let json = folder.json();
    assert_eq!(json["as_expected"], true);
    let verdicts = json["verdicts"].as_array().unwrap();
    for key in [
        "subject", "sub_id", "property", "fault", "backend", "expected", "verdict", "seeds",
        "events",
    ] {
        assert!(
            verdicts.iter().all(|it| it.get(key).is_some()),
            "{key} is missing"
        );
    }
    let broken = |it: &&Value| {
        it["sub_id"] == "canary" && it["property"] == "P1" && it["verdict"] == "broken"
    };
    let broken = verdicts.iter().find(broken).unwrap();
    assert_eq!(broken["expected"], "convicted");
    assert!(broken["seeds"]["first"].is_u64());
    let canary = &json["subjects"].as_array().unwrap()[1];
    assert_eq!(
        (&canary["group"], &canary["outcome"]),
        (&"others".into(), &"as_expected".into())
    );
    assert!(canary["counterexamples"][0]["events"].as_u64().unwrap() <= 8);
}

/// The names of elements that are opened and not closed, or the other way round, are mistakes.
fn elements(xml: &str) -> Vec<&str> {
    let (mut open, mut all) = (Vec::new(), Vec::new());
    for piece in xml.split('<').skip(2) {
        let (tag, _) = piece.split_once('>').unwrap();
        let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{xml}");
        } else {
            all.push(name);
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
    }
    assert!(open.is_empty(), "{open:?}");
    all
}

#[test]
fn junit_has_a_suite_per_lock_and_a_case_per_property() {
    let folder = Folder::new();
    folder.judge(&["--lock", "canary", "--seeds", "64"]);
    let xml = folder.read("result.xml");
    let elements = elements(&xml);
    let count = |name| elements.iter().filter(|it| **it == name).count();
    assert_eq!(
        (count("testsuites"), count("testsuite"), count("failure")),
        (1, 1, 0),
        "{xml}"
    );
    assert!(count("testcase") > 5, "{xml}");
    assert!(xml.contains("name=\"is convicted of P1 or P5\"/>"), "{xml}");
}

#[test]
fn faults_and_properties_are_chosen_by_name() {
    let folder = Folder::new();
    let args = [
        "--lock",
        "canary",
        "--fault",
        "overwork,pause",
        "--property",
        "p5",
        "--seeds",
        "64",
    ];
    let output = folder.judge(&args);
    assert_eq!(code(&output), 0, "{}", text(&output));
    let json = folder.json();
    let verdicts = json["verdicts"].as_array().unwrap();
    assert!(!verdicts.is_empty());
    for verdict in verdicts {
        assert_eq!(verdict["property"], "P5");
        let fault = verdict["fault"].as_str().unwrap();
        assert!(
            ["overwork", "pause", "several at once", "no fault"].contains(&fault),
            "{fault}"
        );
    }
}

#[test]
fn shards_share_the_seeds_and_few_seeds_decide_nothing() {
    let folder = Folder::new();
    let mut runs = 0;
    for shard in ["1/2", "2/2"] {
        let args = ["--lock", "mutex", "--seeds", "31", "--shard", shard];
        let output = folder.judge(&args);
        assert_eq!(code(&output), 0, "{}", text(&output));
        runs += folder.json()["subjects"][0]["runs"].as_u64().unwrap();
    }
    assert_eq!(runs, 31);
    // What only shows under a pause does not without: that is no wrong verdict, but an open one.
    let output = folder.judge(&["--lock", "canary", "--fault", "wall-clock", "--seeds", "8"]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    assert!(text(&output).contains("..  canary"), "{}", text(&output));
}

#[test]
fn time_is_kept() {
    let folder = Folder::new();
    let began = std::time::Instant::now();
    let output = folder.judge(&["--lock", "mutex", "--time", "1s"]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    assert!(folder.json()["subjects"][0]["runs"].as_u64().unwrap() > 0);
}

#[test]
fn a_counterexample_is_saved_and_replayed_from_its_file_and_from_a_pipe() {
    let folder = Folder::new();
    folder.judge(&["--lock", "canary", "--seeds", "64"]);
    let output = folder.start(&["replay", "canary-P5.json"]);
    let told = text(&output);
    assert_eq!(code(&output), 1, "{told}");
    assert!(
        told.contains("P5 owner-only: BROKEN") && told.contains("LOCKED"),
        "{told}"
    );
    let piped = program(
        folder.0.path(),
        &["replay", "-"],
        &folder.read("canary-P5.json"),
    );
    assert_eq!(text(&piped), told);
    // A sound lock bears the same scenario.
    let output = folder.start(&["replay", "canary-P5.json", "--lock", "mutex"]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    let output = folder.start(&[
        "replay", "--seed", "3", "--lock", "mutex", "--fault", "pause",
    ]);
    assert_eq!(code(&output), 0, "{}", text(&output));
}

#[test]
fn the_fixed_scenarios_are_played_alone_and_replayed_by_their_names() {
    let folder = Folder::new();
    let output = folder.judge(&["--fixed", "--lock", "canary", "mutex"]);
    let told = text(&output);
    assert_eq!(code(&output), 0, "{told}");
    assert!(
        told.contains("2 locks on double, the fixed scenarios"),
        "{told}"
    );
    assert!(told.contains("work-too-long, "), "{told}");
    let json = folder.json();
    for subject in json["subjects"].as_array().unwrap() {
        let fixed = &subject["fixed"];
        assert!(fixed["there"].as_u64().unwrap() > 50, "{fixed}");
        assert_eq!(fixed["there"], fixed["played"]);
        assert_eq!(subject["runs"], fixed["played"]);
    }
    for (lock, expected) in [("canary", 1), ("mutex", 0)] {
        let args = ["replay", "--fixed", "work-too-long", "--lock", lock];
        let output = folder.start(&args);
        assert_eq!(code(&output), expected, "{}", text(&output));
    }
}

#[test]
fn what_cannot_run_says_why_and_ends_with_2() {
    let folder = Folder::new();
    for (args, says) in [
        (&["--lock", "nobody*"][..], "no lock is called \"nobody*\""),
        (&["--fault", "rain"], "no fault is called \"rain\""),
        (&["--property", "P99"], "no property is called \"P99\""),
        (&["--shard", "3/2"], "a shard is i/n"),
        (&["--time", "soon"], "a time is a number"),
        (&["--backend", "cloud"], "unknown backend \"cloud\""),
        (
            &["--redis-bin", "valkey-server"],
            "goes with --backend spawn",
        ),
        (
            &["--backend", "spawn", "--redis-bin", "/nowhere/redis"],
            "cannot run /nowhere/redis",
        ),
        (
            &["replay", "--fixed", "rain", "--lock", "mutex"],
            "no scenario is called \"rain\"",
        ),
        (
            &["--backend", "redis://127.0.0.1:1", "--lock", "mutex"],
            "redouble-check: ",
        ),
        (&["replay", "missing.json"], "cannot read missing.json"),
        (&["replay", "--seed", "1"], "--lock"),
        (&["--nonsense"], "--nonsense"),
    ] {
        let output = folder.start(args);
        assert_eq!(code(&output), 2, "{args:?}: {}", text(&output));
        assert!(text(&output).contains(says), "{args:?}: {}", text(&output));
    }
    fs::write(folder.path("broken.json"), "{}").unwrap();
    let output = folder.start(&["replay", "broken.json"]);
    assert_eq!(code(&output), 2);
    assert!(
        text(&output).contains("is not a saved scenario"),
        "{}",
        text(&output)
    );
}
