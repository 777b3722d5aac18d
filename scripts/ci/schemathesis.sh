#!/usr/bin/env bash
# Compares the replies of `tenure serve` with cli/openapi.json. The program schemathesis generates
# the requests from this file. The script installs schemathesis under target/.
#
#   scripts/ci/schemathesis.sh [TENURE]
#
# TENURE is the command, target/debug/tenure by default. The requests go to three sidecars: one
# leads and owns partitions, one follows, and one needs an access key.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

tenure=${1:-${CARGO_TARGET_DIR:-$root/target}/debug/tenure}
[[ -x $tenure ]] || die "there is no $tenure: build it first, cargo build -p tenure-cli"
install schemathesis "schemathesis==${SCHEMATHESIS_VERSION:-4.32.5}"
work=$(mktemp -d)
sidecars=()
cleanup() {
    kill "${sidecars[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
head -c 24 /dev/urandom | base64 >"$work/key"

# serve NAME OPTION...: starts a sidecar, and leaves its address in $url.
serve() {
    local name=$1
    shift
    # This creates the log, because the loop below may read it before the sidecar opens it.
    : >"$work/$name.log"
    "$tenure" serve --election "orders=file://$work/store" --group "orders=file://$work/group" \
        --partitions 0..4 --name "$name" --listen 127.0.0.1:0 --validity 60s --poll 1s --grace 0s \
        "$@" 2>"$work/$name.log" &
    sidecars+=($!)
    for _ in {1..600}; do
        url=$(sed -n 's#.*serving elections at \(http://[^ ]*\).*#\1#p' "$work/$name.log")
        if [[ -n $url ]]; then return; fi
        sleep 0.1
    done
    die "$name does not serve: $(cat "$work/$name.log")"
}

# check NAME OPTION...: tests all paths except the streams, because a stream never ends.
check() {
    local name=$1
    shift
    # A follower must reply with 503, so the check of server errors is omitted.
    "$venv/bin/schemathesis" --config-file "$work/schemathesis.toml" run "$root/cli/openapi.json" \
        --url "$url" --workers 1 --exclude-checks not_a_server_error \
        --exclude-path-regex '/(events|sse)$' --phases examples,coverage,fuzzing \
        --max-examples "${EXAMPLES:-50}" --generation-database none --no-color "$@" \
        >"$work/said" 2>&1 ||
        { cat "$work/said"; die "the replies of $name differ from cli/openapi.json"; }
    grep -E '[0-9]+ generated' "$work/said" || true
    echo "the replies of $name match cli/openapi.json"
}

cd "$work"
# Generated names belong to no election, group or partition, so these options give the names that
# exist.
printf '[parameters]\n"path.name" = "orders"\n"path.partition" = "3"\n' >schemathesis.toml
serve leader --app-health heartbeat --app-health-deadline 600s
curl --silent --fail --output /dev/null --request POST "$url/v1/heartbeat"
for _ in {1..600}; do
    if curl --silent --fail --output /dev/null "$url/v1/elections/orders/token" &&
        curl --silent --fail --output /dev/null "$url/v1/groups/orders/partitions/3/token"; then
        break
    fi
    sleep 0.1
done
check leader
serve follower
check follower
serve locked --access-key-file "$work/key"
check "one with a key" --header "Authorization: Bearer $(cat "$work/key")"
