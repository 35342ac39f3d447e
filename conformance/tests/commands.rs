//! Random sequences of commands, on the double and on a real server side by side; without one,
//! against recorded replies.
//!
//! `REDOUBLE_SEEDS=n` runs more than usual; `UPDATE=1` records the corpus anew.

use redouble_conformance::{
    backend::redis_server,
    differential::{
        Answered, Sequence, Target, compare, parse_corpus, replay, run_sequence, shrink,
        write_corpus,
    },
};
use std::{env, fs, io::Write as _, path::Path, time::SystemTime};

/// Sequences in the recorded corpus.
const RECORDED: u64 = 60;
/// Sequences that run side by side in every test run, half of them new.
const LIVE: u64 = 400;
/// Requests in a sequence, without those that look at the result.
const REQUESTS: usize = 40;

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

fn run(target: &Target, sequence: &Sequence, at_ms: Option<i64>) -> Answered {
    run_sequence(target, sequence, at_ms).expect("the server answers")
}

fn differs(
    real: &Target,
    double: &Target,
    sequence: &Sequence,
) -> Option<(usize, Answered, Answered)> {
    let theirs = run(real, sequence, None);
    let ours = run(double, sequence, Some(theirs.at_ms));
    compare(sequence, &theirs, &ours).map(|at| (at, theirs, ours))
}

#[test]
fn the_double_answers_as_recorded() {
    if env::var_os("UPDATE").is_some()
        && let Some(program) = redis_server::find().expect("a usable REDOUBLE_REDIS")
    {
        let real = Target::real(&program).expect("the server starts");
        let sequences = (0..RECORDED).map(|seed| Sequence::random(seed, REQUESTS));
        let recorded: Vec<_> = sequences
            .map(|sequence| (sequence.clone(), run(&real, &sequence, None)))
            .collect();
        fs::write(corpus_path(), write_corpus(&recorded)).expect("a writable folder");
    }
    let text = fs::read_to_string(corpus_path()).expect("a recorded corpus");
    let recorded = parse_corpus(&text).expect("a well-formed corpus");
    let double = Target::double().expect("the double starts");
    let (mut count, mut errors) = (0, 0);
    for (sequence, theirs) in &recorded {
        let ours = run(&double, sequence, Some(theirs.at_ms));
        if let Some(at) = compare(sequence, theirs, &ours) {
            let until = Sequence {
                requests: sequence.requests[..=at].to_vec(),
                ..sequence.clone()
            };
            panic!(
                "seed {}, request {at}: the double answers {}, recorded was the last of\n{}",
                sequence.seed,
                ours.replies[at].escape_ascii(),
                replay(&until, theirs)
            );
        }
        count += ours.replies.len();
        errors += ours
            .replies
            .iter()
            .filter(|reply| reply.starts_with(b"-"))
            .count();
    }
    assert!(count > 3_000, "{count} replies");
    assert!(
        errors * 2 < count && errors * 20 > count,
        "{errors} errors of {count}: a poor mixture"
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
    let real = Target::real(&program).expect("the server starts");
    let double = Target::double().expect("the double starts");
    let mut found = Vec::new();
    for n in 0..count {
        let seed = if n % 2 == 0 { 1_000 + n } else { fresh + n };
        let sequence = Sequence::random(seed, REQUESTS);
        // Twice, since a real clock may tick between two requests.
        if differs(&real, &double, &sequence).is_none()
            || differs(&real, &double, &sequence).is_none()
        {
            continue;
        }
        let shrunk = shrink(&sequence, |shorter| {
            differs(&real, &double, shorter).is_some()
        });
        let Some((at, theirs, ours)) = differs(&real, &double, &shrunk) else {
            continue;
        };
        found.push(format!(
            "seed {seed}: the double answers {} to the last of\n{}",
            ours.replies[at].escape_ascii(),
            replay(
                &Sequence {
                    requests: shrunk.requests[..=at].to_vec(),
                    ..shrunk
                },
                &theirs
            )
        ));
        if found.len() >= 12 {
            break;
        }
    }
    assert!(
        found.is_empty(),
        "{} sequences differ:\n\n{}",
        found.len(),
        found.join("\n")
    );
}
