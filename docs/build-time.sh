#!/usr/bin/env bash
# Measures what `redouble` adds to the cold build of a test that has `redis` and `tokio`: `docs/build-time.sh [ROUNDS]`, three by default.
# Needs the network for the first round, and a machine that does nothing else. Downloads do not count.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
rounds=${1:-3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset CARGO_TARGET_DIR
for kind in without with; do
    mkdir -p "$folder/$kind/src" "$folder/$kind/tests"
    touch "$folder/$kind/src/lib.rs"
    cat >"$folder/$kind/Cargo.toml" <<'MANIFEST'
[package]
name = "a-user"
version = "0.0.0"
edition = "2024"

[dependencies]
redis = { version = "1.8", features = ["aio", "tokio-comp"] }
tokio = { version = "1", features = ["macros", "rt", "test-util", "time"] }

[workspace]

[dev-dependencies]
MANIFEST
    cp "$root/Cargo.lock" "$folder/$kind/Cargo.lock" # the same releases as here
done
echo "redouble = { path = \"$root/server\" }" >>"$folder/with/Cargo.toml"
echo '#[test] fn it_is_built() {}' >"$folder/without/tests/a.rs"
echo '#[test] fn it_is_built() { drop(redouble::Server::builder()); }' >"$folder/with/tests/a.rs"

# Builds the test of a kind from nothing, and prints the seconds.
seconds() {
    cd "$folder/$1"
    rm -rf target
    local begun=$EPOCHREALTIME
    cargo test --quiet --offline --no-run 2>/dev/null
    awk -v from="$begun" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.1f\n", to - from }'
}

for kind in without with; do (cd "$folder/$kind" && cargo fetch --quiet); done
for ((round = 1; round <= rounds; round++)); do
    for kind in without with; do
        echo "$kind redouble, round $round: $(seconds "$kind" | tee -a "$folder/$kind.txt") s"
    done
done
median() { sort -n "$folder/$1.txt" | awk '{ it[NR] = $1 } END { print it[int((NR + 1) / 2)] }'; }
awk -v with="$(median with)" -v without="$(median without)" \
    'BEGIN { printf "median: %.1f s without, %.1f s with redouble, %.1f s more\n", without, with, with - without }'
