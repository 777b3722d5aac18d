#!/usr/bin/env bash
# Runs a command with the S3 of localstack, an emulator of AWS in Python. Installs it under target/.
#
#   scripts/servers/localstack.sh -- cargo test --test stores s3_store
#
# The command finds the server through AWS_ENDPOINT_URL, and the name of a bucket in
# TENURE_TEST_S3_BUCKET. The server stops when the command ends.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

parse_command "$@"
# Later versions need Python 3.13. This version needs older versions of some packages, and one
# package that it does not declare.
install localstack "localstack-core[runtime]==${LOCALSTACK_VERSION:-4.8.1}" "cbor2<5.8" "pyOpenSSL<25" service-identity
port=$(free_port)
mkdir -p "$venv/tmp"
# The server runs only S3, and sends no telemetry.
start_server localstack "$port" env TMPDIR="$venv/tmp" FILESYSTEM_ROOT="$venv/tmp" SERVICES=s3 \
    XDG_CACHE_HOME="$venv/cache" \
    GATEWAY_LISTEN="127.0.0.1:$port" DNS_ADDRESS=0 DISABLE_EVENTS=1 SKIP_SSL_CERT_DOWNLOAD=1 \
    SKIP_INFRA_DOWNLOADS=1 "$venv/bin/python" -m localstack.runtime.main
run_command
