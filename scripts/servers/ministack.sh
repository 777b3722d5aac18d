#!/usr/bin/env bash
# Runs a command with ministack, an emulator of AWS in Python. Installs it under target/.
#
#   scripts/servers/ministack.sh -- cargo test --test stores s3_store
#
# The command finds the server through AWS_ENDPOINT_URL, and the name of a bucket in
# TENURE_TEST_S3_BUCKET. The server stops when the command ends.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

parse_command "$@"
install ministack "ministack==${MINISTACK_VERSION:-1.5.33}"
port=$(free_port)
# The server writes its files under target/.
mkdir -p "$venv/tmp"
start_server ministack "$port" \
    env BIND_HOST=127.0.0.1 GATEWAY_PORT="$port" TMPDIR="$venv/tmp" "$venv/bin/ministack"
run_command
