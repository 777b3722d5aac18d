#!/usr/bin/env bash
# Runs the command as the image of deploy/container does: a static binary, uid 65532, no
# capabilities, in a root with three files: the binary, the certificates, and the resolv.conf that a
# container gets from its runtime. A name server on 127.0.0.77 resolves the name of the store. Needs
# root and openssl. Takes some minutes, because scripts/release/static-binary.sh builds the binary,
# unless STATIC=BINARY gives one.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

if [[ -z ${STATIC:-} ]]; then
    STATIC=$("$root/scripts/release/static-binary.sh")
fi
STATIC=$(realpath "$STATIC")
ls -l "$STATIC"

work=$(mktemp -d)
server_pid=
trap 'stop_server; rm -rf "$work"' EXIT
cd "$work"
for authority in ours theirs; do
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
        -subj "/CN=$authority" -keyout "$authority.key" -out "$authority.pem" 2>/dev/null
done
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=server \
    -keyout server.key -out server.csr 2>/dev/null
openssl x509 -req -in server.csr -CA ours.pem -CAkey ours.key -days 2 -out server.pem \
    -extfile <(echo "subjectAltName=DNS:store.test") 2>/dev/null
mkdir -p root/etc/ssl/certs
cp "$STATIC" root/tenure
chmod 755 root root/tenure

names=127.0.0.77
echo "nameserver $names" >root/etc/resolv.conf
# This program has two servers: a store with a bucket that needs no keys, and a name server for the
# name of the store.
port=$(free_port)
python3 - "$port" "$names" <<'PYTHON' &
import http.server, socket, ssl, struct, sys, threading

def names(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        while True:
            query, client = server.recvfrom(4096)
            end = query.index(b"\0", 12) + 5
            name, kind = query[12:end - 4].lower(), query[end - 4:end - 2]
            known = name == b"\5store\4test\0"
            # The name of the store has the address 127.0.0.1. Other names do not exist.
            answer = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4\x7f\0\0\1" if known and kind == b"\0\1" else b""
            flags = 0x8180 if known else 0x8183
            counts = struct.pack(">HHHHH", flags, 1, 1 if answer else 0, 0, 0)
            server.sendto(query[:2] + counts + query[12:end] + answer, client)

threading.Thread(target=names, args=(sys.argv[2],), daemon=True).start()
class Empty(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
        self.send_response(200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Empty)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("server.pem", "server.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
PYTHON
server_pid=$!

certificate=()
in_scratch() {
    env -i "${certificate[@]}" AWS_ENDPOINT_URL="https://store.test:$port" AWS_REGION=us-east-1 \
        AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=secret \
        "$(command -v unshare)" --pid --mount --ipc --uts --fork \
        "$(command -v setpriv)" --no-new-privs \
        "$(command -v chroot)" --userspec=65532:65532 --groups= root /tenure "$@"
}

trust() {
    cp "$1.pem" root/etc/ssl/certs/ca-certificates.crt
    echo "in an empty root with the binary and $1 certificates:"
}

trust ours
for verb in status compact; do
    for _ in {1..50}; do
        said=$(in_scratch "$verb" --store s3://bucket/app --json 2>&1) && break
        sleep 0.1
    done
    echo "  tenure $verb: $said"
    [[ $said == '{'* ]]
done

trust theirs
code=0
said=$(in_scratch status --store s3://bucket/app 2>&1) || code=$?
echo "  tenure status: exit code $code: $said"
[[ $code == 69 && $said == *UnknownIssuer* ]]

rm root/etc/ssl/certs/ca-certificates.crt
code=0
said=$(in_scratch status --store s3://bucket/app 2>&1) || code=$?
echo "without certificates: exit code $code: $said"
[[ $code == 69 ]]

cp ours.pem root/ours.pem
certificate=(SSL_CERT_FILE=/ours.pem)
said=$(in_scratch status --store s3://bucket/app --field state)
echo "with the certificates that SSL_CERT_FILE names: $said"
[[ $said == vacant ]]

echo "files in the root: $(cd root && find . -type f | sort | tr '\n' ' ')"
