#!/usr/bin/env bash
# Runs a command with s3s-fs, an S3 server in Rust on a folder. Several racing conditional writes
# can succeed, so elections must refuse this store. Builds the server under target/.
#
#   scripts/servers/s3s-fs.sh -- cargo test --test stores only_races_detect_the_fault -- --ignored
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

parse_command "$@"
version=${S3S_FS_VERSION:-0.14.1}
folder=$servers/s3s-fs
if [[ ! -e $folder/.crates.toml ]] || ! grep -q "s3s-fs $version " "$folder/.crates.toml"; then
    cargo install s3s-fs --version "$version" --features binary --locked --root "$folder" >&2
fi
port=$(free_port)
rm -rf "$folder/data"
mkdir -p "$folder/data"
start_server s3s-fs "$port" "$folder/bin/s3s-fs" --host 127.0.0.1 --port "$port" \
    --access-key testing --secret-key testing "$folder/data"
run_command
