//! A fresh server in this process, up to its first PONG.

use criterion::Criterion;
use redouble_benches::start::first_pong;
use std::time::Duration;

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
    // Each server is dropped before the next one starts, because servers hold ports.
    criterion.bench_function("start/fresh server to first PONG, and its end", |bencher| {
        bencher.iter(|| drop(runtime.block_on(first_pong()).expect("a server")));
    });
    criterion.final_summary();
}
