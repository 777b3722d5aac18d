#!/usr/bin/env bash
# Tests the page of `tenure ui` in headless Chromium, with playwright-core from npm under target/.
#
#   scripts/servers/moto.sh -- scripts/ci/ui.sh [SCREENSHOT]
#
# TENURE=FILE is the command, target/debug/tenure by default. Without moto, the test of a store that
# hangs is skipped. CHROMIUM=FILE is the browser, /usr/bin/chromium by default.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
chromium=${CHROMIUM:-/usr/bin/chromium}
if [[ ! -x $chromium ]]; then
    echo "skipped: $chromium is missing"
    exit 0
fi
tenure=${TENURE:-${CARGO_TARGET_DIR:-$root/target}/debug/tenure}
install_npm playwright playwright-core@1.64.1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The script is copied, because Node.js resolves modules from the folder of the script.
cp "$root/scripts/ci/ui.mjs" "$folder/ui.mjs"
mkdir "$work/store"
node "$folder/ui.mjs" "$(realpath "$tenure")" "$work" "$@"
