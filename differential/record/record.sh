#!/usr/bin/env bash
# Records what BullMQ and Redisson send to Redis: `differential/record/record.sh [FOLDER]`, by default target/traffic/.
# Their scripts are the work of others, so the recordings are not kept in this repository. Then play them, mutated:
#     cargo run --release --bin redouble-diff -- --traffic target/traffic
# Needs redis-server, redis-cli, npm, mvn and a JDK, and downloads the two libraries.
set -euo pipefail
source=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$source/../../target/traffic}
port=${PORT:-7399}

missing=()
for tool in redis-server redis-cli npm node mvn javac java; do
    command -v "$tool" >/dev/null || missing+=("$tool")
done
if ((${#missing[@]})); then
    echo "differential/record/record.sh: not found: ${missing[*]}" >&2
    exit 2
fi

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
programs=$(mktemp -d)
pids=()
clean_up() {
    kill "${pids[@]}" 2>/dev/null || true
    rm -rf "$programs"
}
trap clean_up EXIT

# record NAME COMMAND...: runs a program beside a fresh server, and MONITOR beside both.
record() {
    local name=$1
    shift
    redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$programs" >/dev/null &
    local server=$!
    pids+=("$server")
    until redis-cli -p "$port" ping >/dev/null 2>&1; do sleep 0.1; done
    redis-cli -p "$port" monitor >"$folder/$name.txt" 2>/dev/null &
    pids+=("$!")
    until grep -q OK "$folder/$name.txt"; do sleep 0.1; done
    "$@"
    kill "$server"
    wait "$server" || true
    echo "recorded: $folder/$name.txt, $(grep -vc ' lua\]' "$folder/$name.txt") requests" >&2
}

cp "$source/bullmq.mjs" "$programs"
(cd "$programs" && npm install --silent --no-audit --no-fund bullmq@6.7.0 ioredis@5)
record bullmq node "$programs/bullmq.mjs" "$port"

mvn -q -B -f "$source/../../benches/foreign/redisson/pom.xml" dependency:copy-dependencies -DoutputDirectory="$programs/jars"
javac -nowarn -cp "$programs/jars/*" -d "$programs" "$source/Record.java"
record redisson java -cp "$programs:$programs/jars/*" Record "$port"
