#!/usr/bin/env bash
# A node of the If-Match post next to `tenure run`, on one lock: the class as posted fails on the first
# record of tenure; with the change of three lines it waits, takes over, and both go on counting.
#
#   scripts/servers/moto.sh -- scripts/ci/if-match-node.sh
#
# TENURE=FILE runs that command in place of one that is built first.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
cd "$root"

: "${TENURE_TEST_S3_BUCKET:?run it with scripts/servers/moto.sh}"
if [[ -z ${TENURE:-} ]]; then
    cargo build --quiet
    export TENURE=${CARGO_TARGET_DIR:-target}/debug/tenure
fi
# The SDK for Python comes with moto.
exec "${CARGO_TARGET_DIR:-target}/s3-servers/moto/bin/python" scripts/ci/if-match-node.py
