#!/usr/bin/env bash
# Installs the command as `cargo install tenure-cli` does once it is published: from the packaged crate
# files, in a clean folder, with the versions of the crate's own Cargo.lock, and runs it. The libraries of
# this repository are in no registry yet, so Cargo takes them from their crate files. By hand: it builds
# all dependencies, without optimising them, in some minutes.
#
#   scripts/release/install.sh [OPTION OF CARGO INSTALL...]      such as --no-default-features
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
cd "$root"
target=${CARGO_TARGET_DIR:-$root/target}
libraries=(tenure tenure-fencing tenure-groups tenure-history tenure-testkit)
rm -f "$target"/package/tenure*.crate
cargo package --locked --no-verify --allow-dirty --quiet "${libraries[@]/#/--package=}" --package=tenure-cli

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
config=()
for package in "${libraries[@]}" tenure-cli; do
    mkdir "$work/$package"
    tar xzf "$target/package/$package"-[0-9]*.crate -C "$work/$package" --strip-components=1
    config+=(--config "patch.crates-io.$package.path=\"$work/$package\"")
done
unset 'config[-1]' 'config[-1]'
# Each in place of its release: such a package has neither a source nor a checksum.
lock=$work/tenure-cli/Cargo.lock
awk '/^name = /{ ours = $3 ~ /^"tenure/ } !(ours && /^(source|checksum) = /)' "$lock" >"$work/lock"
mv "$work/lock" "$lock"

cd "$work"
export CARGO_TARGET_DIR=$work/target
cargo install --locked --debug --path tenure-cli --root installed "${config[@]}" "$@"
find installed -type f
PATH=$work/installed/bin:$PATH
tenure --version
tenure run --store "file://$work/store" -- echo "it leads"
