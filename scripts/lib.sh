# shellcheck shell=bash
# Functions for the other scripts: they install a server under target/, start it on a free loopback
# port, create a bucket, run a command with the AWS_* variables for it, and stop the server.
# Source this file after `set -euo pipefail`.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
servers=${CARGO_TARGET_DIR:-$root/target}/s3-servers
bucket=tenure-test
server_pid=
command_file=
server_key=testing
# The function that succeeds after the server has started. A script may set another function.
server_is_up=make_bucket

die() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# --help prints the comment at the top of the script.
if [[ ${1:-} == --help || ${1:-} == -h ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
fi

# need COMMAND...: skips the script if one of these commands is missing. In CI a missing command is
# an error.
need() {
    local name
    for name in "$@"; do
        command -v "$name" >/dev/null && continue
        [[ -z ${CI:-} ]] || die "$name is missing"
        echo "skipped: $name is missing"
        exit 0
    done
}

# once NAME COMMAND PACKAGE...: sets $folder to a folder of this name. COMMAND installs the packages
# in this folder, unless an earlier call has installed them. A lock prevents concurrent
# installations by several scripts.
once() {
    folder=$servers/$1
    mkdir -p "$servers"
    exec {lock}>"$folder.lock"
    flock "$lock"
    if [[ $(cat "$folder/installed" 2>/dev/null) != "${*:3}" ]]; then
        rm -rf "$folder"
        echo "$(basename "$0"): installing ${*:3} in $folder; later runs use it" >&2
        "$2" "${@:3}" >&2
        echo "${*:3}" >"$folder/installed"
    fi
    exec {lock}>&-
}

# install NAME REQUIREMENT...: installs Python packages in a virtual environment, and sets $venv to
# its path. uv takes an eighth of the processor time of pip.
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

# install_npm NAME PACKAGE@VERSION: installs a package of npm in a folder, and sets $folder to its
# path.
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
        rm -f "$command_file"
        server_pid=
    fi
}

# s3_environment ENDPOINT [KEY]: sets the variables of a client, and hides the settings of this
# user.
s3_environment() {
    export AWS_ENDPOINT_URL=$1 AWS_REGION=us-east-1
    export AWS_ACCESS_KEY_ID=${2:-testing} AWS_SECRET_ACCESS_KEY=${2:-testing}
    export AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null
    export AWS_EC2_METADATA_DISABLED=true NO_PROXY=127.0.0.1 TENURE_TEST_S3_BUCKET=$bucket
    unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL_S3
}

# start_server NAME PORT COMMAND...: starts the server, creates the bucket, and exports the
# variables of a client. $server_key is the name and the password of its user.
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
        # A connection is tried first, because it is cheap: it starts no process.
        if (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null && "$server_is_up"; then
            rm -f "$log"
            # With this command, a test can start the server again after killing it.
            command_file=$servers/$name-$port.command
            printf '%q ' "$@" >"$command_file"
            export TENURE_TEST_SERVERS+=" $name,http://127.0.0.1:$port,$server_pid,$command_file"
            return
        fi
        kill -0 "$server_pid" 2>/dev/null || break
        sleep 0.2
    done
    cat "$log" >&2
    die "$name did not start"
}

# Signs the request, because some servers verify signatures. Signature version 2 needs the least
# code.
make_bucket() {
    python3 - "$AWS_ENDPOINT_URL" "$bucket" 2>/dev/null <<'EOF'
import base64, email.utils, hashlib, hmac, os, sys, urllib.request
endpoint, bucket = sys.argv[1:]
date = email.utils.formatdate(usegmt=True)
secret, text = os.environ["AWS_SECRET_ACCESS_KEY"], f"PUT\n\n\n\nx-amz-date:{date}\n/{bucket}"
mac = base64.b64encode(hmac.digest(secret.encode(), text.encode(), hashlib.sha1)).decode()
headers = {"x-amz-date": date, "Authorization": f"AWS {os.environ['AWS_ACCESS_KEY_ID']}:{mac}"}
request = urllib.request.Request(f"{endpoint}/{bucket}", method="PUT", headers=headers)
# The request must not use a proxy.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
opener.open(request, timeout=30)
EOF
}

# For DynamoDB, no bucket is created. Succeeds if the server answers.
speaks_dynamodb() {
    python3 - "$AWS_ENDPOINT_URL" 2>/dev/null <<'EOF'
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
opener.open(sys.argv[1], timeout=30)
EOF
}

# parse_command "$@": sets $command to the arguments after `--`.
parse_command() {
    if [[ $# -lt 2 || $1 != -- ]]; then
        echo "usage: $(basename "$0") -- COMMAND [ARGUMENT...]" >&2
        exit 64
    fi
    shift
    command=("$@")
}

# Runs the command, and ends the script with the exit code of the command.
run_command() {
    local code=0
    "${command[@]}" || code=$?
    exit "$code"
}
