#!/usr/bin/env bash
# Counts the crates that a user of the library gets, so that the tree does not grow unnoticed.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
cd "$root"

crates() {
    local package=(-p tenure)
    [[ " $* " != *" -p "* ]] || package=()
    cargo tree --locked "${package[@]}" --edges normal,build --prefix none --format '{p}' "$@" |
        sed -E 's/ \((\*|proc-macro)\)//g; s/ \(\/.*\)//' | sort -u | grep -Evc '^tenure(-history|-cli)? '
}

check() {
    local what=$1 most=$2
    shift 2
    local count
    count=$(crates "$@")
    echo "$what: $count crates (at most $most)"
    if ((count > most)); then
        echo "$what has grown: is it worth it? Then raise the bound here, and say why." >&2
        exit 1
    fi
}

check "the library without features" 51 --no-default-features
check "the library with its default features" 183
check "with DynamoDB beside S3" 184 --features dynamodb
check "with DynamoDB alone" 173 --no-default-features --features dynamodb
# Three of them, roff included, make the completions of shells and the manual page; 20 are the
# Prometheus text (metrics-exporter-prometheus, without its own server).
# reqwest, which speaks HTTP/1.1 alone, has taken the place of Amazon's connector: two crates more.
check "the command" 234 -p tenure-cli

# Not in a pipe: grep ends at the first line that it finds, cargo then fails, and so does the pipe.
tree=$(cargo tree --locked -p tenure -p tenure-cli --all-features --edges normal,build --prefix none)
for crate in openssl-sys aws-lc-sys native-tls; do
    if grep -q "^$crate " <<<"$tree"; then
        echo "$crate must not come in: TLS is rustls with ring" >&2
        exit 1
    fi
done
