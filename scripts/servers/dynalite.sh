#!/usr/bin/env bash
# Runs a command with dynalite, an emulator of DynamoDB in Node.js. Installs it under target/.
#
#   scripts/servers/dynalite.sh -- cargo test --test stores dynamodb_servers -- --ignored
#
# The command finds the server through AWS_ENDPOINT_URL. The server stops when the command ends.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

parse_command "$@"
install_npm dynalite "dynalite@${DYNALITE_VERSION:-4.0.0}"
port=$(free_port)
# The server keeps tables in memory, and creates them without a delay.
server_is_up=speaks_dynamodb
start_server dynalite "$port" node "$folder/node_modules/dynalite/cli.js" --port "$port" \
    --host 127.0.0.1 --createTableMs 0
run_command
