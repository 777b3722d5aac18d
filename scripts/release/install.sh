#!/usr/bin/env bash
# Installs the command from the packaged crate files in an empty folder, as `cargo install
# tenure-cli` does, with the versions in its Cargo.lock, and runs it. Cargo takes the libraries of
# this repository from their crate files, because no registry contains them. The build takes some
# minutes.
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
# The folder of each unpacked crate file replaces the release of the same name. A lock file has no
# source and no checksum for a package in a folder, so these lines are removed.
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
