//! Every transcript, on the double and on a real server where there is one.
//!
//! `UPDATE=1` records the replies of the real server; the diff is reviewed like code. `ONLY=text` plays
//! the files whose names contain the text.

use redouble_conformance::backend::redis_server;
use redouble_differential::{
    KNOWN, Target, Transcript, check, check_in_real_time, check_within, record,
};
use std::{
    env, fs,
    io::Write as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

/// Fewer would mean that files got lost.
const TRANSCRIPTS_MIN: usize = 60;
const REQUESTS_MIN: usize = 1_000;
/// Plays on a real server in which a difference has to show: a busy machine delays it.
const PLAYS: usize = 3;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts")
}

fn transcripts() -> Vec<Transcript> {
    let mut transcripts = Transcript::read_all(&folder()).expect("transcripts are well formed");
    if let Ok(only) = env::var("ONLY") {
        transcripts.retain(|transcript| transcript.name.contains(&only));
    }
    transcripts
}

/// Runs `one` for each transcript, on a few threads, and gathers what it has to say.
fn for_each(
    transcripts: &[Transcript],
    one: impl Fn(&Transcript) -> Option<String> + Sync,
) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut said = Vec::new();
        while let Some(transcript) = transcripts.get(next.fetch_add(1, Ordering::Relaxed)) {
            said.extend(one(transcript).map(|text| format!("{}: {text}", transcript.name)));
        }
        said
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no panic"))
            .collect()
    })
}

fn assert_equal(differences: &[String], where_: &str) {
    assert!(
        differences.is_empty(),
        "{} transcripts differ on {where_}:\n\n{}",
        differences.len(),
        differences.join("\n\n")
    );
}

pub(crate) fn say(text: &str) {
    // Beside the test harness, which swallows what a passing test prints.
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[test]
fn the_double_answers_as_recorded() {
    let transcripts = transcripts();
    if env::var_os("UPDATE").is_some() {
        for_each(&transcripts, |transcript| {
            let mut transcript = transcript.clone();
            if let Some(program) = redis_server::find().expect("a usable REDOUBLE_REDIS") {
                let target = Target::real(&program).expect("the server starts");
                record(&mut transcript, &target).expect("the server answers");
            }
            let target = Target::double().expect("the double starts");
            record(&mut transcript, &target).expect("the double answers");
            fs::write(folder().join(&transcript.name), transcript.to_string())
                .expect("a writable folder");
            None
        });
    }
    let transcripts = self::transcripts();
    for (transcript, why) in transcripts
        .iter()
        .filter_map(|one| Some((one, one.not_on_double()?)))
    {
        say(&format!(
            "transcripts: {} is not played on the double: {why}",
            transcript.name
        ));
    }
    let differences = for_each(&transcripts, |transcript| {
        let target = Target::double().expect("the double starts");
        check(transcript, &target).expect("the double can be reached")
    });
    assert_equal(&differences, "the double");
    let requests: usize = transcripts.iter().map(Transcript::requests).sum();
    let is_partial = env::var_os("ONLY").is_some();
    assert!(
        is_partial || transcripts.len() >= TRANSCRIPTS_MIN && requests >= REQUESTS_MIN,
        "{} transcripts, {requests} requests",
        transcripts.len()
    );
}

#[test]
fn a_real_server_answers_as_recorded() {
    let Some(program) = redis_server::find().expect("a usable REDOUBLE_REDIS") else {
        say("transcripts: no real server, recorded replies only");
        return;
    };
    say(&format!("transcripts: compared with {}", program.display()));
    if env::var_os("UPDATE").is_some() {
        return;
    }
    let differences = for_each(&transcripts(), |transcript| {
        let start = || Target::real(&program);
        let checked = check_in_real_time(transcript, PLAYS, start);
        let (difference, differed) = checked.expect("the server can be reached");
        if difference.is_none() && differed > 0 {
            let name = &transcript.name;
            say(&format!(
                "transcripts: {name} differed in {differed} plays, not in the next"
            ));
        }
        difference
    });
    assert_equal(&differences, "the real server");
}

#[test]
fn a_difference_in_real_time_counts_if_it_lasts() {
    let transcript = Transcript::parse("inline", "> GET k\n< $-1\n").expect("well formed");
    for differs in 0..=PLAYS {
        let played = AtomicUsize::new(0);
        let start = || {
            let target = Target::double()?;
            if played.fetch_add(1, Ordering::Relaxed) < differs {
                let set = Transcript::parse("inline", "> SET k v\n< +OK\n").expect("well formed");
                assert_eq!(check(&set, &target)?, None);
            }
            Ok(target)
        };
        let (difference, differed) =
            check_in_real_time(&transcript, PLAYS, start).expect("the double starts");
        assert_eq!(
            (difference.is_some(), differed),
            (differs == PLAYS, differs)
        );
        let plays = if differs == PLAYS { PLAYS } else { differs + 1 };
        assert_eq!(played.into_inner(), plays);
    }
}

#[test]
fn every_command_has_a_transcript() {
    let sent: Vec<String> = transcripts()
        .iter()
        .flat_map(Transcript::commands)
        .collect();
    let missing: Vec<String> = redouble::command_names()
        .into_iter()
        .filter(|name| !sent.contains(name))
        .collect();
    assert!(missing.is_empty(), "no transcript sends {missing:?}");
}

#[test]
fn every_known_difference_is_seen() {
    let texts: Vec<String> = transcripts().iter().map(Transcript::to_string).collect();
    for known in KNOWN.iter().filter(|known| known.is_seen_in_a_transcript) {
        let line = format!("% known: {}\n", known.name);
        assert!(
            texts.iter().any(|text| text.contains(&line)),
            "{} is in no transcript",
            known.name
        );
        assert!(known.reason.len() > 20, "{} has no reason", known.name);
    }
}

#[test]
fn a_difference_is_noticed() {
    let patience = std::time::Duration::from_millis(500);
    for (text, expected) in [
        ("> PING\n< +PONG\n", true),
        ("> PING\n< +PANG\n", false),
        ("> PING\n< +PONG\n< +PONG\n", false),
        ("= \"PING\\r\\nPING\\r\\n\"\n< +PONG\n", false),
        ("> PING\n< +PONG\n! closed\n", false),
        ("> QUIT\n< +OK\n! closed\n", true),
        ("> SET k v PX 10\n< +OK\n@ +11ms\n> GET k\n< $-1\n", true),
        ("> SET k v PX 10\n< +OK\n@ +10ms\n> GET k\n< $-1\n", false),
    ] {
        let transcript = Transcript::parse("inline", text).expect("well formed");
        let found = check_within(&transcript, &Target::double().expect("starts"), patience)
            .expect("answers");
        assert_eq!(found.is_none(), expected, "{text}: {found:?}");
    }
}
