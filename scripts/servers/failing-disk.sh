#!/usr/bin/env bash
# Runs a command on a disk that fails: fsync returns EIO while a file exists, forgets what it was to
# write, and a folder beside shows what a power loss would leave.
#
#   scripts/servers/failing-disk.sh -- cargo test --test chaos on_a_disk_that_fails -- --ignored --nocapture
#
# The command finds the directory in DISK_ROOT, what is kept in DISK_IMAGE, and the file that makes
# fsync fail in DISK_TRIGGER. All are removed with the command's end. Needs a C compiler and Linux.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

parse_command "$@"
disk=$(cd "$(mktemp -d)" && pwd -P)
trap 'rm -rf "$disk"' EXIT
mkdir -p "$disk/root" "$disk/image/.synced" "$disk/image/.forgotten"
"${CC:-cc}" -shared -fPIC -O1 -o "$disk/disk.so" "$root/cli/tests/chaos/disk.c" -ldl
export DISK_ROOT="$disk/root" DISK_IMAGE="$disk/image" DISK_TRIGGER="$disk/fails"
LD_PRELOAD="$disk/disk.so${LD_PRELOAD:+:$LD_PRELOAD}" "${command[@]}"
