//! Generated sequences of commands, on the double and on a real server side by side; without one,
//! against recorded replies.
//!
//! `REDOUBLE_SEEDS=n` runs more than usual; `UPDATE=1` records the corpus anew. `redouble-check
//! commands` does the same for as long as one likes.

use redouble_conformance::{
    backend::redis_server,
    differential::{Campaign, Coverage, Generator, Peer, Report, parse_corpus, write_corpus},
};
use std::{collections::BTreeSet, env, fs, io::Write as _, path::Path, time::SystemTime};

/// Sequences that run side by side in every test run, half of them new.
const LIVE: u64 = 400;
/// Requests in a sequence, without those that look at the result.
const REQUESTS: usize = 40;
/// Differences that are shown.
const FINDINGS_MAX: usize = 12;

fn corpus_path() -> std::path::PathBuf {
    let folder = format!("golden/{}", redouble::REDIS_VERSION);
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(folder)
        .join("commands.txt")
}

fn say(text: &str) {
    // Beside the test harness, which swallows what a passing test prints.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// As many sequences as draw every row and every option.
fn record(double: &Peer) {
    let Some(program) = redis_server::find().expect("a usable REDOUBLE_REDIS") else {
        return;
    };
    let mut real = Peer::real(&program).expect("the server starts");
    let generator = Generator::new(double.table(), "");
    let mut coverage = Coverage::default();
    let mut play = |seed| {
        let sequence = generator.sequence(seed, REQUESTS, &mut coverage);
        sequence.play(&mut real).expect("the server answers")
    };
    let recorded: Vec<_> = (0..generator.enough(REQUESTS)).map(&mut play).collect();
    fs::write(corpus_path(), write_corpus(&recorded)).expect("a writable folder");
}

#[test]
fn the_double_answers_as_recorded() {
    let mut double = Peer::double().expect("the double starts");
    if env::var_os("UPDATE").is_some() {
        record(&double);
    }
    let text = fs::read_to_string(corpus_path()).expect("a recorded corpus");
    let recorded = parse_corpus(&text).expect("a well-formed corpus");
    let (mut count, mut errors) = (0, 0);
    let mut sent = BTreeSet::new();
    for played in recorded {
        let (wrong, all) = played.errors();
        (count, errors) = (count + all, errors + wrong);
        let steps = played.steps.iter();
        sent.extend(steps.map(|(step, _)| double.table().name_of(&step.request)));
        let seed = played.seed;
        let found = played.compare(&mut double).expect("the double answers");
        if let Some(difference) = found {
            panic!("seed {seed}:\n{}", difference.transcript());
        }
    }
    assert!(count > 3_000, "{count} replies");
    assert!(
        errors * 2 < count && errors * 20 > count,
        "{errors} errors of {count}: a poor mixture"
    );
    let generator = Generator::new(double.table(), "");
    let unsent: Vec<&str> = generator
        .names()
        .filter(|name| !sent.contains(*name))
        .collect();
    assert!(
        unsent.is_empty(),
        "commands without recorded replies (UPDATE=1 records them): {unsent:?}"
    );
}

#[test]
fn the_double_answers_as_a_real_server_does() {
    let Some(program) = redis_server::find().expect("a usable REDOUBLE_REDIS") else {
        say("commands: no real server, recorded replies only");
        return;
    };
    let fresh = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64);
    let count = env::var("REDOUBLE_SEEDS")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(LIVE);
    say(&format!(
        "commands: {count} sequences beside {}, fresh seeds from {fresh}",
        program.display()
    ));
    let mut real = Peer::real(&program).expect("the server starts");
    let mut double = Peer::double().expect("the double starts");
    let mut run = |first: u64| -> Report {
        let campaign = Campaign {
            seeds: first..first + count / 2,
            requests: REQUESTS,
            only: String::new(),
            findings_max: FINDINGS_MAX,
        };
        let report = campaign.run(&mut real, &mut double, &mut |_| {});
        report.expect("both servers answer")
    };
    for report in [run(1_000), run(fresh)] {
        let shown: Vec<String> = report
            .findings
            .iter()
            .map(|it| format!("seed {}:\n{}", it.seed, it.difference.transcript()))
            .collect();
        assert!(
            shown.is_empty(),
            "{} kinds of differences:\n\n{}",
            shown.len(),
            shown.join("\n")
        );
        assert!(
            count < LIVE || report.missed.is_empty(),
            "never drawn: {:?}",
            report.missed
        );
    }
}
