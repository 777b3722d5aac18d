#!/usr/bin/env bash
# Runs a node of the If-Match post (see docs/how-to/upgrade.md) and `tenure run` on one lock. The
# unchanged class of the post fails when it reads the first record of tenure. With a change of three
# lines, the node waits for the end of the lease and takes over, and the tokens of both continue to
# rise.
#
#   scripts/servers/moto.sh -- scripts/ci/if-match-node.sh
#
# TENURE=FILE is the command. Without this variable the script builds the command.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
cd "$root"

: "${TENURE_TEST_S3_BUCKET:?run it with scripts/servers/moto.sh}"
if [[ -z ${TENURE:-} ]]; then
    cargo build --quiet
    export TENURE=${CARGO_TARGET_DIR:-target}/debug/tenure
fi
# scripts/servers/moto.sh has installed the SDK for Python.
exec "${CARGO_TARGET_DIR:-target}/s3-servers/moto/bin/python" scripts/ci/if-match-node.py
