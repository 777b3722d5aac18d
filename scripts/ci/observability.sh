#!/usr/bin/env bash
# Checks the alerts with promtool, each on a failing scenario and on a healthy one, and that the dashboard is
# JSON. Skips all if promtool is missing.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

need promtool
cd "$root/deploy"
promtool check rules prometheus/alerts.yaml
promtool test rules prometheus/alerts_test.yaml
python3 -m json.tool grafana/tenure.json /dev/null
