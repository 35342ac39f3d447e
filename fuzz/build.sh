#!/bin/sh
# Builds the fuzz targets on stable Rust: libFuzzer's instrumentation without a sanitizer. Arguments go to cargo.
# The target is named so that build scripts are not instrumented.
set -eu
cd "$(dirname "$0")"
target=$(rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
cargo build --profile fuzz --target "$target" "$@"
echo "built target/$target/fuzz/{decode,round_trip,commands}"
