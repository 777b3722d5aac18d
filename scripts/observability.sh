#!/usr/bin/env bash
# Checks the alerts with promtool, each on a failing scenario and on a healthy one, and that the dashboard is
# JSON. Installs Debian's package `prometheus` where promtool is missing and that can be done.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

if ! command -v promtool >/dev/null; then
    as_root=()
    [[ $(id -u) == 0 ]] || as_root=(sudo -n)
    apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq)
    if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends prometheus; } >&2; then
        die "promtool is missing: install Prometheus (on Debian: apt-get install prometheus)"
    fi
fi

cd "$root/deploy"
promtool check rules prometheus/alerts.yaml
promtool test rules prometheus/alerts_test.yaml
python3 -m json.tool grafana/tenure.json /dev/null
