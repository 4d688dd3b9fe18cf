#!/usr/bin/env bash
# shellcheck disable=SC1091,SC2016
# What somebody meets who has a fresh Debian and the packages of `make deb`, or what `make install` leaves: installs, pulls a
# model, runs, serves, removes, purges, and looks whether anything is left. Root, and mmdebstrap; chroots, no containers.
# Usage: run.sh BUILD FOLDER: the build whose packages lie in BUILD/deb; a fresh system is kept in FOLDER (200 MB).
set -euo pipefail

build=$(realpath "${1:?usage: run.sh BUILD FOLDER}")
mkdir -p "${2:?usage: run.sh BUILD FOLDER}"
folder=$(realpath "$2")
here=$(cd "$(dirname "$0")/../.." && pwd)
. /etc/os-release
# shellcheck source=tools/debian_root.sh
. "$here/tools/debian_root.sh"

say() { printf '== %s\n' "$*"; }
die() { echo "tests/deb/run.sh: $*" >&2; exit 1; }

# fresh NAME: a new system in $folder/NAME
fresh() {
    debian_root "$VERSION_CODENAME" "$folder/base.tar" ca-certificates
    rm -rf "${folder:?}/$1"
    mkdir "$folder/$1"
    tar --extract --file "$folder/base.tar" --directory "$folder/$1"
    cp /etc/resolv.conf "$folder/$1/etc/"
    root=$folder/$1
}

# All files, but for what package managers write down about themselves.
files() {
    (cd "$root" && find . -xdev -mindepth 1 \( -path ./proc -o -path ./dev -o -path ./sys -o -path ./tmp -o -path ./var/log -o -path ./var/lib/dpkg \
        -o -path ./var/lib/apt -o -path ./var/cache/apt -o -path ./var/cache/debconf -o -path ./var/cache/ldconfig \) -prune -o -print) | sort
}

# walk PROGRAM: what users do, from outside the system where they use a client
walk() {
    python3 -B "$here/tests/deb/walk.py" --root "$root" --program "$1"
}

packages() {
    say "packages in a fresh $VERSION_CODENAME"
    fresh packages
    cp "$build"/deb/*.deb "$root/tmp/"
    inside "$root" apt-get update -qq
    files > "$folder/before"
    inside "$root" sh -c 'apt-get install -qq --yes --no-install-recommends /tmp/tandem_*.deb' > "$folder/apt.txt" 2>&1 ||
        { cat "$folder/apt.txt"; die "the package cannot be installed"; }
    inside "$root" dpkg-query --show --showformat '${Package} ${Version}\n' tandem
    inside "$root" id tandem
    walk /usr/bin/tandem
    say "the module for NPUs, and the library"
    inside "$root" sh -c 'tandem npu list || true'
    inside "$root" sh -c 'apt-get install -qq --yes --no-install-recommends /tmp/tandem-xrt_*.deb /tmp/libtandem0_*.deb /tmp/libtandem-dev_*.deb gcc libc6-dev pkg-config' \
        >> "$folder/apt.txt" 2>&1 || { tail -n 20 "$folder/apt.txt"; die "the other packages cannot be installed"; }
    cp "$here/examples/hello.c" "$root/tmp/"
    inside "$root" sh -c 'cd /tmp && gcc hello.c $(pkg-config --cflags --libs tandem) -o hello && ./hello "Tell me a story about a fox"'
    say "remove: the models stay"
    inside "$root" sh -c 'apt-get purge -qq --yes tandem-xrt libtandem0 libtandem-dev gcc libc6-dev pkg-config && apt-get remove -qq --yes tandem' >> "$folder/apt.txt" 2>&1
    [ -e "$root/var/lib/tandem/mine" ] || die "removing the package has removed models"
    [ ! -e "$root/usr/bin/tandem" ] || die "the program is still there"
    say "purge: nothing stays"
    inside "$root" sh -c 'apt-get purge -qq --yes tandem && apt-get autoremove -qq --yes --purge' >> "$folder/apt.txt" 2>&1
    if inside "$root" getent passwd tandem; then die "the user tandem is still there"; fi
    files > "$folder/after"
    # What adduser keeps of every change of users is not ours.
    left=$(comm -13 "$folder/before" "$folder/after" | grep -vE '^\./(etc/(passwd|shadow|group|gshadow|subuid|subgid)-|run/adduser)$' || true)
    [ -z "$left" ] || die "this is left: $left"
}

prefix() {
    say "make install in a fresh $VERSION_CODENAME"
    fresh prefix
    make -C "$here" --no-print-directory install DESTDIR="$root" > "$folder/install.txt" 2>&1 ||
        { tail -n 20 "$folder/install.txt"; die "make install failed"; }
    # what the package's dependencies are, by the same list
    needed=$(dpkg-deb --field "$build"/deb/tandem_*.deb Depends | sed 's/([^)]*)//g; s/|[^,]*//g; s/,/ /g')
    inside "$root" apt-get update -qq
    inside "$root" sh -c "apt-get install -qq --yes --no-install-recommends $needed" > "$folder/apt.txt" 2>&1
    inside "$root" useradd --system --create-home --home-dir /var/lib/tandem tandem
    walk /usr/local/bin/tandem
}

ls "$build"/deb/tandem_*.deb > /dev/null || die "there are no packages: run make deb"
say "the unit"
sed "s,/usr/bin/tandem,$build/tandem," "$build/tandem.service" | sed "s,/usr/local/bin/tandem,$build/tandem," > "$folder/tandem.service"
systemd-analyze --man=no verify "$folder/tandem.service"
packages
prefix
rm -rf "$folder/packages" "$folder/prefix"
say "all is well"
