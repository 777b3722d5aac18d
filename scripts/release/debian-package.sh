#!/usr/bin/env bash
# Builds a Debian package of the command: the binary, its manual pages, completions for bash, zsh
# and fish, the systemd units, copyright and changelog. Then unpacks the package,
# checks its files, and runs the binary. Prints the path of the package.
#
#   scripts/release/debian-package.sh [BINARY]
#
# Without BINARY, the script builds the binary with the profile `dist`, which takes some minutes. A
# package of a static binary depends on no other package: `scripts/release/debian-package.sh
# $(scripts/release/static-binary.sh)`. Needs dpkg-deb. Runs lintian if the machine has it. As root,
# it also installs the package into an empty root.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
command -v dpkg-deb >/dev/null || die "there is no dpkg-deb (on Debian: apt-get install dpkg)"
out=${CARGO_TARGET_DIR:-$root/target}/debian

binary=${1:-}
if [[ -z $binary ]]; then
    (cd "$root" && cargo build --locked --profile dist -p tenure-cli)
    binary=${CARGO_TARGET_DIR:-$root/target}/dist/tenure
fi
binary=$(realpath "$binary")
cd "$root"

version=$("$binary" --version | cut -d' ' -f2)
architecture=$(dpkg --print-architecture)
# All files get the time of the last commit, so the same commit and binary make the same package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# depends: prints the packages with the libraries that the binary needs, and the minimum version of
# glibc.
depends() {
    local needed library newest
    needed=$(LC_ALL=C readelf -d "$binary" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p')
    [[ -n $needed ]] || return 0
    for library in $needed; do
        case $library in
        libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | ld-linux*) ;;
        libgcc_s.so.1) echo libgcc-s1 ;;
        *) die "no package is known for $library" ;;
        esac
    done
    newest=$(readelf -W --version-info "$binary" | grep -o 'GLIBC_[0-9.]*' | cut -d_ -f2 | sort -Vu | tail -n 1)
    echo "libc6 (>= $newest)"
}

# put MODE FILE: writes stdin to this file of the package.
put() {
    mkdir -p "$work/package/$(dirname "$2")"
    cat >"$work/package/$2"
    chmod "$1" "$work/package/$2"
}

mkdir -p "$work/package" "$out"
umask 022
put 755 usr/bin/tenure <"$binary"
# The binary may be a debug build, so its symbols are stripped.
strip --strip-unneeded --remove-section=.comment "$work/package/usr/bin/tenure"
mkdir "$work/man" && "$binary" man "$work/man"
for page in "$work"/man/*; do gzip -9n <"$page" | put 644 "usr/share/man/man1/${page##*/}.gz"; done
"$binary" completions bash | put 644 usr/share/bash-completion/completions/tenure
"$binary" completions zsh | put 644 usr/share/zsh/vendor-completions/_tenure
"$binary" completions fish | put 644 usr/share/fish/vendor_completions.d/tenure.fish
for unit in deploy/systemd/*; do
    sed 's#/usr/local/bin/tenure#/usr/bin/tenure#' "$unit" | put 644 "usr/lib/systemd/system/${unit##*/}"
done
gzip -9n <CHANGELOG.md | put 644 usr/share/doc/tenure/changelog.gz
scripts/release/licenses.py | gzip -9n | put 644 usr/share/doc/tenure/licenses.gz
put 644 usr/share/doc/tenure/copyright <<EOF
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: tenure
Source: https://crates.io/crates/tenure-cli
Comment: The binary is linked with crates of others; their licenses are in licenses.gz beside this file.

Files: *
$(sed -n 's/^Copyright (c)/Copyright:/p' LICENSE-MIT)
License: Expat or Apache-2.0

License: Expat
$(sed -e '1,/^Copyright/d' -e '/./,$!d' LICENSE-MIT | sed -e '/./,$!d; s/^$/./; s/^/ /')

License: Apache-2.0
 On Debian systems the license is in /usr/share/common-licenses/Apache-2.0.
EOF
maintainer="The tenure authors <tenure@localhost.invalid>"
gzip -9n <<EOF | put 644 usr/share/doc/tenure/changelog.Debian.gz
tenure ($version-1) unstable; urgency=medium

  * The package of version $version, made by scripts/release/debian-package.sh.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
EOF
depends=$(depends | paste -sd, | sed 's/,/, /g')
# A package without dependencies must not have a `Depends` line.
put 644 DEBIAN/control <<EOF
Package: tenure
Version: $version-1
Architecture: $architecture
Maintainer: $maintainer
Section: admin
Priority: optional
Installed-Size: $(du -sk --apparent-size "$work/package" | cut -f1)
${depends:+Depends: $depends
}Recommends: ca-certificates
Description: leader election on object storage
 The command tenure runs a command on one host at a time, and fails over when
 that host dies. It needs a bucket (S3, Cloud Storage, Azure Blob Storage), a
 DynamoDB table or a directory, and no server.
 .
 This package has the manual page tenure(1), completions for bash, zsh and
 fish, and systemd units for daemons, sidecars, periodic jobs and the deletion
 of old epochs.
EOF
(cd "$work/package" && find usr -type f -print0 | sort -z | xargs -0 md5sum) | put 644 DEBIAN/md5sums
package=$out/tenure_$version-1_$architecture.deb
# The package uses xz, because Debian 11 cannot read zstd.
dpkg-deb --root-owner-group -Z"${COMPRESSION:-xz}" --build "$work/package" "$package" >&2

# Checks the installed files.
{
    dpkg-deb --info "$package"
    dpkg-deb --contents "$package"
    dpkg-deb -x "$package" "$work/there"
    for file in bin/tenure share/man/man1/tenure{,-run}.1.gz share/bash-completion/completions/tenure \
        share/zsh/vendor-completions/_tenure share/fish/vendor_completions.d/tenure.fish \
        lib/systemd/system/tenure-{compact,job}@.{service,timer} \
        lib/systemd/system/tenure-{run,group,serve}@.service \
        share/doc/tenure/copyright share/doc/tenure/licenses.gz share/doc/tenure/changelog.gz; do
        [[ -s $work/there/usr/$file ]] || die "$file is missing in the package"
    done
    (cd "$work/there" && md5sum --quiet -c "$work/package/DEBIAN/md5sums")
    "$work/there/usr/bin/tenure" --version
    "$work/there/usr/bin/tenure" run --store "file://$work/store" -- echo "it leads"
    # gzip does not write to a pipe, because grep ends at its first match, and gzip would then fail.
    manual=$(gzip -dc "$work/there/usr/share/man/man1/tenure.1.gz")
    grep -qi '^.TH tenure' <<<"$manual"
    bash -n "$work/there/usr/share/bash-completion/completions/tenure"
    [[ $(cat "$work"/there/usr/lib/systemd/system/*.service | grep -c '^ExecStart=/usr/bin/tenure ') == 5 ]]
    if [[ $(id -u) == 0 ]]; then
        # The root contains no other package, so only a static binary can run there.
        mkdir -p "$work/root/var/lib/dpkg/"{info,updates,triggers} && touch "$work/root/var/lib/dpkg/status"
        dpkg --root="$work/root" --force-depends --force-script-chrootless --log=/dev/null -i "$package"
        dpkg --root="$work/root" --verify tenure
        if [[ -z $depends ]]; then chroot "$work/root" /usr/bin/tenure --version; fi
        dpkg --root="$work/root" --log=/dev/null -r tenure
        [[ ! -e $work/root/usr/bin/tenure ]] || die "files are left after the removal"
    fi
    if command -v lintian >/dev/null; then
        # These tags do not apply: the static binary is deliberate, and the package is not part of
        # Debian.
        lintian --allow-root --fail-on error,warning "$package" --suppress-tags \
            statically-linked-binary,shared-library-lacks-prerequisites,initial-upload-closes-no-bugs
    fi
} >&2
echo "$(stat -c %s "$package") bytes" >&2
echo "$package"
