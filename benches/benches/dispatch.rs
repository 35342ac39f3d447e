//! The engine alone: from a decoded request to the bytes of its reply.

use criterion::{Criterion, Throughput};
use redouble::engine::{Config, ConnId, Engine, NodeApi as _, Outcome, UnixMicros};
use redouble::resp::{OwnedRequest, encode};
use redouble_benches::workload::{key, token};
use std::hint::black_box;
use std::time::Duration;

const LOCKS: usize = 1024;
const TTL: Duration = Duration::from_secs(30);

struct Bench {
    engine: Engine,
    conn: ConnId,
    now: UnixMicros,
    reply: Vec<u8>,
}

impl Bench {
    fn new() -> Self {
        let now = UnixMicros(1_700_000_000_000_000);
        let mut engine = Engine::new(Config::default(), now);
        let conn = engine
            .connect("127.0.0.1:5000", now)
            .expect("there is room");
        Self {
            engine,
            conn,
            now,
            reply: Vec::new(),
        }
    }

    /// Runs all requests, and returns the first byte of the last reply.
    fn run(&mut self, requests: &[OwnedRequest]) -> u8 {
        for request in requests {
            let request = request.as_request().expect("not empty");
            self.reply.clear();
            match self.engine.handle(self.conn, request, self.now) {
                Outcome::Reply(reply) => {
                    encode(&reply, self.engine.protocol(self.conn), &mut self.reply)
                }
                Outcome::Parked | Outcome::Silent => panic!("there must be a reply"),
            }
            black_box(&self.reply);
        }
        self.reply.first().copied().unwrap_or_default()
    }
}

fn requests(args: impl Fn(&[u8], &[u8]) -> OwnedRequest) -> Vec<OwnedRequest> {
    (0..LOCKS)
        .map(|index| args(&key(index), &token(index)))
        .collect()
}

fn set(key: &[u8], token: &[u8]) -> OwnedRequest {
    OwnedRequest::new([b"SET", key, token, b"NX", b"PX", b"30000"])
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_millis(1500))
        .sample_size(50)
        .configure_from_args();
    let mut group = criterion.benchmark_group("dispatch");
    group.throughput(Throughput::Elements(LOCKS as u64));
    let sets = requests(set);
    group.bench_function("SET NX PX, free", |bencher| {
        let mut bench = Bench::new();
        bencher.iter(|| {
            // All locks of the previous round have expired, so each is acquired again.
            bench.now = bench.now.plus(2 * TTL);
            assert_eq!(bench.run(&sets), b'+');
        });
    });
    group.bench_function("SET NX PX, taken", |bencher| {
        let mut bench = Bench::new();
        bench.run(&sets);
        bencher.iter(|| assert_eq!(bench.run(&sets), b'$'));
    });
    let gets = requests(|key, _| OwnedRequest::new([b"GET", key]));
    group.bench_function("GET", |bencher| {
        let mut bench = Bench::new();
        bench.run(&sets);
        bencher.iter(|| assert_eq!(bench.run(&gets), b'$'));
    });
    let increments = requests(|key, token| OwnedRequest::new([b"HINCRBY", key, token, b"1"]));
    group.bench_function("HINCRBY", |bencher| {
        let mut bench = Bench::new();
        bencher.iter(|| assert_eq!(bench.run(&increments), b':'));
    });
    group.finish();
    criterion.final_summary();
}
