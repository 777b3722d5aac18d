#!/usr/bin/env bash
# Runs a command with gcp-storage-emulator, an emulator of Cloud Storage in Python that ignores
# preconditions. So elections must refuse this store. Installs the emulator under target/.
#
#   scripts/servers/gcs-emulator.sh -- cargo test --test stores emulator -- --ignored
#
# The command finds the server through STORAGE_EMULATOR_HOST, and the name of a bucket in
# TENURE_TEST_GCS_BUCKET. The server stops when the command ends.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

parse_command "$@"
install gcs-emulator "gcp-storage-emulator==${GCS_EMULATOR_VERSION:-2026.7.19}"
port=$(free_port)
export STORAGE_EMULATOR_HOST=http://127.0.0.1:$port NO_PROXY=127.0.0.1
export TENURE_TEST_GCS_BUCKET=$bucket

# The server itself creates the bucket, so this only checks that the server answers.
make_bucket() {
    python3 - "$STORAGE_EMULATOR_HOST" 2>/dev/null <<'PYTHON'
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
opener.open(f"{sys.argv[1]}/storage/v1/b", timeout=30)
PYTHON
}

start_server gcs-emulator "$port" "$venv/bin/gcp-storage-emulator" start --host=127.0.0.1 \
    --port="$port" --in-memory --default-bucket="$bucket"
run_command
