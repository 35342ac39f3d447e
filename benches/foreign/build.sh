#!/usr/bin/env bash
# Builds the programs of the foreign locks into target/foreign/, or into the given folder: `benches/foreign/build.sh [FOLDER]`.
# Downloads Redisson from Maven Central and redsync through the Go module proxy. On Debian and Ubuntu, with INSTALL=1, it
# installs missing tools with apt-get.
set -euo pipefail
source=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$source/../../target/foreign}

declare -A packages=([mvn]=maven [javac]=default-jdk-headless [go]=golang [redis-server]=redis-server)
missing=()
for tool in "${!packages[@]}"; do
    command -v "$tool" >/dev/null || missing+=("${packages[$tool]}")
done
if ((${#missing[@]})); then
    if [[ ${INSTALL:-} == 1 ]]; then
        apt-get install -y "${missing[@]}"
    else
        echo "benches/foreign/build.sh: missing packages: ${missing[*]} (INSTALL=1 installs them with apt-get)" >&2
        exit 2
    fi
fi

mkdir -p "$folder/redisson" "$folder/redsync"
folder=$(cd "$folder" && pwd)
mvn -q -B -f "$source/redisson/pom.xml" dependency:copy-dependencies \
    -DoutputDirectory="$folder/redisson"
javac -cp "$folder/redisson/*" -d "$folder/redisson" "$source/redisson/Load.java"
(cd "$source/redsync" && go build -o "$folder/redsync/redsync-load" .)
echo "built: $folder" >&2
