#!/usr/bin/env bash
# Runs a program on the software Vulkan device of Debian 13's backports, which multiplies matrices as this system's does not:
# lavapipe.sh FOLDER PROGRAM [ARGUMENT...]. The first time it unpacks the driver into FOLDER, with the C library that it
# needs, whose loader runs the program. Where the packages cannot be had it exits with 77.
set -euo pipefail

root=$(realpath --canonicalize-missing "${1:?usage: tools/lavapipe.sh FOLDER PROGRAM [ARGUMENT...]}")
shift
libraries=$root/usr/lib/x86_64-linux-gnu
if [ ! -e "$root/lavapipe.json" ]; then
    "$(dirname "$0")/unpack_debs.sh" "$root" needed "trixie trixie-backports" mesa-vulkan-drivers vulkan-validationlayers
    printf '{"file_format_version": "1.0.0", "ICD": {"library_path": "%s", "api_version": "1.3.0"}}\n' \
        "$libraries/libvulkan_lvp.so" > "$root/lavapipe.json"  # the last: it says that all is there
fi
export VK_ICD_FILENAMES=$root/lavapipe.json VK_DRIVER_FILES=$root/lavapipe.json
export VK_LAYER_PATH=$root/usr/share/vulkan/explicit_layer.d
exec "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$libraries:/usr/lib/x86_64-linux-gnu" "$@"
