#!/usr/bin/env bash
# Measures the cost of tenure for a program that has aws-sdk-s3, tokio and serde: the number of
# crates and the time of a first build. Writes a table to target/measure/build.md. The script needs a
# registry and some minutes. It compares processor times, because other work on the machine hardly
# changes them.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
cd "$root"
out=$root/target/measure/build.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CARGO_INCREMENTAL=0 CARGO_TERM_COLOR=never

# program NAME DEPENDENCIES: writes a program with these dependencies, in the versions of this
# repository.
program() {
    mkdir -p "$work/$1/src"
    printf '[package]\nname = "%s"\nversion = "0.0.0"\nedition = "2024"\n\n[dependencies]\n%s\n[workspace]\n' \
        "$1" "$2" >"$work/$1/Cargo.toml"
    echo 'fn main() {}' >"$work/$1/src/main.rs"
    cp Cargo.lock "$work/$1/Cargo.lock"
}

# The dependencies of the two programs without tenure. `lean` has the features that tenure uses,
# `usual` has the default features, and both programs have the dependencies in `both`.
lean='aws-sdk-s3 = { version = "1.157", default-features = false, features = ["rt-tokio", "http-1x"] }
aws-config = { version = "1.13", default-features = false, features = ["rt-tokio", "credentials-process", "sso"] }
aws-smithy-http-client = { version = "1", default-features = false, features = ["rustls-ring", "rt-tokio"] }'
usual='aws-sdk-s3 = "1.157"'
both='tokio = { version = "1", features = ["macros", "rt", "sync", "time"] }
serde = { version = "1", features = ["derive"] }
serde_json = "1"'
program bare-usual "$usual
$both"
program bare-lean "$lean
$both"
program with-tenure "tenure = { path = \"$root\" }"

crates() {
    cargo tree --manifest-path "$work/$1/Cargo.toml" --edges normal,build --prefix none --format '{p}' |
        sed -E 's/ \((\*|proc-macro)\)//g; s/ \(\/.*\)//' | sort -u | grep -Evc '^(tenure|bare-usual|bare-lean|with-tenure) '
}

# Prints the processor seconds and the wall-clock seconds of a first build.
build() {
    rm -rf "$work/target"
    local TIMEFORMAT='%U %S %R'
    { time cargo build --quiet --manifest-path "$work/$1/Cargo.toml" --target-dir "$work/target"; } \
        2>"$work/time"
    tail -n 1 "$work/time" | awk '{ printf "%.0f s | %.0f s", $1 + $2, $3 }'
}

mkdir -p "$(dirname "$out")"
{
    echo "On $(date -u +%F), $(nproc) cores, $(rustc --version | cut -d' ' -f1,2)."
    echo 'By `scripts/measure/build.sh`: a program with these dependencies and an empty `main`, its first'
    echo '`cargo build`. Compare the processor times: other work changes the wall times. At most'
    echo '10 crates more than in the first row are allowed; `scripts/ci/dependencies.sh` keeps the number'
    echo 'from growing unnoticed.'
    echo
    echo '| program | crates | processor | wall |'
    echo '| --- | ---: | ---: | ---: |'
    for program in bare-usual bare-lean with-tenure; do
        case $program in
        bare-usual) what='aws-sdk-s3 with its defaults, tokio, serde' ;;
        bare-lean) what='the same with the features, HTTPS and credentials that tenure uses' ;;
        with-tenure) what='tenure' ;;
        esac
        echo "| $what | $(crates $program) | $([[ ${1-} == --count ]] && echo '– | –' || build $program) |"
    done
} >"$work/build.md"
cp "$work/build.md" "$out"
cat "$out"
