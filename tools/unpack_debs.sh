#!/usr/bin/env bash
# Unpacks Debian packages of another suite into a folder: unpack_debs.sh FOLDER alone|needed "SUITE..." PACKAGE...
# `alone` takes these packages, `needed` also all that they need, down to the C library. Nothing is installed: the system
# keeps its own. Where they cannot be had it says why and exits with 77, so that a test is left out; in CI with 1.
set -euo pipefail

root=$(realpath --canonicalize-missing "${1:?usage: tools/unpack_debs.sh FOLDER alone|needed SUITES PACKAGE...}")
how=${2:?alone or needed}
read -ra suites <<< "${3:?suites}"
shift 3

without() {
    echo "unpack_debs.sh: $1" >&2
    [ -z "${CI:-}" ] || exit 1
    exit 77
}

command -v apt-get > /dev/null || without "this is not a Debian system"
[ "$(dpkg --print-architecture)" = amd64 ] || without "the drivers that tests unpack are those of amd64 alone"
# shellcheck disable=SC2016  # apt fills that in
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Release: bookworm' 'Component: main' 2> /dev/null | head -1)
[ -n "$mirror" ] || without "the apt sources have no Debian 12 (bookworm), from whose archive the others are taken too"

rm -rf "$root"
mkdir -p "$root/apt/lists/partial" "$root/apt/cache/archives/partial"
printf "deb $mirror %s main\n" "${suites[@]}" > "$root/apt/sources.list"
options=(-qq --yes -o "Dir::Etc::sourcelist=$root/apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$root/apt/lists"
    -o "Dir::Cache=$root/apt/cache" -o APT::Sandbox::User= -o Acquire::Check-Valid-Until=false)
apt-get "${options[@]}" update || without "${suites[*]} of Debian cannot be reached"
debs=$root/apt/cache/archives
if [ "$how" = alone ]; then
    (cd "$debs" && apt-get "${options[@]}" download "$@") || without "$* cannot be downloaded"
else
    : > "$root/apt/status"  # as if nothing were installed
    apt-get "${options[@]}" -o "Dir::State::status=$root/apt/status" -o Debug::NoLocking=1 --no-install-recommends \
        --download-only --target-release "${suites[-1]}" install "$@" > /dev/null || without "$* cannot be downloaded"
fi
for package in "$debs"/*.deb; do dpkg -x "$package" "$root"; done
rm -rf "$root/apt"
