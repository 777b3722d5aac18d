#!/usr/bin/env bash
# Runs a command with a small Ceph cluster on loopback: a monitor, a manager, three OSDs with three
# copies of each object (a write needs two), and two S3 gateways.
#
#   scripts/servers/ceph.sh -- cargo test --test stores s3_server_of_the_environment -- --ignored
#
# Needs the packages ceph-mon ceph-mgr ceph-osd radosgw (Debian 12: Ceph 16). As root, the script
# installs these packages. It uses no systemd, and writes no other file outside of target/.
#
# The command finds the first gateway in AWS_ENDPOINT_URL, all gateways, separated by commas, in
# TENURE_TEST_S3_ENDPOINTS, and the name of a bucket in TENURE_TEST_S3_BUCKET. A killed daemon
# starts again after CEPH_RESTART_SECONDS (3). Its process ID is in the file NAME.pid of the folder
# TENURE_TEST_PIDS; NAME is osd.0 to osd.2, gateway.0 or gateway.1. All daemons stop when the
# command ends.
#
# With CEPH_STORE=memstore, the OSDs keep the objects in memory, and a killed OSD loses its data.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

osds=3
gateways=2
store=${CEPH_STORE:-bluestore}
folder=$servers/ceph-$$
conf=$folder/ceph.conf
fsid=$(cat /proc/sys/kernel/random/uuid)
keepers=()

stop_cluster() {
    local code=$?
    trap - EXIT
    # This kills only the processes of `keep`: when one dies, the kernel sends SIGKILL to its
    # daemon.
    kill -KILL "${keepers[@]}" 2>/dev/null || true
    wait "${keepers[@]}" 2>/dev/null || true
    if [[ $code == 0 ]]; then rm -rf "$folder"; else echo "logs: $folder" >&2; fi
    rm -rf "$folder"/osd.*
    exit "$code"
}

install_packages() {
    local wanted=(ceph-mon ceph-mgr ceph-osd radosgw)
    if ! command -v "${wanted[@]}" >/dev/null; then
        [[ $(id -u) == 0 ]] || die "needs the packages ${wanted[*]}"
        apt-get install --yes --no-install-recommends "${wanted[@]}" >&2
    fi
}

ceph_() { timeout 60 ceph --conf "$conf" --connect-timeout 30 "$@" 2>>"$folder/ceph.log"; }

# keep NAME COMMAND...: starts a daemon, and restarts it after each end.
keep() {
    setpriv --pdeathsig KILL bash -c '
        name=$1 pause=$2
        shift 2
        while :; do
            setpriv --pdeathsig KILL "$@" >>"$name.log" 2>&1 &
            echo $! >"$name.pid.new"
            mv "$name.pid.new" "$name.pid"
            wait $! || true
            sleep "$pause"
        done' keep "$folder/$1" "${CEPH_RESTART_SECONDS:-3}" "${@:2}" 2>/dev/null &
    keepers+=($!)
}

# The cluster has few placement groups, and detects failures within seconds.
write_conf() {
    cat >"$conf" <<END
[global]
fsid = $fsid
mon host = [v2:127.0.0.1:$1/0]
mon initial members = a
public network = 127.0.0.0/8
public addr = 127.0.0.1
cluster addr = 127.0.0.1
keyring = $folder/keyring
log file =
log to stderr = true
err to stderr = true
mon cluster log file =
admin socket =
pid file =
crash dir = $folder
run dir = $folder
osd pool default size = $2
osd pool default min size = $3
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd crush update on start = true
mon allow pool size one = true
mon data = $folder/mon
mon data avail crit = 1
mon data avail warn = 1
mon osd min down reporters = 1
mon osd reporter subtree level = osd
mon osd down out interval = 600
mgr data = $folder/mgr
mgr initial modules =
osd data = $folder/osd.\$id
osd objectstore = $store
osd memory target = 939524096
osd heartbeat interval = 1
osd heartbeat grace = 4
bluestore block size = 2147483648
memstore device bytes = 1073741824
rgw thread pool size = 128
rgw data = $folder/gateway
END
}

write_keys() {
    local who all=(--cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *')
    ceph-authtool "$folder/keyring" --create-keyring --gen-key -n mon. --cap mon 'allow *'
    for who in client.admin mgr.x osd.{0,1,2} client.rgw.{0,1}; do
        ceph-authtool "$folder/keyring" --gen-key -n "$who" "${all[@]}"
    done
}

start_cluster() {
    local id port
    mkdir -p "$folder/mgr" "$folder/gateway"
    write_keys >"$folder/setup.log"
    port=$(free_port)
    if [[ $store == memstore ]]; then write_conf "$port" 2 1; else write_conf "$port" 3 2; fi
    monmaptool --create --addv a "[v2:127.0.0.1:$port/0]" --fsid "$fsid" "$folder/monmap" \
        >>"$folder/setup.log"
    ceph-mon --conf "$conf" --mkfs -i a --monmap "$folder/monmap" --keyring "$folder/keyring" \
        >>"$folder/setup.log" 2>&1
    keep mon.a ceph-mon --conf "$conf" -f -i a
    keep mgr.x ceph-mgr --conf "$conf" -f -i x
    for ((id = 0; id < osds; id++)); do
        mkdir -p "$folder/osd.$id"
        local uuid
        uuid=$(cat /proc/sys/kernel/random/uuid)
        ceph_ osd new "$uuid" >>"$folder/setup.log"
        ceph-osd --conf "$conf" -i "$id" --mkfs --osd-uuid "$uuid" >>"$folder/setup.log" 2>&1
        keep "osd.$id" ceph-osd --conf "$conf" -f -i "$id"
    done
}

start_gateways() {
    local id port endpoints=()
    for ((id = 0; id < gateways; id++)); do
        port=$(free_port)
        endpoints+=("http://127.0.0.1:$port")
        keep "gateway.$id" radosgw --conf "$conf" -f -n "client.rgw.$id" \
            --rgw-frontends "beast endpoint=127.0.0.1:$port"
        # The first gateway creates the pools.
        answers "${endpoints[id]}"
    done
    timeout 120 radosgw-admin --conf "$conf" user create --uid tenure --display-name tenure \
        --access-key testing --secret-key testing >>"$folder/setup.log" 2>&1
    s3_environment "${endpoints[0]}"
    export TENURE_TEST_S3_ENDPOINTS TENURE_TEST_PIDS=$folder TENURE_TEST_S3_QUIRKS=
    # The tests must accept these defects of Ceph 16 and 18, which Ceph 20 fixes.
    if [[ $(ceph-mon --version) =~ version\ (1[0-9])\. ]]; then
        TENURE_TEST_S3_QUIRKS=unquoted-etags,missing-is-refused
    fi
    TENURE_TEST_S3_ENDPOINTS=$(IFS=,; echo "${endpoints[*]}")
}

answers() {
    for _ in {1..300}; do
        if curl --silent --noproxy '*' --max-time 5 --output /dev/null "$1"; then return; fi
        sleep 0.3
    done
    die "no answer from $1"
}

parse_command "$@"
install_packages
mkdir -p "$folder"
trap stop_cluster EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
start_cluster
start_gateways
make_bucket || die "no bucket could be made"
run_command
