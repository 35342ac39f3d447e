//! Rows under load: many clients, both servers in turn; requests per second, and per second of the server's
//! CPU time.

use crate::Result;
use crate::arithmetic::quantile;
use crate::client::{Clients, Control};
use crate::floor::ANSWER;
use crate::process::Server;
use crate::report::{Figure, Target, Unit};
use crate::workload::{Lap, Stream, Workload, lap_requests};
use std::sync::Arc;
use std::time::Duration;

/// Lowest allowed ratio of requests per second.
const PER_SECOND_MIN: f64 = 0.95;
/// Highest allowed ratio of the 99th percentile of latency, if the do-nothing server runs too.
const P99_MAX: f64 = 1.0;

/// A workload, its pipelining, and its targets.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Title in the table.
    pub title: &'static str,
    /// The requests.
    pub workload: Workload,
    /// Number of requests that are sent before waiting for replies.
    pub pipeline: usize,
    /// Lowest allowed ratio of requests per CPU-second, redouble over Redis.
    pub per_cpu_second_min: f64,
    /// Highest allowed ratio of CPU time per request above the do-nothing server, redouble over Redis, if it
    /// is judged.
    pub above_floor_max: Option<f64>,
}

/// Amount of measurement.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Number of rounds per server.
    pub rounds: usize,
    /// Number of connections.
    pub clients: usize,
    /// Approximate CPU time of the faster server in a round.
    pub cpu: Duration,
    /// Number of requests of a round, in place of the CPU time.
    pub requests: Option<usize>,
    /// Number of locks from which keys are drawn.
    pub locks: usize,
    /// Seed of the keys.
    pub seed: u64,
}

/// Measures one row on both servers, A B A B; with a do-nothing server also on that after each pair of
/// rounds.
///
/// # Errors
/// If a server gives a wrong reply or none.
pub fn compare(
    row: &Row,
    redis: &Server,
    redouble: &Server,
    floor: Option<&Server>,
    effort: &Effort,
) -> Result<Vec<Figure>> {
    // A round is several laps.
    let whole = lap_requests(effort.locks);
    let lap_requests = effort
        .requests
        .map_or(whole, |requests| requests.min(whole));
    let lap = Laps::new(
        row.workload
            .lap(effort.clients, row.pipeline, lap_requests, effort.seed),
    );
    let mut sides = [
        Side::new(redis, &lap, effort)?,
        Side::new(redouble, &lap, effort)?,
    ];
    let mut fastest = 0.0_f64;
    for side in &mut sides {
        // Warms up, and determines the number of laps in a round.
        fastest = fastest.max(side.round(&lap, 1)?.per_cpu_second);
    }
    let requests = effort
        .requests
        .map_or(fastest * effort.cpu.as_secs_f64(), |requests| {
            requests as f64
        });
    let laps = ((requests / lap_requests as f64).ceil() as usize).max(1);
    let mut idle = match floor {
        Some(floor) => {
            let side = Side::new(floor, &lap.unanswered(), effort)?;
            Control::connect(floor.addr())?.call(&[ANSWER, row.workload.usual_reply()])?;
            Some(side)
        }
        None => None,
    };
    let [mut theirs, mut ours, mut least] = [const { Vec::new() }; 3];
    for _ in 0..effort.rounds {
        let [redis, redouble] = &mut sides;
        theirs.push(redis.round(&lap, laps)?);
        ours.push(redouble.round(&lap, laps)?);
        if let Some(idle) = &mut idle {
            least.push(idle.round(&lap.unanswered(), laps)?);
        }
    }
    let figure = |what, unit, value: fn(&Round) -> f64, target| Figure {
        row: row.title.to_owned(),
        what,
        unit,
        redis: theirs.iter().map(value).collect(),
        redouble: ours.iter().map(value).collect(),
        is_paired: true,
        target,
    };
    let mut figures = vec![
        figure(
            "requests per CPU-second",
            Unit::PerSecond,
            |r| r.per_cpu_second,
            Target::AtLeast(row.per_cpu_second_min),
        ),
        figure(
            "requests per second",
            Unit::PerSecond,
            |r| r.per_second,
            Target::AtLeast(PER_SECOND_MIN),
        ),
    ];
    if floor.is_some() {
        figures.push(figure(
            "latency, p99",
            Unit::Seconds,
            |r| r.p99_seconds,
            Target::AtMost(P99_MAX),
        ));
    }
    if !least.is_empty() {
        let above = |rounds: &[Round]| -> Vec<f64> {
            let pairs = rounds.iter().zip(&least);
            pairs
                .map(|(round, least)| round.cpu_seconds() - least.cpu_seconds())
                .collect()
        };
        figures.push(Figure {
            redis: above(&theirs),
            redouble: above(&ours),
            ..figure(
                "CPU time per request above the do-nothing server",
                Unit::Seconds,
                Round::cpu_seconds,
                row.above_floor_max.map_or(Target::None, Target::AtMost),
            )
        });
        figures.push(Figure {
            redis: Vec::new(),
            redouble: least.iter().map(Round::cpu_seconds).collect(),
            ..figure(
                "CPU time per request of the do-nothing server",
                Unit::Seconds,
                Round::cpu_seconds,
                Target::None,
            )
        });
    }
    Ok(figures)
}

/// A lap with streams that the clients' tasks share.
struct Laps {
    before_all: Arc<Stream>,
    before_each: Arc<Stream>,
    measured: Arc<Stream>,
}

impl Laps {
    fn new(lap: Lap) -> Self {
        Self {
            before_all: lap.before_all.into(),
            before_each: lap.before_each.into(),
            measured: lap.measured.into(),
        }
    }

    /// Returns the lap for a server whose replies have no meaning.
    fn unanswered(&self) -> Self {
        let any = |stream: &Stream| {
            Arc::new(Stream {
                positive: None,
                ..stream.clone()
            })
        };
        Self {
            before_all: any(&self.before_all),
            before_each: any(&self.before_each),
            measured: any(&self.measured),
        }
    }
}

/// One server and its clients.
struct Side<'a> {
    server: &'a Server,
    clients: Clients,
}

struct Round {
    per_second: f64,
    per_cpu_second: f64,
    p99_seconds: f64,
}

impl Round {
    /// CPU time of the server per request, in seconds.
    fn cpu_seconds(&self) -> f64 {
        1.0 / self.per_cpu_second
    }
}

impl<'a> Side<'a> {
    fn new(server: &'a Server, lap: &Laps, effort: &Effort) -> Result<Self> {
        Control::connect(server.addr())?.call(&["FLUSHALL"])?;
        let mut clients = Clients::connect(server.addr(), effort.clients)?;
        clients.run(&lap.before_all)?;
        Ok(Self { server, clients })
    }

    fn round(&mut self, lap: &Laps, laps: usize) -> Result<Round> {
        let (mut elapsed, mut cpu) = (Duration::ZERO, Duration::ZERO);
        let mut latency_nanos = Vec::new();
        for _ in 0..laps {
            self.clients.run(&lap.before_each)?;
            let before = self.server.cpu()?;
            let run = self.clients.run(&lap.measured)?;
            cpu += self.server.cpu()?.saturating_sub(before);
            elapsed += run.elapsed;
            latency_nanos.extend(run.latency_nanos);
        }
        let requests = (lap.measured.requests * laps as u64) as f64;
        Ok(Round {
            per_second: requests / elapsed.as_secs_f64(),
            per_cpu_second: requests / cpu.as_secs_f64(),
            p99_seconds: f64::from(quantile(&mut latency_nanos, 0.99)) / 1e9,
        })
    }
}
