//! Generated sequences of commands, on the double and on a real server side by side; without one,
//! against recorded replies. And wrong doubles, to see that they are found.
//!
//! `REDOUBLE_SEEDS=n` runs more than usual; `UPDATE=1` records the corpus anew. `redouble-diff`
//! plays as many sequences as it names.

use redouble_conformance::backend::redis_server;
use redouble_differential::{
    Campaign, Coverage, Defect, Generator, NOT_IN_INFO, NOT_SENT, Peer, Report, parse_corpus,
    write_corpus,
};
use std::{collections::BTreeSet, env, fs, io::Write as _, path::Path};

/// How often every row and option is drawn on purpose in the sequences that run side by side, with
/// seeds that are always the same: enough for each to be accepted over both protocols.
const ROUNDS: u64 = 50;
/// The same for sequences that count the uses of keys.
const ROUNDS_USES: u64 = 8;
/// And in the recorded ones.
const ROUNDS_RECORDED: u64 = 2;
/// Sequences that ask for the documentation of commands.
const DESCRIBED: u64 = 8;
/// Sequences in which a wrong double is noticed.
const WRONG: u64 = 1_000;
/// Requests in a sequence, without those that look at the result.
const REQUESTS: usize = 40;
/// Differences that are shown.
const FINDINGS_MAX: usize = 12;
/// What the recorded corpus may take.
const CORPUS_BYTES_MAX: usize = 1_500_000;

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

/// Records as many sequences as draw every row and every option.
fn record(double: &Peer) {
    let Some(program) = redis_server::find().expect("a usable REDOUBLE_REDIS") else {
        return;
    };
    let mut real = Peer::real(&program).expect("the server starts");
    let generator = Generator::new(double.table(), "");
    let mut play = |seed| {
        let sequence = generator.sequence(seed, REQUESTS).sequence;
        sequence.play(&mut real).expect("the server answers")
    };
    let recorded: Vec<_> = (0..generator.enough(REQUESTS) * ROUNDS_RECORDED)
        .map(&mut play)
        .collect();
    fs::write(corpus_path(), write_corpus(&recorded)).expect("a writable folder");
}

#[test]
fn the_double_answers_as_recorded() {
    let mut double = Peer::double().expect("the double starts");
    if env::var_os("UPDATE").is_some() {
        record(&double);
    }
    let text = fs::read_to_string(corpus_path()).expect("a recorded corpus");
    assert!(text.len() < CORPUS_BYTES_MAX, "{} bytes", text.len());
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
    assert!(count > 2_500, "{count} replies");
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
    let more = env::var("REDOUBLE_SEEDS").ok();
    let more = more
        .and_then(|count| count.parse::<u64>().ok())
        .unwrap_or(0);
    let mut real = Peer::real(&program).expect("the server starts");
    let mut double = Peer::double().expect("the double starts");
    let count = Generator::new(double.table(), "").enough(REQUESTS) * ROUNDS;
    say(&format!(
        "commands: {} sequences beside {}",
        count + more,
        program.display()
    ));
    let known = run(&mut real, &mut double, 0, count + more, FINDINGS_MAX);
    let described = describe(&mut real, &mut double);
    for report in [&known, &described] {
        let findings = report.findings.iter();
        let shown: Vec<String> = findings.map(ToString::to_string).collect();
        assert!(
            shown.is_empty(),
            "{} kinds of differences:\n\n{}",
            shown.len(),
            shown.join("\n")
        );
    }
    assert!(
        known.missed.is_empty(),
        "rows and options that no request had accepted:\n{}",
        known.missed.join("\n")
    );
    say(&format!(
        "commands: {} requests, {} rows and options, each accepted over RESP2 and RESP3",
        known.requests,
        known.tallies.len()
    ));
}

/// Of each command of the table, with all of its options: how often Redis and the double look a key up, which shows in
/// OBJECT FREQ.
#[test]
fn every_command_uses_its_keys_as_a_real_server_does() {
    let Some(program) = redis_server::find().expect("a usable REDOUBLE_REDIS") else {
        say("uses of keys: no real server");
        return;
    };
    let mut real = Peer::real(&program).expect("the server starts");
    let mut double = Peer::double().expect("the double starts");
    let count = Generator::new(double.table(), "").enough(REQUESTS) * ROUNDS_USES;
    let campaign = Campaign {
        seeds: 0..count,
        requests: REQUESTS,
        only: String::new(),
        counts_uses: true,
        traffic: None,
        findings_max: FINDINGS_MAX,
    };
    let report = campaign.run(&mut real, &mut double, &mut |_| {});
    let report = report.expect("both servers answer");
    let findings = report.findings.iter().map(ToString::to_string);
    let shown: Vec<String> = findings.collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}

/// On the double alone, so that a new command or option that is drawn badly is noticed without a real server.
#[test]
fn commands_succeed_and_options_are_sent_often_enough() {
    let mut double = Peer::double().expect("the double starts");
    let table = double.table().clone();
    let generator = Generator::new(&table, "");
    let (mut coverage, mut requests) = (Coverage::default(), 0);
    for seed in 0..generator.enough(REQUESTS) * ROUNDS {
        let drawn = generator.sequence(seed, REQUESTS);
        requests += drawn.sequence.steps.len();
        let played = drawn
            .sequence
            .play(&mut double)
            .expect("the double answers");
        coverage.add(&table, &drawn, &played);
    }
    let short = generator.shortfall(&coverage, requests);
    assert!(
        short.is_empty(),
        "in {requests} requests too many errors, or too few requests:\n{}",
        short.join("\n")
    );
    // Without requests all fall short.
    let short = generator.shortfall(&Coverage::default(), requests);
    assert!(short.len() > generator.names().count(), "{}", short.len());
}

/// The names of all fields of INFO, without those that an error, a command or a database has brought.
fn info_fields(peer: &mut Peer) -> BTreeSet<String> {
    let request = ["INFO", "everything"].map(|word| word.as_bytes().to_vec());
    let reply = peer.ask(&request).expect("the server answers");
    let text = String::from_utf8_lossy(&reply).into_owned();
    let names = text.lines().filter_map(|line| line.split_once(':'));
    let names = names.map(|(name, _)| name.to_owned());
    let varies = ["cmdstat_", "errorstat_", "latency_percentiles_", "db"];
    names
        .filter(|name| !varies.iter().any(|start| name.starts_with(start)))
        .collect()
}

#[test]
fn info_lacks_the_listed_fields_and_no_others() {
    let Some(program) = redis_server::find().expect("a usable REDOUBLE_REDIS") else {
        say("fields of INFO: no real server");
        return;
    };
    let mut real = Peer::real(&program).expect("the server starts");
    let mut double = Peer::double().expect("the double starts");
    let (theirs, ours) = (info_fields(&mut real), info_fields(&mut double));
    let lacking: Vec<&str> = theirs.difference(&ours).map(String::as_str).collect();
    assert_eq!(lacking, NOT_IN_INFO);
    let own: Vec<&str> = ours.difference(&theirs).map(String::as_str).collect();
    assert_eq!(own, ["redouble_version"]);
}

/// Asks both for all that they say of their commands, which chance asks for too seldom.
fn describe(real: &mut Peer, double: &mut Peer) -> Report {
    let campaign = Campaign {
        seeds: 0..DESCRIBED,
        requests: REQUESTS,
        only: "command|docs".to_owned(),
        counts_uses: false,
        traffic: None,
        findings_max: FINDINGS_MAX,
    };
    let report = campaign.run(real, double, &mut |_| {});
    report.expect("both servers answer")
}

fn run(real: &mut Peer, double: &mut Peer, first: u64, count: u64, findings_max: usize) -> Report {
    let campaign = Campaign {
        seeds: first..first + count,
        requests: REQUESTS,
        only: String::new(),
        counts_uses: false,
        traffic: None,
        findings_max,
    };
    let report = campaign.run(real, double, &mut |_| {});
    report.expect("both servers answer")
}

#[test]
fn every_command_is_sent_or_listed_as_not() {
    let double = Peer::double().expect("the double starts");
    let generator = Generator::new(double.table(), "");
    let sent: BTreeSet<&str> = generator.names().collect();
    for name in redouble::command_names() {
        let name = name.replace(' ', "|");
        let is_listed = NOT_SENT.iter().any(|it| it.name == name);
        assert!(
            sent.contains(&*name) != is_listed,
            "{name} is neither sent nor listed as not, or both"
        );
    }
}

/// Plays an honest double against a wrong one, until that is noticed; the requests that it takes.
fn requests_that_show(expected: &[&str], defect: Defect) -> Vec<String> {
    let mut honest = Peer::double().expect("the double starts");
    let mut wrong = Peer::wrong_double(defect).expect("the double starts");
    let report = run(&mut honest, &mut wrong, 0, WRONG, 1);
    let [finding] = &report.findings[..] else {
        panic!("{expected:?} not noticed in {} requests", report.requests);
    };
    let requests = finding.difference.requests().into_iter();
    requests
        .map(|it| String::from_utf8_lossy(&it.request.join(&b' ')).to_lowercase())
        .collect()
}

fn is_named(request: &[Vec<u8>], name: &str) -> bool {
    request[0].eq_ignore_ascii_case(name.as_bytes())
}

#[test]
fn a_wrong_double_is_noticed_in_one_or_two_requests() {
    let honest = Defect::default();
    let cases: [(&[&str], Defect); 6] = [
        (
            &["dbsize"],
            Defect {
                sends: |request, _| is_named(request, "dbsize").then(|| b":77\r\n".to_vec()),
                ..honest
            },
        ),
        // It counts well, once.
        (
            &["", "incr"],
            Defect {
                sends: |request, reply| {
                    let is_it = is_named(request, "incr") && reply == b":11\r\n";
                    is_it.then(|| b":12\r\n".to_vec())
                },
                ..honest
            },
        ),
        // An option is not seen.
        (
            &["expire"],
            Defect {
                executes: |request| {
                    let last = request.last()?;
                    let is_it = is_named(request, "expire") && last.eq_ignore_ascii_case(b"XX");
                    is_it.then(|| request[..request.len() - 1].to_vec())
                },
                ..honest
            },
        ),
        // The replies are right, what is stored is not.
        (
            &["append"],
            Defect {
                executes: |request| {
                    let is_it = is_named(request, "append") && request.len() == 3;
                    let mut wrong = request.to_vec();
                    wrong.get_mut(2)?.reverse();
                    is_it.then_some(wrong)
                },
                ..honest
            },
        ),
        // The replies and the value are right, the time to live is half a second short.
        (
            &["psetex"],
            Defect {
                executes: |request| {
                    let text = std::str::from_utf8(request.get(2)?).ok()?;
                    let short = text.parse::<i64>().ok().filter(|ms| *ms > 1_000)? - 500;
                    let mut wrong = request.to_vec();
                    wrong[2] = short.to_string().into_bytes();
                    is_named(request, "psetex").then_some(wrong)
                },
                ..honest
            },
        ),
        // Only RESP3 is wrong.
        (
            &["hello 3", "hgetall"],
            Defect {
                sends: |request, reply| {
                    let is_it = is_named(request, "hgetall") && reply == b"%0\r\n";
                    is_it.then(|| b"*0\r\n".to_vec())
                },
                ..honest
            },
        ),
    ];
    for (expected, defect) in cases {
        let found = requests_that_show(expected, defect);
        assert_eq!(found.len(), expected.len(), "{expected:?}: {found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{expected:?}: {found:?}");
        }
    }
}
