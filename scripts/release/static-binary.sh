#!/usr/bin/env bash
# Builds the command as one static binary with the profile `dist`, for musl where rustup has that
# target and musl-gcc, otherwise for glibc. Prints
# the path of the binary. By hand: it takes some minutes.
#
#   scripts/release/static-binary.sh [OPTION OF CARGO...]      such as --features dynamodb
#
# LIBC=musl or LIBC=gnu takes that one or fails.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
cd "$root"

host=$(rustc -vV | sed -n 's/^host: //p')
target=${host/%-gnu/-musl}

has_musl() {
    # A Rust of the distribution has no rustup, and may have the target all the same.
    if [[ ! -d $(rustc --print sysroot)/lib/rustlib/$target/lib ]]; then
        command -v rustup >/dev/null && rustup target add "$target" || return
    fi
    # For the C in the dependencies. Where the host is musl, its own compiler is the right one.
    [[ $host == "$target" ]] || command -v musl-gcc >/dev/null
}

case ${LIBC:-} in
musl) has_musl >&2 || die "there is no musl target: rustup target add $target, and musl-gcc" ;;
gnu) target=$host ;;
'') has_musl >&2 || target=$host ;;
*) die "LIBC is musl or gnu, not $LIBC" ;;
esac
# What the environment has of them goes first; glibc is linked statically only on demand.
export RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static"
cargo build --locked --profile dist --target "$target" -p tenure-cli "$@"

binary=${CARGO_TARGET_DIR:-$root/target}/$target/dist/tenure
libraries=$(ldd "$binary" 2>&1) || true
if grep -q '=>' <<<"$libraries"; then die "$binary is not static: $libraries"; fi
"$binary" --version >&2
bytes=$(stat -c %s "$binary")
echo "$target, $bytes bytes, $(sed 's/^[[:space:]]*//' <<<"$libraries")" >&2
# What docs/start/install.md says of the default features.
[[ $# -gt 0 || $bytes -le 12000000 ]] || die "$binary has $bytes bytes, more than 12,000,000"
echo "$binary"
