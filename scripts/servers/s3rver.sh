#!/usr/bin/env bash
# Runs a command with s3rver, an S3 server in Node.js that ignores conditions. So elections must
# refuse this store. Installs the server under target/.
#
#   scripts/servers/s3rver.sh -- cargo test --test stores the_store_is_refused -- --ignored
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

parse_command "$@"
install_npm s3rver "s3rver@${S3RVER_VERSION:-3.7.1}"
port=$(free_port)
rm -rf "$folder/data"
mkdir -p "$folder/data"
# s3rver accepts only this key.
server_key=S3RVER
start_server s3rver "$port" node "$folder/node_modules/s3rver/bin/s3rver.js" --silent \
    --directory "$folder/data" --address 127.0.0.1 --port "$port" --no-vhost-buckets
run_command
