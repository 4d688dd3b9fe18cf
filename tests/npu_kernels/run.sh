#!/usr/bin/env bash
# Compiles public AIE2 kernels as they are against src/npu/host_aie, with what host_aie beside this adds to it, and
# compares what they compute with plain arithmetic.
# Usage: run.sh DIR, the folder aie_kernels of a checkout of mlir-aie. What that version lacks is skipped, and named.
set -euo pipefail

if [ $# -ne 1 ] || [ ! -d "$1" ]; then
    echo "usage: $0 DIR (the folder aie_kernels of a checkout of https://github.com/Xilinx/mlir-aie)" >&2
    exit 2
fi
kernels=$1
here=$(cd "$(dirname "$0")" && pwd)
compiler=${CXX:-g++}
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
# The number is AIE2's. Kernels reach for vectors through pointers to elements, as their own compilers allow.
options=(-std=c++20 -O2 -w -D__AIE_ARCH__=20 -fno-strict-aliasing -I "$here/host_aie" -I "$here/../../src/npu/host_aie")
"$compiler" "${options[@]}" -c "$here/check.cpp" -o "$made/check.o"

# check CASE FILE [OPTION...]: FILE is looked for in the folders that versions of the project have used.
failed=0
check() {
    local name=$1 file=$2 source=""
    shift 2
    for folder in aie2 generic activation linalg norm datamovement . ; do
        [ -f "$kernels/$folder/$file" ] && source=$kernels/$folder/$file && break
    done
    if [ -z "$source" ]; then
        echo "skipped   $name: this checkout has no $file"
    elif ! "$compiler" "${options[@]}" "$@" -c "$source" -o "$made/kernel.o"; then
        echo "FAILED    $name: $source does not compile"
        failed=1
    else
        "$compiler" "$made/check.o" "$made/kernel.o" -o "$made/check"
        "$made/check" "$name" || failed=1
    fi
}

check matmul_i8_i32 mm.cc -Di8_i32_ONLY
check matmul_i8_i16 mm.cc -Di8_i16_ONLY
check matmul_i8_i8 mm.cc -Di8_i8_ONLY
check matmul_i16_i32 mm.cc -Di16_i32_ONLY
check matmul_bf16_f32 mm.cc -Dbf16_f32_ONLY
check matmul_bf16_bf16 mm.cc -Dbf16_bf16_ONLY
check softmax softmax.cc
check rms_norm rms_norm.cc
# Beside the path that any core can take there is one for AIE2, in versions that have it.
for tuned in 0 1; do
    check rope rope.cc -DAIE_TUNED_AIE2=$tuned
    check rope_two_halves rope.cc -DAIE_TUNED_AIE2=$tuned
done
check silu silu.cc
check gelu gelu.cc
check exp bf16_exp.cc
exit $failed
