#!/usr/bin/env bash
# Measures what the book and the README show: `docs/measure.sh [compare] [handover] [scenarios] [foreign]`, the first three by default.
# Needs Linux, redis-server on the PATH, and a machine that does nothing else; `foreign` also needs the network, Maven, a JDK and Go.
# The programs say what they are measuring.
set -euo pipefail
cd "$(dirname "$0")/.."
(($#)) || set -- compare handover scenarios
for what; do
    [[ $what =~ ^(compare|handover|scenarios|foreign)$ ]] || { echo "docs/measure.sh: not a measurement: $what" >&2; exit 2; }
done
cargo build --profile dist -p redouble -p redouble-benches --features redouble/cli
for what; do
    echo "measuring: $what" >&2
    options=(--json "docs/figures/$what.json")
    [[ $what == compare ]] && options+=(--floor)
    [[ $what == foreign ]] && benches/foreign/build.sh target/foreign
    "target/dist/redouble-$what" "${options[@]}"
done
UPDATE=1 cargo test -p redouble-book --test pages
