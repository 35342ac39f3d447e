//! The release script through the engine: what a call of Lua costs, and a lock cycle with it.

use criterion::Criterion;
use redouble::engine::{Config, ConnId, Desk as _, Engine, Outcome, UnixMicros};
use redouble::resp::{OwnedRequest, Reply};
use redouble_benches::RELEASE;
use redouble_benches::workload::{key, token};
use std::time::Duration;

struct Bench {
    engine: Engine,
    conn: ConnId,
}

impl Bench {
    const NOW: UnixMicros = UnixMicros(1_700_000_000_000_000);

    fn new() -> Self {
        let mut engine = Engine::new(Config::default(), Self::NOW);
        let conn = engine
            .connect("127.0.0.1:5000", Self::NOW)
            .expect("there is room");
        Self { engine, conn }
    }

    fn run(&mut self, request: &OwnedRequest) -> Reply {
        let request = request.as_request().expect("not empty");
        match self.engine.handle(self.conn, request, Self::NOW) {
            Outcome::Reply(reply) => reply,
            Outcome::Parked | Outcome::Silent => panic!("there must be a reply"),
        }
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_millis(1500))
        .sample_size(50)
        .configure_from_args();
    let (key, token) = (key(1), token(1));
    let set = OwnedRequest::new([b"SET", &key[..], &token, b"NX", b"PX", b"30000"]);
    let eval = OwnedRequest::new([b"EVAL", RELEASE.as_bytes(), b"1", &key, &token]);
    let mut bench = Bench::new();
    let loaded = bench.run(&OwnedRequest::new([
        &b"SCRIPT"[..],
        b"LOAD",
        RELEASE.as_bytes(),
    ]));
    let Reply::Bulk(sha) = loaded else {
        panic!("SCRIPT LOAD answered {loaded:?}")
    };
    let evalsha = OwnedRequest::new([b"EVALSHA", &sha[..], b"1", &key, &token]);
    for (name, release) in [("EVAL", &eval), ("EVALSHA", &evalsha)] {
        criterion.bench_function(&format!("script/{name} release, not held"), |bencher| {
            bencher.iter(|| assert_eq!(bench.run(release), Reply::Int(0)));
        });
        criterion.bench_function(&format!("script/SET NX PX and {name} release"), |bencher| {
            bencher.iter(|| {
                assert_eq!(bench.run(&set), Reply::Ok);
                assert_eq!(bench.run(release), Reply::Int(1));
            });
        });
    }
    criterion.final_summary();
}
