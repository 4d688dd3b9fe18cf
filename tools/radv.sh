#!/usr/bin/env bash
# Unpacks the RADV driver of Debian 12's backports into a folder: radv.sh FOLDER. It compiles kernels for AMD GPUs that are
# not there (tests/gpu/report.py). Nothing is installed: the system keeps its own. Where the packages cannot be had it says
# why and exits with 77.
set -euo pipefail

root=$(realpath --canonicalize-missing "${1:?usage: tools/radv.sh FOLDER}")
[ ! -e "$root/radeon.json" ] || exit 0

without() {
    echo "radv.sh: $1" >&2
    exit 77
}

command -v apt-get > /dev/null || without "this is not a Debian system"
[ "$(dpkg --print-architecture)" = amd64 ] || without "AMD GPUs are compiled for on amd64 alone"
# shellcheck disable=SC2016  # apt fills that in
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Release: bookworm' 'Component: main' 2> /dev/null | head -1)
[ -n "$mirror" ] || without "the apt sources have no Debian 12 (bookworm), whose backports have the driver"

rm -rf "$root"
mkdir -p "$root/apt/lists/partial" "$root/apt/cache/archives/partial" "$root/deb"
echo "deb $mirror bookworm-backports main" > "$root/apt/sources.list"
options=(-qq -o "Dir::Etc::sourcelist=$root/apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$root/apt/lists"
    -o "Dir::Cache=$root/apt/cache" -o APT::Sandbox::User=)
apt-get "${options[@]}" update || without "the backports of Debian 12 cannot be reached"
(cd "$root/deb" && apt-get "${options[@]}" download mesa-vulkan-drivers libdrm-amdgpu1 libdrm2) ||
    without "the packages of the driver cannot be downloaded"
for package in "$root"/deb/*.deb; do dpkg -x "$package" "$root"; done
rm -rf "$root/deb" "$root/apt"
libraries=$root/usr/lib/x86_64-linux-gnu
LD_LIBRARY_PATH=$libraries ldd "$libraries/libvulkan_radeon.so" | grep 'not found' >&2 &&
    without "the driver lacks libraries: install mesa-vulkan-drivers"
for driver in lvp radeon; do  # the last says that all is there
    printf '{"file_format_version": "1.0.0", "ICD": {"library_path": "%s", "api_version": "1.3.0"}}\n' \
        "$libraries/libvulkan_$driver.so" > "$root/$driver.json"
done
