#!/usr/bin/env bash
# Runs a command on a simulated disk that can fail: while a trigger file exists, fsync returns EIO
# and drops the data. A second folder contains the files that a power loss would leave.
#
#   scripts/servers/failing-disk.sh -- cargo test --test chaos on_a_disk_that_fails -- --ignored --nocapture
#
# The command finds the folder on the disk in DISK_ROOT, the second folder in DISK_IMAGE, and the
# path of the trigger file in DISK_TRIGGER. All three are removed at the end. Needs a C compiler and
# Linux.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

parse_command "$@"
disk=$(cd "$(mktemp -d)" && pwd -P)
trap 'rm -rf "$disk"' EXIT
mkdir -p "$disk/root" "$disk/image/.synced" "$disk/image/.forgotten"
"${CC:-cc}" -shared -fPIC -O1 -o "$disk/disk.so" "$root/cli/tests/chaos/disk.c" -ldl
export DISK_ROOT="$disk/root" DISK_IMAGE="$disk/image" DISK_TRIGGER="$disk/fails"
LD_PRELOAD="$disk/disk.so${LD_PRELOAD:+:$LD_PRELOAD}" "${command[@]}"
