#!/usr/bin/env bash
# Counts the crates that a user of the library builds. Fails if their number has grown.
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
    local tree=$1 most=$2 count
    shift 2
    count=$(crates "$@")
    echo "$tree: $count crates (at most $most)"
    if ((count > most)); then
        echo "$tree: more crates than before. If they are worth it, raise the bound in this file." >&2
        exit 1
    fi
}

check "the library without features" 50 --no-default-features
check "the library with its default features" 179
check "with S3 and DynamoDB" 180 --features dynamodb
check "with DynamoDB alone" 169 --no-default-features --features dynamodb
check "the command" 234 -p tenure-cli

# cargo does not write to a pipe, because grep ends at its first match, and cargo would then fail.
tree=$(cargo tree --locked -p tenure -p tenure-cli --all-features --edges normal,build --prefix none)
for crate in openssl-sys aws-lc-sys native-tls; do
    if grep -q "^$crate " <<<"$tree"; then
        echo "$crate must stay out of the tree: TLS is rustls with ring" >&2
        exit 1
    fi
done
