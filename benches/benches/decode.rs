//! The decoder alone. Its time must be proportional to the bytes, in whatever pieces they arrive.

use criterion::{Criterion, Throughput};
use redouble::resp::{Decoder, Limits};
use redouble_benches::workload::{encode, key, token};
use std::hint::black_box;
use std::time::Duration;

fn small_requests(criterion: &mut Criterion) {
    let mut batch = Vec::new();
    for index in 0..16 {
        encode(
            &[b"SET", &key(index), &token(index), b"NX", b"PX", b"30000"],
            &mut batch,
        );
    }
    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Elements(16));
    group.bench_function("16 small requests", |bencher| {
        let (mut decoder, limits) = (Decoder::default(), Limits::default());
        bencher.iter(|| {
            decoder.feed(black_box(&batch));
            let mut decoded = 0;
            while decoder.next(&limits).expect("well formed").is_some() {
                decoded += 1;
            }
            assert_eq!(decoded, 16);
        });
    });
}

/// An argument of `mebibytes` MiB in pieces of 4 KiB, as they come from a socket.
fn huge_argument(criterion: &mut Criterion, mebibytes: usize) {
    let len = mebibytes << 20;
    let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${len}\r\n");
    let piece = [b'x'; 4096];
    let mut group = criterion.benchmark_group("decode");
    group
        .throughput(Throughput::Bytes(len as u64))
        .sample_size(10);
    group.bench_function(
        format!("argument of {mebibytes} MiB in pieces of 4 KiB"),
        |bencher| {
            let limits = Limits::default();
            bencher.iter(|| {
                let mut decoder = Decoder::default();
                decoder.feed(head.as_bytes());
                for _ in 0..len / piece.len() {
                    assert!(decoder.next(&limits).expect("well formed").is_none());
                    decoder.feed(black_box(&piece));
                }
                decoder.feed(b"\r\n");
                let request = decoder
                    .next(&limits)
                    .expect("well formed")
                    .expect("complete");
                assert_eq!(request.arg(2).map(<[u8]>::len), Some(len));
            });
        },
    );
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_millis(1500))
        .configure_from_args();
    small_requests(&mut criterion);
    huge_argument(&mut criterion, 8);
    huge_argument(&mut criterion, 64);
    criterion.final_summary();
}
