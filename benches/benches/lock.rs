//! Lock cycles in process, through the whole stack: the client library, the stream, the engine.

use criterion::Criterion;
use redouble_benches::in_process::{mutex_cycles, scripted_cycles};
use redouble_lock::LockManager;
use std::time::Duration;

/// Cycles under one `block_on`.
const CYCLES: usize = 16;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_millis(1500))
        .sample_size(50)
        .configure_from_args();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let server = runtime
        .block_on(redouble::Server::start())
        .expect("a server");
    let mut connection = runtime.block_on(server.connection()).expect("a connection");
    let mutex = LockManager::new(connection.clone())
        .mutex("lock:bench")
        .build()
        .expect("a lease that can be kept");
    let mut group = criterion.benchmark_group("lock");
    group.throughput(criterion::Throughput::Elements(CYCLES as u64));
    group.bench_function("redis crate, SET NX PX and EVALSHA release", |bencher| {
        bencher.iter(|| {
            runtime
                .block_on(scripted_cycles(&mut connection, CYCLES))
                .expect("a free lock")
        });
    });
    group.bench_function("redouble-lock, mutex", |bencher| {
        bencher.iter(|| {
            runtime
                .block_on(mutex_cycles(&mutex, CYCLES))
                .expect("a free lock")
        });
    });
    group.finish();
    criterion.final_summary();
}
