#!/usr/bin/env bash
# Runs a command with the path of libfaketime in TENURE_TEST_FAKETIME. If libfaketime is not
# installed, unpacks the Debian package under target/. On systems other than Debian, prints a line
# and skips the command.
#
#   scripts/servers/faketime.sh -- cargo test --test chaos stepped -- --ignored --nocapture
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

parse_command "$@"
unpacked=$servers/../faketime

# This variant of the library supports programs with several threads.
find_library() {
    find /usr/lib "$unpacked" -name libfaketimeMT.so.1 -print -quit 2>/dev/null
}

unpack() {
    command -v apt-get dpkg-deb >/dev/null || return
    rm -rf "$unpacked"
    mkdir -p "$unpacked"
    (cd "$unpacked" && apt-get -qq download libfaketime && dpkg-deb -x libfaketime_*.deb .) >&2
}

library=$(find_library || true)
if [[ -z $library ]]; then
    unpack || true
    library=$(find_library || true)
fi
if [[ -z $library ]]; then
    echo "faketime.sh: skipped: there is no libfaketime (on Debian: apt-get install libfaketime)" >&2
    exit 0
fi
TENURE_TEST_FAKETIME=$(realpath "$library")
export TENURE_TEST_FAKETIME
run_command
