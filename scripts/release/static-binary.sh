#!/usr/bin/env bash
# Builds the command as one static binary with the profile `dist`: for musl if the machine has this
# target and musl-gcc, otherwise for glibc. Prints the path of the binary. Takes some minutes.
#
#   scripts/release/static-binary.sh [OPTION OF CARGO...]      such as --features dynamodb
#
# LIBC=musl or LIBC=gnu selects the libc. The script fails if this libc is missing.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
cd "$root"

host=$(rustc -vV | sed -n 's/^host: //p')
target=${host/%-gnu/-musl}

has_musl() {
    # The Rust package of a distribution has no rustup, but it may contain the target.
    if [[ ! -d $(rustc --print sysroot)/lib/rustlib/$target/lib ]]; then
        command -v rustup >/dev/null && rustup target add "$target" || return
    fi
    # C code in dependencies needs a compiler for musl. On a musl host the default compiler is one.
    [[ $host == "$target" ]] || command -v musl-gcc >/dev/null
}

case ${LIBC:-} in
musl) has_musl >&2 || die "the musl target (rustup target add $target) or musl-gcc is missing" ;;
gnu) target=$host ;;
'') has_musl >&2 || target=$host ;;
*) die "LIBC must be musl or gnu, not $LIBC" ;;
esac
# The flags of the environment precede this flag. With glibc, the binary is static only with this
# flag.
export RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static"
cargo build --locked --profile dist --target "$target" -p tenure-cli "$@"

binary=${CARGO_TARGET_DIR:-$root/target}/$target/dist/tenure
libraries=$(ldd "$binary" 2>&1) || true
if grep -q '=>' <<<"$libraries"; then die "$binary is not static: $libraries"; fi
"$binary" --version >&2
bytes=$(stat -c %s "$binary")
echo "$target, $bytes bytes, $(sed 's/^[[:space:]]*//' <<<"$libraries")" >&2
# docs/start/install.md promises this maximum size for the default features.
[[ $# -gt 0 || $bytes -le 12000000 ]] || die "$binary has $bytes bytes, more than 12,000,000"
echo "$binary"
