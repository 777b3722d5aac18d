#!/usr/bin/env bash
# Measures the resident memory of `tenure serve` with 100 elections that it leads on a directory, and
# fails above 15 MiB.
#
#   scripts/sidecar-memory.sh [TENURE]
#
# TENURE is a release build, target/release/tenure by default.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

tenure=${1:-${CARGO_TARGET_DIR:-$root/target}/release/tenure}
[[ -x $tenure ]] || die "there is no $tenure: build it first, cargo build --release -p tenure-cli"
elections=${ELECTIONS:-100}
most=$((15 * 1024))
work=$(mktemp -d)
sidecar=
cleanup() {
    [[ -z $sidecar ]] || kill "$sidecar" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

options=()
for number in $(seq "$elections"); do
    options+=(--election "e$number=file://$work/store$number")
done
"$tenure" serve "${options[@]}" --listen 127.0.0.1:0 --validity 3s --grace 0s 2>"$work/log" &
sidecar=$!
# All lead, and have renewed a few times.
for _ in {1..1200}; do
    led=$(grep -c 'elected: epoch' "$work/log" || true)
    if ((led >= elections)); then break; fi
    kill -0 "$sidecar" 2>/dev/null || die "it has ended: $(cat "$work/log")"
    sleep 0.1
done
((led >= elections)) || die "only $led of $elections were elected"
url=$(sed -n 's#.*serving elections at \(http://[^ ]*\).*#\1#p' "$work/log")
for _ in {1..100}; do
    curl --silent --fail --output /dev/null "$url/v1/elections"
    sleep 0.1
done
rss() { sed -n "s/^$1:[^0-9]*\([0-9]*\) kB/\1/p" "/proc/$sidecar/status"; }
now=$(rss VmRSS) peak=$(rss VmHWM)
echo "$elections elections: $now KiB resident, at most $peak KiB"
((now <= most)) || die "that is more than $most KiB"
