#!/usr/bin/env bash
# shellcheck disable=SC2016
# Builds the part of Tandem that drives an NPU against the XRT of Debian 13's backports, which has the NPU's driver
# library, and runs its tests there: what they can see without a device is that errors are errors.
# Usage: run.sh FOLDER, where a Debian 13 is unpacked the first time (2 GB; needs mmdebstrap and root).
set -euo pipefail

if [ $# -ne 1 ]; then
    echo "usage: $0 FOLDER" >&2
    exit 2
fi
root=$1
here=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tools/debian_root.sh
. "$here/tools/debian_root.sh"

debian_root trixie "$root" g++,libfmt-dev,libgmock-dev,libgtest-dev,libspdlog-dev,uuid-dev \
    --customize-hook='chroot "$1" apt-get install -y --no-install-recommends -t trixie-backports libxrt-dev libxrt-npu2'
rm -rf "$root/tandem" && mkdir "$root/tandem"
cp -r "$here/src" "$here/tests" "$root/tandem/"
# The class is older than the header that it is in, so it is tried.
inside "$root" sh -euc '
cd /tandem
include=$(dirname "$(dirname "$(find /usr/include /opt -name xrt_bo.h | head -n 1)")")
options="-std=c++20 -O0 -w -DFMT_SHARED -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL -DSPDLOG_SHARED_LIB -Isrc -Itests"
[ "$include" = /usr/include ] || options="$options -isystem $include"
printf "#include <xrt/experimental/xrt_kernel.h>\nint main() { xrt::runlist list; }\n" > list.cpp
if g++ $options list.cpp -o list -lxrt_coreutil; then options="$options -DTANDEM_XRT_RUNLIST"; fi
libraries=$(dirname "$(find /usr/lib /opt -name "libxrt_coreutil.so" | head -n 1)")
options="$options -DTANDEM_VERSION=\"test\" -DTANDEM_MULTIARCH=\"\""
shared="src/npu/xrt/discovery.cpp src/npu/xrt/xclbin.cpp src/npu/runtime.cpp
    src/npu/design.cpp src/base/check.cpp src/base/file.cpp src/base/module.cpp src/base/units.cpp src/device/host_memory.cpp"
g++ $options -fPIC -shared -fvisibility=hidden src/npu/xrt/module/*.cpp $shared -o libtandem-xrt.so -lxrt_coreutil -lspdlog -lfmt -luuid
g++ $options -DTANDEM_XRT_LIBRARIES="\"$libraries\"" src/npu/xrt/open.cpp src/npu/xrt/module/guard.cpp $shared \
    tests/unit/npu/xrt_runtime_test.cpp tests/unit/npu/xrt_discovery_test.cpp tests/unit/npu/xrt_xclbin_test.cpp \
    -o xrt_tests -lgmock_main -lgmock -lgtest -lspdlog -lfmt -lpthread
dpkg-query --show --showformat "\${Package} \${Version}\n" libxrt2 libxrt-npu2 libxrt-dev
./xrt_tests
'
