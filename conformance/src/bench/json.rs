//! Measurements as JSON, with the same fields for every backend.

use super::{
    latencies::Latencies,
    measured::{Failure, Measured, Round},
};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Formats all measurements of a run, one lock per line. Times are in microseconds unless a name says
/// otherwise.
#[must_use]
pub fn text(all: &[Measured]) -> String {
    let locks: Vec<String> = all.iter().map(|it| format!("    {}", lock(it))).collect();
    let head = all.first().map_or_else(Map::new, head);
    let head: String = head
        .iter()
        .map(|(name, value)| format!("  {}: {value},\n", json!(name)))
        .collect();
    format!(
        "{{\n  \"format\": 1,\n{head}  \"sound\": {},\n  \"locks\": [\n{}\n  ]\n}}\n",
        all.iter().all(Measured::is_sound),
        locks.join(",\n")
    )
}

/// Returns the fields that all locks share.
fn head(measured: &Measured) -> Map<String, Value> {
    let load = &measured.load;
    let pairs = [
        ("backend", json!(measured.place)),
        (
            "loop",
            json!(if load.rate.is_some() {
                "open"
            } else {
                "closed"
            }),
        ),
        ("rate", json!(load.rate)),
        ("clients", json!(load.clients)),
        ("tasks", json!(load.tasks)),
        ("keys", json!(load.keys)),
        ("lease_ms", json!(load.lease.as_millis())),
        ("hold_us", json!(load.hold.as_micros())),
        ("wait_ms", json!(load.wait.as_millis())),
        ("seconds", json!(load.time.as_secs_f64())),
    ];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value));
    pairs.into_iter().collect()
}

fn lock(measured: &Measured) -> Value {
    let failures = Failure::ALL.map(|how| {
        let count = measured.failures.get(&how).copied().unwrap_or(0);
        (how.name().to_owned(), json!(count))
    });
    let complaints = measured.complaints.iter();
    let complaints = complaints.map(|(how, why)| (how.name().to_owned(), json!(why)));
    json!({
        "lock": measured.lock,
        "seconds": measured.elapsed.as_secs_f64(),
        "interrupted": measured.interrupted,
        "asked": measured.asked,
        "cycles": measured.total(),
        "cycles_of_callers": measured.cycles,
        "cycles_per_second": measured.per_second(),
        "unfinished": measured.unfinished(),
        "unserved": measured.unserved,
        "acquire_us": latencies(&measured.acquire),
        "hand_over_us": latencies(&measured.hand_over),
        "overtaken": measured.overtaken,
        "fairness": measured.fairness(),
        "commands": measured.work.commands,
        "commands_per_cycle": measured.commands_per_cycle(),
        "requests_per_cycle": measured.requests_per_cycle(),
        "server_us_per_cycle": measured.server_us_per_cycle(),
        "failures": failures.into_iter().collect::<Map<_, _>>(),
        "complaints": complaints.collect::<Map<_, _>>(),
        "overlaps": measured.overlaps.count,
        "first_overlap": measured.overlaps.first,
        "rounds": measured.rounds.iter().map(round).collect::<Vec<_>>(),
    })
}

fn round(round: &Round) -> Value {
    let us = |it: Option<Duration>| it.map(|it| it.as_micros());
    json!({
        "cycles_per_second": round.cycles_per_second,
        "failed": round.failed,
        "acquire_p50_us": us(round.acquire_p50),
        "acquire_p99_us": us(round.acquire_p99),
        "fairness": round.fairness,
        "commands_per_cycle": round.commands_per_cycle,
        "requests_per_cycle": round.requests_per_cycle,
        "server_us_per_cycle": round.server_us_per_cycle,
    })
}

fn latencies(all: &Latencies) -> Value {
    let us = |it: Option<Duration>| it.map(|it| it.as_micros());
    let curve = all.curve();
    let curve = curve
        .iter()
        .map(|(share, at)| json!([share, at.as_micros()]));
    json!({
        "count": all.count(),
        "p50": us(all.within(0.5)),
        "p99": us(all.within(0.99)),
        "p99_9": us(all.within(0.999)),
        "max": us(all.longest()),
        "curve": curve.collect::<Vec<_>>(),
    })
}
