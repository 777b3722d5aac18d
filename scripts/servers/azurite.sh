#!/usr/bin/env bash
# Runs a command with Azurite, Microsoft's emulator of Azure Storage in Node.js. Installs it under
# target/.
#
#   scripts/servers/azurite.sh -- cargo test --test stores azure -- --ignored
#
# The command finds the server through AZURE_STORAGE_USE_EMULATOR and AZURITE_BLOB_STORAGE_URL, and
# the name of a container in TENURE_TEST_AZURE_CONTAINER. The server stops when the command ends.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

parse_command "$@"
install_npm azurite "azurite@${AZURITE_VERSION:-3.37.0}"
port=$(free_port)

export AZURE_STORAGE_USE_EMULATOR=true AZURITE_BLOB_STORAGE_URL=http://127.0.0.1:$port
export TENURE_TEST_AZURE_CONTAINER=$bucket NO_PROXY=127.0.0.1
unset "${!AZURE_STORAGE_ACCOUNT@}" "${!AZURE_CLIENT@}" "${!AZURE_TENANT@}"

# Signs the request with the account and the key that every Azurite server accepts.
make_bucket() {
    python3 - "$AZURITE_BLOB_STORAGE_URL" "$bucket" 2>/dev/null <<'PYTHON'
import base64, email.utils, hashlib, hmac, sys, urllib.request
endpoint, container = sys.argv[1:]
account = "devstoreaccount1"
key = ("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/"
       "K1SZFPTOtr/KBHBeksoGMGw==")
date, version = email.utils.formatdate(usegmt=True), "2021-12-02"
resource = f"/{account}/{account}/{container}\nrestype:container"
text = f"PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:{version}\n{resource}"
mac = base64.b64encode(hmac.digest(base64.b64decode(key), text.encode(), hashlib.sha256)).decode()
headers = {"x-ms-date": date, "x-ms-version": version}
headers["Authorization"] = f"SharedKey {account}:{mac}"
url = f"{endpoint}/{account}/{container}?restype=container"
request = urllib.request.Request(url, method="PUT", headers=headers)
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
opener.open(request, timeout=30)
PYTHON
}

start_server azurite "$port" node "$folder/node_modules/azurite/dist/src/blob/main.js" --silent \
    --skipApiVersionCheck --disableTelemetry --inMemoryPersistence \
    --blobHost 127.0.0.1 --blobPort "$port"
run_command
