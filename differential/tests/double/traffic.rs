//! Traffic of client libraries with mutations, on the double and on a real server side by side; without one, against
//! recorded replies.
//!
//! `traffic/` has the output of `redis-cli MONITOR` beside programs that use a library in the usual ways: connect, run a
//! few commands of each kind, a pipeline, a transaction, a script and a subscription, and disconnect. `UPDATE=1` records
//! the replies anew; `redouble-diff --traffic FOLDER` plays other recordings. `record/record.sh` makes those of BullMQ
//! and Redisson, whose scripts are not kept here.

use crate::transcripts::say;
use redouble_conformance::backend::redis_server;
use redouble_differential::{Campaign, Peer, Played, Traffic, parse_corpus, write_corpus};
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Sequences beside a real server. Their seeds are always the same.
const SEQUENCES: u64 = 300;
/// Sequences with recorded replies.
const RECORDED: u64 = 24;
/// Requests in a sequence.
const REQUESTS: usize = 20;

fn recordings() -> Traffic {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traffic");
    Traffic::read(&folder).expect("readable recordings")
}

fn corpus_path() -> PathBuf {
    let folder = format!("golden/{}", redouble::REDIS_VERSION);
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(folder)
        .join("traffic.txt")
}

fn real() -> Option<Peer> {
    let program = redis_server::find().expect("a usable REDOUBLE_REDIS")?;
    Some(Peer::real(&program).expect("the server starts"))
}

/// Records the replies of a real server.
fn record(double: &Peer) {
    let Some(mut real) = real() else {
        return;
    };
    let traffic = recordings();
    let mut play = |seed| {
        let drawn = traffic.sequence(double.table(), seed, REQUESTS);
        drawn.sequence.play(&mut real).expect("the server answers")
    };
    let recorded: Vec<Played> = (0..RECORDED).map(&mut play).collect();
    fs::write(corpus_path(), write_corpus(&recorded)).expect("a writable folder");
}

#[test]
fn mutated_traffic_is_answered_as_recorded() {
    let mut double = Peer::double().expect("the double starts");
    if env::var_os("UPDATE").is_some() {
        record(&double);
    }
    let text = fs::read_to_string(corpus_path()).expect("recorded replies");
    let recorded = parse_corpus(&text).expect("well-formed replies");
    assert_eq!(recorded.len() as u64, RECORDED);
    let traffic = recordings();
    for played in recorded {
        let seed = played.seed;
        let drawn = traffic.sequence(double.table(), seed, REQUESTS);
        assert_eq!(
            played.sequence().steps,
            drawn.sequence.steps,
            "seed {seed} gives another sequence (UPDATE=1 records it)"
        );
        let found = played.compare(&mut double).expect("the double answers");
        if let Some(difference) = found {
            panic!("seed {seed}:\n{}", difference.transcript());
        }
    }
}

#[test]
fn mutated_traffic_is_answered_as_by_a_real_server() {
    let Some(mut real) = real() else {
        say("traffic: no real server, recorded replies only");
        return;
    };
    let mut double = Peer::double().expect("the double starts");
    let campaign = Campaign {
        seeds: 0..SEQUENCES,
        requests: REQUESTS,
        only: String::new(),
        counts_uses: false,
        traffic: Some(recordings()),
        findings_max: 5,
    };
    let report = campaign.run(&mut real, &mut double, &mut |_| {});
    let report = report.expect("both servers answer");
    let findings = report.findings.iter().map(ToString::to_string);
    let shown: Vec<String> = findings.collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
    assert!(
        report.requests > 3_000,
        "{} requests of {} sequences",
        report.requests,
        report.sequences
    );
}
