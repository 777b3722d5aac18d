#!/usr/bin/env bash
# Measures the resident memory of `tenure serve` twice: as the leader of 100 elections on a
# directory, and as the owner of 64 partitions with a client of the events. Fails above 15 MiB.
#
#   scripts/measure/sidecar-memory.sh [TENURE]
#
# TENURE is a release build, target/release/tenure by default.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

tenure=${1:-${CARGO_TARGET_DIR:-$root/target}/release/tenure}
[[ -x $tenure ]] || die "there is no $tenure: build it first, cargo build --release -p tenure-cli"
elections=${ELECTIONS:-100}
partitions=${PARTITIONS:-64}
most=$((15 * 1024))
work=$(mktemp -d)
sidecar=
cleanup() {
    [[ -z $sidecar ]] || kill "$sidecar" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

rss() { sed -n "s/^$1:[^0-9]*\([0-9]*\) kB/\1/p" "/proc/$sidecar/status"; }

# measure NAME PATH COUNT WORDS OPTION...: starts a sidecar, and requests PATH after the log
# contains WORDS in COUNT lines.
measure() {
    local what=$1 path=$2 count=$3 words=$4 had now peak
    shift 4
    "$tenure" serve "$@" --listen 127.0.0.1:0 --validity 3s --grace 0s 2>"$work/log" &
    sidecar=$!
    # Waits until the log contains the lines, for at most 2 minutes.
    for _ in {1..1200}; do
        had=$(grep -c "$words" "$work/log" || true)
        if ((had >= count)); then break; fi
        kill -0 "$sidecar" 2>/dev/null || die "the sidecar has ended: $(cat "$work/log")"
        sleep 0.1
    done
    ((had >= count)) || die "the log has '$words' $had times, not $count"
    url=$(sed -n 's#.*serving elections at \(http://[^ ]*\).*#\1#p' "$work/log")
    if [[ $path == /v1/groups/* ]]; then
        curl --silent --no-buffer --output /dev/null "$url$path/events" &
    fi
    for _ in {1..100}; do
        curl --silent --fail --output /dev/null "$url$path"
        sleep 0.1
    done
    now=$(rss VmRSS) peak=$(rss VmHWM)
    echo "$what: $now KiB resident, at most $peak KiB"
    kill "$sidecar"
    wait "$sidecar" || true
    sidecar=
    ((now <= most)) || die "that is more than $most KiB"
}

options=()
for number in $(seq "$elections"); do
    options+=(--election "e$number=file://$work/store$number")
done
measure "$elections elections" /v1/elections "$elections" 'elected: epoch' "${options[@]}"
measure "a group of $partitions partitions" /v1/groups/g "$partitions" 'granted: partition' \
    --group "g=file://$work/group" --partitions "0..$partitions"
