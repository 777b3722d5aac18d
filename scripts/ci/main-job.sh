#!/usr/bin/env bash
# Runs an election over HTTP on an independent S3 server: three candidates start, the script kills
# the leader, another candidate wins the next epoch, and a compaction leaves one epoch object.
#
#   scripts/servers/moto.sh -- scripts/ci/main-job.sh
#
# TENURE=FILE is the command. Without this variable the script builds the command.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
cd "$root"

bucket=${TENURE_TEST_S3_BUCKET:?run it with scripts/servers/moto.sh or its like}
# Each run uses a new prefix, so several runs can share a server.
store=s3://$bucket/main-job-$$
tenure=${TENURE:-${CARGO_TARGET_DIR:-target}/debug/tenure}
work=$(mktemp -d)
declare -A pids=()

say() { printf '\n== %s\n' "$*"; }

die() {
    echo "main-job: $*" >&2
    logs >&2
    exit 1
}

logs() { (cd "$work" && tail -n +1 -- *.log) || true; }

end_all() {
    for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# wait_until CONDITION COMMAND...: repeats the command until it succeeds, for at most a minute.
wait_until() {
    local condition=$1
    shift
    for _ in {1..300}; do
        if "$@"; then return; fi
        sleep 0.2
    done
    die "not within a minute: $condition"
}

# field NAME: prints this field of the JSON object on stdin.
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

status() { "$tenure" status --store "$store" --json; }

# The CMD of each candidate: it appends its epoch to a file, and sleeps.
export EPOCHS=$work/epochs
touch "$EPOCHS"
cmd='echo "$TENURE_EPOCH $TENURE_NAME" >>"$EPOCHS"; echo "CMD runs in epoch $TENURE_EPOCH"; exec sleep 600'

# Succeeds if CMD started in this epoch.
runs_in() { grep -q "^$1 " "$EPOCHS"; }
name_of() { sed -n "s/^$1 //p" "$EPOCHS"; }

if [[ -z ${TENURE:-} ]]; then
    say "Build the command"
    cargo build --quiet
fi

say "Three candidates on $store"
for name in a b c; do
    "$tenure" run --store "$store" --name "$name" --validity 3s -- sh -c "$cmd" \
        >"$work/$name.log" 2>&1 &
    pids[$name]=$!
done
wait_until "epoch 1 leads" runs_in 1
first=$(name_of 1)
"$tenure" status --store "$store"
[[ $(status | field state) == held ]] || die "epoch 1 is not held"
[[ $(status | field candidate) == "$first" ]] || die "$first runs CMD and does not lead"

say "Kill the leader, $first, with SIGKILL"
kill -KILL "${pids[$first]}"
wait "${pids[$first]}" 2>/dev/null || true
unset "pids[$first]"
wait_until "epoch 2 leads" runs_in 2
second=$(name_of 2)
[[ $second != "$first" ]] || die "the dead $first was elected"
"$tenure" status --store "$store"

# If SIGTERM has ended CMD or the campaign, the exit code is 143: 128 + 15.
end() {
    local name=$1 code=0
    kill -TERM "${pids[$name]}"
    wait "${pids[$name]}" || code=$?
    unset "pids[$name]"
    echo "$name ended with $code"
    [[ $code == 143 ]] || die "$name ended with $code, not 143"
}

say "Let the others end, the leader last"
for name in "${!pids[@]}"; do
    if [[ $name != "$second" ]]; then end "$name"; fi
done
end "$second"

say "The logs of the candidates"
logs

say "Compact to one object"
report=$("$tenure" compact --store "$store" --keep 1 --min-age 0s --json)
echo "$report"
[[ $(field deleted <<<"$report") -ge 1 ]] || die "nothing was deleted"
[[ $(field kept <<<"$report") == 1 ]] || die "the compaction kept more or less than one epoch"
report=$("$tenure" compact --store "$store" --keep 1 --min-age 0s --json)
echo "$report"
[[ $(field listed <<<"$report") == 1 ]] || die "there is not exactly one epoch object"
"$tenure" status --store "$store"
status
[[ $(status | field state) == vacant ]] || die "the last epoch is not sealed"
[[ $(status | field ended) == resigned ]] || die "the last leader did not resign"
[[ $(status | field epoch) == "$(field newest <<<"$report")" ]] || die "the newest epoch is gone"

say "The main job is done: epochs $(cut -d' ' -f1 "$EPOCHS" | paste -sd' ')"
