#!/usr/bin/env bash
# Runs a command with moto, an S3 server in Python. Installs it under target/.
#
#   scripts/servers/moto.sh -- cargo test --test stores s3_store
#
# The command finds the server through AWS_ENDPOINT_URL, and the name of a bucket in
# TENURE_TEST_S3_BUCKET. The server stops when the command ends.
#
# MOTO_AS_IT_IS=1 omits the lock for requests. Without this lock, racing conditional writes can all
# succeed.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

parse_command "$@"
install moto "moto[server]==${MOTO_VERSION:-5.2.5}"
port=$(free_port)

# moto checks a condition and writes in two steps, so two racing writers could both win. This lock
# admits one request at a time.
serve='
import os, sys, threading
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple

moto = DomainDispatcherApplication(create_backend_app)
lock = threading.Lock()

def one_at_a_time(environ, start_response):
    if os.environ.get("MOTO_AS_IT_IS"):
        return moto(environ, start_response)
    with lock:
        return list(moto(environ, start_response))

# The default is HTTP/1.0, which needs a connection for each request.
WSGIRequestHandler.protocol_version = "HTTP/1.1"
run_simple("127.0.0.1", int(sys.argv[1]), one_at_a_time, threaded=True)
'
start_server moto "$port" "$venv/bin/python" -c "$serve" "$port"
echo "moto.sh: bucket $bucket at $AWS_ENDPOINT_URL, until \`${command[0]}\` ends" >&2
run_command
