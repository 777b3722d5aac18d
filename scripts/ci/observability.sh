#!/usr/bin/env bash
# Checks each alert with promtool on a failing and on a healthy scenario. Checks that the dashboard
# is JSON. Skips all checks if promtool is missing.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

need promtool
cd "$root/deploy"
promtool check rules prometheus/alerts.yaml
promtool test rules prometheus/alerts_test.yaml
python3 -m json.tool grafana/tenure.json /dev/null
