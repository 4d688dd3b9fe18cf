#!/usr/bin/env bash
# shellcheck disable=SC2016
# Builds Tandem as it is here in a Debian 13 of its own, with its g++ 14 and its glslc, and runs the tests of the release build
# there. Root, and mmdebstrap.
# Usage: run.sh FOLDER [REGEX]: the system is unpacked into FOLDER the first time (2 GB) and kept, with what was built; of the
# tests those whose names match, and of the programs those that these need.
set -euo pipefail

folder=${1:?usage: run.sh FOLDER [REGEX]}
regex=${2:-.}
here=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tools/debian_root.sh
. "$here/tools/debian_root.sh"

# What builds it, and of what its tests use all that has the same name there (no clang, MLIR, ARM).
packages=$(awk '$1 == "build" { print $2 }' "$here/tools/packages.txt" | paste -sd,)
debian_root trixie "$folder" "$packages,git,openmpi-bin,vulkan-validationlayers,mesa-vulkan-drivers,haproxy,python3-yaml,curl,openssl"

# With the times of the files, so that only what has changed is built again.
mkdir -p "$folder/tandem"
(cd "$here" && git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- --ignore-failed-read) |
    tar --extract --directory "$folder/tandem"

inside "$folder" sh -euc '
cd /tandem
grep PRETTY_NAME /etc/os-release
g++ --version | head -n 1
cmake --preset release > configure.txt || { cat configure.txt; exit 1; }
tests=$(ctest --test-dir build --show-only -R "$0" | sed -n "s/^ *Test *#[0-9]*: //p")
programs=$(for test in $tests; do
    case $test in
        e2e_*) echo tandem libtandem ;;
        *) if grep -q "^build $test: " build/build.ninja; then echo "$test"; fi ;;
    esac
done | sort -u)
if [ -n "$programs" ]; then ninja -C build -j "$1" $programs; fi
ctest --test-dir build --parallel "$1" --output-on-failure --no-tests=error -R "$0"
' "$regex" "${JOBS:-$(nproc)}"
