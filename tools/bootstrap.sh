#!/usr/bin/env bash
# Installs the Debian packages of tools/packages.txt that are missing: bootstrap.sh build|test|web.
set -euo pipefail

stage=${1:?usage: tools/bootstrap.sh build|test|web}
list=$(dirname "$0")/packages.txt

# Every stage needs the packages of "build" too.
mapfile -t wanted < <(awk -v stage="$stage" '$1 == "build" || $1 == stage { print $2 }' "$list")

if ! command -v dpkg-query > /dev/null; then
    echo "This is not a Debian system: install what corresponds to these packages if the build misses something:" >&2
    echo "  ${wanted[*]}" >&2
    exit 0
fi

installed=$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2> /dev/null |
    awk '$1 == "installed" { print $2 }' || true)
mapfile -t missing < <(printf '%s\n' "${wanted[@]}" | grep --invert-match --line-regexp --fixed-strings "$installed")
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
    command -v sudo > /dev/null || {
        echo "Missing packages, and no sudo to install them with. As root: apt-get install ${missing[*]}" >&2
        exit 1
    }
    as_root=(sudo)
fi

echo "Installing Debian packages: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends "${missing[@]}"
