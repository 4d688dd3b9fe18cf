#!/usr/bin/env bash
# Unpacks the RADV driver of Debian 12's backports into a folder: radv.sh FOLDER. It compiles kernels for AMD GPUs that are
# not there (tests/gpu/report.py). Where the packages cannot be had it exits with 77.
set -euo pipefail

root=$(realpath --canonicalize-missing "${1:?usage: tools/radv.sh FOLDER}")
[ ! -e "$root/radeon.json" ] || exit 0

"$(dirname "$0")/unpack_debs.sh" "$root" alone bookworm-backports mesa-vulkan-drivers libdrm-amdgpu1 libdrm2
libraries=$root/usr/lib/x86_64-linux-gnu
if LD_LIBRARY_PATH=$libraries ldd "$libraries/libvulkan_radeon.so" | grep 'not found' >&2; then
    echo "radv.sh: the driver lacks libraries: install mesa-vulkan-drivers" >&2
    exit 77
fi
printf '{"file_format_version": "1.0.0", "ICD": {"library_path": "%s", "api_version": "1.3.0"}}\n' \
    "$libraries/libvulkan_radeon.so" > "$root/radeon.json"  # the last: it says that all is there
