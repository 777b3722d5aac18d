# shellcheck shell=bash
# What the scripts beside it share: a server that is installed under target/, on a free port of the
# loopback, a bucket, a command with the AWS_* variables for it, and the server's end.
# Sourced, after `set -euo pipefail`.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
servers=${CARGO_TARGET_DIR:-$root/target}/s3-servers
bucket=tenure-test
server_pid=
server_key=testing
# What tells that the server is up; a script may set another.
server_is_up=make_bucket

die() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# The comment at the top of a script is its usage.
if [[ ${1:-} == --help || ${1:-} == -h ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
fi

# need COMMAND...: skips the script where one of these is missing. CI requires them.
need() {
    local name
    for name in "$@"; do
        command -v "$name" >/dev/null && continue
        [[ -z ${CI:-} ]] || die "$name is missing"
        echo "skipped: $name is missing"
        exit 0
    done
}

# once NAME COMMAND WHAT...: leaves a folder of this name in $folder, in which COMMAND has put WHAT, now or at
# an earlier call. Nobody else does so meanwhile.
once() {
    folder=$servers/$1
    mkdir -p "$servers"
    exec {lock}>"$folder.lock"
    flock "$lock"
    if [[ $(cat "$folder/installed" 2>/dev/null) != "${*:3}" ]]; then
        rm -rf "$folder"
        "$2" "${@:3}" >&2
        echo "${*:3}" >"$folder/installed"
    fi
    exec {lock}>&-
}

# install NAME REQUIREMENT...: puts Python packages into an environment of their own, and leaves its path in
# $venv. By uv: pip takes eight times the processor time.
install() {
    once uv with_pip uv==0.13.9
    uv=$folder/bin/uv
    once "$1" with_uv "${@:2}"
    venv=$folder
}

with_pip() {
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check "$@"
}

with_uv() {
    "$uv" venv --quiet --no-python-downloads --python "$(command -v python3)" "$folder"
    "$uv" pip install --quiet --python "$folder/bin/python" "$@"
}

# install_npm NAME PACKAGE@VERSION: puts a package of npm into a folder of its own, and leaves its path in
# $folder.
install_npm() { once "$1" with_npm "$2"; }

with_npm() { mkdir "$folder"; npm install --prefix "$folder" --silent --no-fund --no-audit "$1"; }

free_port() {
    python3 - <<'EOF'
import socket
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    print(s.getsockname()[1])
EOF
}

stop_server() {
    if [[ -n $server_pid ]]; then
        kill "$server_pid" 2>/dev/null || true
        for _ in {1..50}; do
            kill -0 "$server_pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$server_pid" 2>/dev/null || true
        wait "$server_pid" 2>/dev/null || true
        server_pid=
    fi
}

# s3_environment ENDPOINT [KEY]: what a client needs, and nothing of this user's own settings.
s3_environment() {
    export AWS_ENDPOINT_URL=$1 AWS_REGION=us-east-1
    export AWS_ACCESS_KEY_ID=${2:-testing} AWS_SECRET_ACCESS_KEY=${2:-testing}
    export AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null
    export AWS_EC2_METADATA_DISABLED=true NO_PROXY=127.0.0.1 TENURE_TEST_S3_BUCKET=$bucket
    unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL_S3
}

# start_server NAME PORT COMMAND...: starts the server, makes the bucket, and exports what a client
# needs. The name, and the password too, of its user is in $server_key.
start_server() {
    local name=$1 port=$2 log=$servers/$1-$2.log
    shift 2
    trap stop_server EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    "$@" >"$log" 2>&1 &
    server_pid=$!
    s3_environment "http://127.0.0.1:$port" "$server_key"
    for _ in {1..150}; do
        # Without a process for each try, until the port is open.
        if (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null && "$server_is_up"; then
            rm -f "$log"
            return
        fi
        kill -0 "$server_pid" 2>/dev/null || break
        sleep 0.2
    done
    cat "$log" >&2
    die "$name did not start"
}

# Signed, in the old and short way, as some servers verify.
make_bucket() {
    python3 - "$AWS_ENDPOINT_URL" "$bucket" 2>/dev/null <<'EOF'
import base64, email.utils, hashlib, hmac, os, sys, urllib.request
endpoint, bucket = sys.argv[1:]
date = email.utils.formatdate(usegmt=True)
secret, text = os.environ["AWS_SECRET_ACCESS_KEY"], f"PUT\n\n\n\nx-amz-date:{date}\n/{bucket}"
mac = base64.b64encode(hmac.digest(secret.encode(), text.encode(), hashlib.sha1)).decode()
headers = {"x-amz-date": date, "Authorization": f"AWS {os.environ['AWS_ACCESS_KEY_ID']}:{mac}"}
request = urllib.request.Request(f"{endpoint}/{bucket}", method="PUT", headers=headers)
# No proxy.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
opener.open(request, timeout=30)
EOF
}

# Whether anything answers, in place of a bucket: DynamoDB has none.
speaks_dynamodb() {
    python3 - "$AWS_ENDPOINT_URL" 2>/dev/null <<'EOF'
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
opener.open(sys.argv[1], timeout=30)
EOF
}

# parse_command "$@": leaves what follows `--` in $command.
parse_command() {
    if [[ $# -lt 2 || $1 != -- ]]; then
        echo "usage: $(basename "$0") -- COMMAND [ARGUMENT...]" >&2
        exit 64
    fi
    shift
    command=("$@")
}

# The command's exit code is the script's.
run_command() {
    local code=0
    "${command[@]}" || code=$?
    exit "$code"
}
