# Steps of CI, one after another or side by side, each with a log of its own under $logs, so that what
# CI shows of a failure is the failure. Sourced, after `set -euo pipefail`.

mkdir -p "$logs"
declare -A pids=()

# begin NAME COMMAND...: begins a step beside those that were begun before.
begin() {
    local name=$1 log
    shift
    [[ -z ${pids[$name]:-} ]] || { echo "two steps are called $name" >&2; exit 1; }
    log=$(log_of "$name")
    # In the background, also when nothing runs beside it: a function that is called in a condition
    # goes on after an error.
    (
        begun=$SECONDS
        "$@"
        ran_some_test "$log"
        built_without_warnings "$log"
        # Its own line, as a shell that is begun for it has used none.
        times >"$log.used"
        echo "$((SECONDS - begun)) s, of processor time $(processor_time <"$log.used")" >"$log.time"
    ) </dev/null >"$log" 2>&1 &
    pids[$name]=$!
}

# begin_nice LEVEL NAME COMMAND...: the same, of a step that takes the time which those of a lower level leave.
begin_nice() {
    begin "$2" nicely "$1" "${@:3}"
}

# What the commands have used that a shell has waited for, from what its `times` says.
processor_time() { awk -F '[ms ]+' 'END { printf "%.0f s", $1 * 60 + $2 + $3 * 60 + $4 }'; }

nicely() {
    # Without being root it can go up alone.
    renice -n "$1" $BASHPID >/dev/null 2>&1 || true
    "${@:2}"
}

# A filter that names no test passes, too: fails if test programs ran and none of them had a test.
ran_some_test() {
    ! grep -q '^test result: ' "$1" || grep -qE '^test result: ok\. [1-9]' "$1" ||
        { echo "error: no test has run"; return 1; }
}

# Also what no lint builds: tests with default features, and the packages.
built_without_warnings() {
    ! grep -qE '^warning: `[^`]+` \(.*\) generated [0-9]+ warning' "$1" ||
        { echo "error: there are warnings"; return 1; }
}

log_of() { echo "$logs/${1//[^A-Za-z0-9]/-}.log"; }

# finish [NAME...]: waits for these steps, or for all, says how each went, and ends CI if one failed.
finish() {
    [[ $# -gt 0 ]] || set -- "${!pids[@]}"
    local name log failed=()
    for name in "$@"; do
        log=$(log_of "$name")
        if wait "${pids[$name]}"; then
            printf '\n== %s: passed, %s\n' "$name" "$(cat "$log.time")"
            grep -hE '^test result: |^Summary |: passed, |seeds [0-9]+ to ' "$log" || true
        else
            failed+=("$name")
        fi
        unset 'pids[$name]'
    done
    for name in "${failed[@]}"; do
        log=$(log_of "$name")
        printf '\n== %s: FAILED. Its end, and what it called an error; the whole is in %s\n' "$name" "$log"
        tail -n 60 "$log" | cut -c1-300
        echo ...
        grep -nE '^error|panicked at|FAILED|^failures:' -A 4 "$log" | cut -c1-300 | tail -n 60 || true
    done
    [[ ${#failed[@]} == 0 ]] || exit 1
}

# step NAME COMMAND...: a step that the next ones wait for.
step() {
    begin "$@"
    finish "$1"
}

# Also what a step has started.
trap 'for pid in "${pids[@]}"; do pkill -P "$pid" || true; kill "$pid" 2>/dev/null || true; done' EXIT
