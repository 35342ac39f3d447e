//! The program `redouble-check`, as its users start it.

#![expect(clippy::unwrap_used, reason = "a test that fails")]

use serde_json::Value;
use std::{
    fs,
    io::{self, Write},
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

    /// Runs the program with reports that it writes to the folder.
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
    // A program that does not read its input may have ended.
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
fn the_program_prints_no_error_if_its_output_pipe_is_closed() {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let ended = Command::new(env!("CARGO_BIN_EXE_redouble-check"))
        .arg("--list")
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    assert_eq!(ended.status.code(), Some(2), "it is not told to the end");
}

#[test]
fn the_list_names_locks_by_groups_faults_and_properties() {
    let folder = Folder::new();
    let list = text(&folder.start(&["--list"]));
    for part in [
        "locks of redouble-lock (28)",
        "blind-del (B02)",
        "known lock bugs",
        "met in: ",
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
    let output = folder.judge(&["--lock", "cana*", "mut?x", "--seeds", "64"]);
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

/// Returns the names of all elements. Fails if an element is not closed, or closed without being opened.
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
            ["overwork", "pause", "several faults", "no fault"].contains(&fault),
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
    // A mistake that shows only under a pause does not show under this fault. The verdict is open, not wrong.
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
    // A sound lock keeps its promises in the same scenario.
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
fn mutants_are_noticed_or_named_and_the_floor_decides() {
    let folder = Folder::new();
    let hunt = |floor| {
        let args = [
            "mutants", "--lock", "mutex", "--seeds", "40", "--floor", floor,
        ];
        let output = folder.start(&args);
        (code(&output), text(&output))
    };
    let (code, told) = hunt("1");
    assert_eq!(code, 0, "{told}");
    let last = told.lines().last().unwrap();
    let counts: Vec<usize> = last
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    let [killed, all, percent] = counts[..] else {
        panic!("{last}")
    };
    assert!(0 < killed && killed < all, "{last}");
    assert_eq!(percent, killed * 100 / all, "{last}");
    let named = told
        .lines()
        .filter(|line| line.starts_with("  survives, line "))
        .count();
    assert_eq!(named, all - killed, "{told}");
    let same = told
        .lines()
        .filter(|line| line.starts_with("  no difference, line "))
        .count();
    assert!(same > 0, "{told}");
    let counted = format!("; {same} more make no difference");
    assert!(told.lines().next().unwrap().ends_with(&counted), "{told}");
    assert_eq!(hunt("100"), (1, told));
}

#[test]
fn an_invalid_invocation_says_why_and_exits_with_2() {
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
        (
            &["mutants", "--lock", "canary"],
            "breaks its promise without a change",
        ),
        (&["bench", "--backend", "cloud"], "unknown backend"),
        (
            &["bench", "--clients", "2", "--keys", "3"],
            "each key needs a client",
        ),
        (&["bench", "--rate", "0"], "a rate per second is a number"),
        (
            &[
                "bench",
                "--backend",
                "redis://127.0.0.1:1",
                "--seconds",
                "1",
            ],
            "mutex: ",
        ),
        (&["bench", "--lock", "latch"], "no lock was measured"),
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

/// Checks the percentiles of a latency in the results of a bench: their number and their order.
fn assert_ordered(latency: &Value, count: u64) {
    assert_eq!(latency["count"], count, "{latency}");
    let times: Vec<u64> = ["p50", "p99", "p99_9", "max"]
        .iter()
        .map(|name| latency[name].as_u64().unwrap())
        .collect();
    assert!(times.is_sorted(), "{latency}");
    let curve = latency["curve"].as_array().unwrap();
    let point = |it: &Value| (it[0].as_f64().unwrap(), it[1].as_u64().unwrap());
    let points: Vec<_> = curve.iter().map(point).collect();
    assert!(
        points
            .windows(2)
            .all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1),
        "{latency}"
    );
    assert_eq!(points.last(), Some(&(1.0, times[3])));
}

/// Checks facts that are true of any measurement of a lock, however fast it was.
fn assert_adds_up(lock: &Value, clients: usize) {
    let number = |name: &str| lock[name].as_u64().unwrap();
    let of_clients = lock["cycles_of_callers"].as_array().unwrap();
    assert_eq!(of_clients.len(), clients);
    let cycles: u64 = of_clients.iter().map(|it| it.as_u64().unwrap()).sum();
    assert!(cycles > 0 && cycles == number("cycles"), "{lock}");
    let failures = lock["failures"].as_object().unwrap();
    let failed: u64 = failures.values().map(|it| it.as_u64().unwrap()).sum();
    assert_eq!(
        number("asked"),
        cycles + failed + number("unfinished"),
        "{lock}"
    );
    assert!(number("unfinished") <= clients as u64, "{lock}");
    let granted = lock["acquire_us"]["count"].as_u64().unwrap();
    assert!((cycles..=number("asked")).contains(&granted), "{lock}");
    assert_ordered(&lock["acquire_us"], granted);
    let fairness = lock["fairness"].as_f64().unwrap();
    assert!((1.0 / clients as f64..=1.0).contains(&fairness), "{lock}");
    let seconds = lock["seconds"].as_f64().unwrap();
    let rate = lock["cycles_per_second"].as_f64().unwrap();
    assert!((rate * seconds - cycles as f64).abs() < 0.5, "{lock}");
    let commands = lock["commands"].as_object().unwrap().values();
    let commands: u64 = commands.map(|it| it.as_u64().unwrap()).sum();
    let per_cycle = lock["commands_per_cycle"].as_f64().unwrap();
    assert!(
        (per_cycle * cycles as f64 - commands as f64).abs() < 0.5,
        "{lock}"
    );
    assert!(per_cycle >= 2.0, "it is taken and given back: {lock}");
}

#[test]
fn a_bench_measures_locks_and_its_figures_add_up() {
    let folder = Folder::new();
    let output = folder.start(&[
        "bench",
        "--lock",
        "mutex",
        "fair",
        "semaphore",
        "redlock-of-three",
        "latch",
        "--clients",
        "4",
        "--seconds",
        "0.4",
        "--json",
        "result.json",
        "--report",
        "report.html",
    ]);
    let told = text(&output);
    assert_eq!(code(&output), 0, "{told}");
    for part in [
        "cycles/s",
        "hand-over",
        "not measured: latch",
        "report: report.html",
    ] {
        assert!(told.contains(part), "{part} is missing:\n{told}");
    }
    let json = folder.json();
    assert_eq!(
        (&json["loop"], &json["sound"]),
        (&"closed".into(), &true.into())
    );
    let locks = json["locks"].as_array().unwrap();
    let names: Vec<_> = locks
        .iter()
        .map(|it| it["lock"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["mutex", "fair", "semaphore", "redlock-of-three"]);
    for lock in locks {
        assert_adds_up(lock, 4);
        assert_eq!(
            (&lock["overlaps"], &lock["unserved"]),
            (&0.into(), &0.into())
        );
    }
    let handed = locks[1]["hand_over_us"]["count"].as_u64().unwrap();
    assert!(handed > 0, "waiters are served in turn: {}", locks[1]);
    assert_ordered(&locks[1]["hand_over_us"], handed);
    let page = folder.read("report.html");
    assert_eq!(page.matches("<svg").count(), 4);
    assert!(page.contains("<th scope=\"row\">fair</th>"), "{page}");
}

#[test]
fn an_open_loop_begins_as_many_cycles_as_it_was_told() {
    let folder = Folder::new();
    let output = folder.start(&[
        "bench",
        "--clients",
        "1",
        "--tasks",
        "2",
        "--hold",
        "1us",
        "--rate",
        "50",
        "--seconds",
        "0.5",
        "--json",
        "result.json",
    ]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    let json = folder.json();
    assert_eq!((&json["loop"], &json["tasks"]), (&"open".into(), &2.into()));
    let lock = &json["locks"][0];
    assert_adds_up(lock, 2);
    let begun = lock["asked"].as_u64().unwrap() + lock["unserved"].as_u64().unwrap();
    // The rate times the duration, rounded up per client.
    let due = 50.0 * lock["seconds"].as_f64().unwrap().min(0.5);
    assert!(
        (begun as f64 - due).abs() <= 2.0,
        "{begun} of {due}: {lock}"
    );
}

#[test]
fn a_lock_that_two_hold_at_once_is_no_lock_however_fast() {
    let folder = Folder::new();
    // A mutex inside the process, with each client in a process of its own.
    let output = folder.start(&[
        "bench",
        "--lock",
        "B42",
        "--clients",
        "4",
        "--seconds",
        "0.5",
        "--hold",
        "5ms",
    ]);
    assert_eq!(code(&output), 1, "{}", text(&output));
    assert!(
        text(&output).contains("HAD MORE HOLDERS THAN ALLOWED"),
        "{}",
        text(&output)
    );
}

/// Returns the arguments of each call of `redouble-check` in the code of the README and of the book.
fn documented() -> Vec<Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut pages, mut folders) = (vec![root.join("README.md")], vec![root.join("docs/src")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => pages.push(path),
            }
        }
    }
    pages.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    let mut found = Vec::new();
    for page in pages {
        let text = fs::read_to_string(page).unwrap();
        for code in text.split(['`', '\n']) {
            let code = code.trim_start_matches("$ ").split(" #").next().unwrap();
            let command = code.split_once("--bin redouble-check -- ");
            let command = command.map(|(_, rest)| rest);
            if let Some(words) = command.or_else(|| code.strip_prefix("redouble-check ")) {
                found.push(words.split_whitespace().map(str::to_owned).collect());
            }
        }
    }
    found
}

#[test]
fn documented_options_exist() {
    let folder = Folder::new();
    let all = documented();
    assert!(all.len() > 8, "{all:?}");
    for words in all {
        let options = words.iter().take_while(|word| *word != "--");
        let options: Vec<&str> = options.map(String::as_str).chain(["--help"]).collect();
        let output = folder.start(&options);
        assert!(output.status.success(), "{words:?}: {}", text(&output));
    }
    assert!(
        !folder
            .start(&["--no-such-option", "--help"])
            .status
            .success()
    );
}
