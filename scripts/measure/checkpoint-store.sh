#!/usr/bin/env bash
# Counts the requests of an idle Azure blob checkpoint store in the access log of Azurite, with the
# packages of Event Hubs for Python. Writes a table to target/measure/checkpoint-store.md. The script
# needs the package registries and 7 minutes.
#
#   scripts/measure/checkpoint-store.sh [SECONDS]
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

export seconds=${1:-330} packages="azure-eventhub 5.15.1 and its checkpointstoreblob-aio 1.2.0"
export emulator=${AZURITE_VERSION:-3.37.0}
out=$root/target/measure/checkpoint-store.md
mkdir -p "$(dirname "$out")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install checkpoint-store azure-eventhub==5.15.1 azure-eventhub-checkpointstoreblob-aio==1.2.0 aiohttp==3.14.5
install_npm azurite "azurite@$emulator"
port=$(free_port)

is_open() {
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null
}
server_is_up=is_open
start_server azurite "$port" bash -c 'exec "$@" >"$0"' "$work/access.log" \
    node "$folder/node_modules/azurite/dist/src/blob/main.js" \
    --skipApiVersionCheck --disableTelemetry --inMemoryPersistence \
    --blobHost 127.0.0.1 --blobPort "$port"
trap 'stop_server; rm -rf "$work"' EXIT

# Each setting is PROCESSORSxPARTITIONSxINTERVAL. An ownership expires after six intervals: after
# 180 s with the default interval of 30 s, and after 30 s with an interval of 5 s.
"$venv/bin/python" "$root/scripts/measure/checkpoint-store.py" "http://127.0.0.1:$port" "$work/access.log" \
    "$seconds" 10x50x30 5x100x30 10x100x30 10x1000x30 10x100x5 >"$work/counts"

python3 - "$work/counts" "$root/cli/src/cost/prices.json" >"$work/page" <<'PYTHON'
import datetime, json, os, sys
counts, prices = sys.argv[1:]
counts = [json.loads(line) for line in open(counts)]
[azure] = [it for it in json.load(open(prices)) if it["name"] == "Azure Blob"]
MONTH = 30 * 24 * 60
OTHERS = "https://learn.microsoft.com/azure/storage/blobs/map-rest-apis-transaction-categories"
today = datetime.datetime.now(datetime.timezone.utc).date()
print(f"""\
On {today}, by `scripts/measure/checkpoint-store.sh`: event processors of
{os.environ["packages"]}, on Azurite {os.environ["emulator"]},
counted in its access log for {os.environ["seconds"]} s of true time after each owned its share. No
events, no checkpoints; no partition moved. Ownerships expire after six intervals, as is the
package's default; the default of the interval is 30 s. In a cycle a processor sends a List Blobs,
and a Set Blob Metadata for each of its partitions. It then waits for 1 to 1.2 intervals; what a
cycle takes beyond 1.1 on average is the time of the requests on this machine.
""")
columns = ["processors", "partitions", "interval", "expires after", "a cycle"]
columns += ["Set Blob Metadata", "List Blobs", "others", "requests a partition a minute"]
columns += ["a month for 1,000 partitions"]
print(f"| {' | '.join(columns)} |")
print("|" + " ---: |" * len(columns))
for it in counts:
    minutes = it["seconds"] / 60
    claims = it["claims"] / minutes / it["partitions"]
    lists = it["lists"] / minutes / it["processors"]
    total = (it["claims"] + it["lists"] + it["others"]) / minutes / it["partitions"]
    # A Set Blob Metadata request has the price of a read.
    month = (1000 * claims * azure["read"] + 10 * lists * azure["list"]) * MONTH / 1e6
    writes = (1000 * claims * azure["write"] + 10 * lists * azure["list"]) * MONTH / 1e6
    interval = it["interval"]
    print(f"| {it['processors']} | {it['partitions']:,} | {interval} s | {6 * interval} s "
          f"| {60 / lists:.1f} s | {it['claims']:,} | {it['lists']:,} | {it['others']} "
          f"| {total:.2f} | ${month:.0f} (${writes:,.0f}) |")
print(f"""
Claims grow with the partitions, listings with the processors. Money is for 1,000 partitions and 10
processors at the row's rates and Azure's sample prices, as in `tenure cost`. A Set Blob Metadata is
billed as [one of the other operations]({OTHERS})
in an account of general purpose v2: ${azure["read"]} a million, as a read. In brackets: if it cost
as much as a write, ${azure["write"]:.2f}. A checkpoint is one more Set Blob Metadata.""")
PYTHON
cp "$work/page" "$out"
cp "$work/counts" "${CARGO_TARGET_DIR:-$root/target}/checkpoint-store.json"
cat "$out"
