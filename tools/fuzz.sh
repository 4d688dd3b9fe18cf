#!/usr/bin/env bash
# Builds and runs every libFuzzer target of tests/fuzz for some seconds each: fuzz.sh SECONDS.
# New inputs go to build/fuzz/corpus, those that fail to build/fuzz/findings; the corpus in the tree is only read.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?usage: tools/fuzz.sh SECONDS}
mapfile -t names < <(basename --suffix=.cpp tests/fuzz/*.cpp)

cmake --build --preset fuzz --target "${names[@]/#/fuzz_}"
mkdir -p build/fuzz/findings build/fuzz/logs

fuzz_one() {
    local name=$1 seconds=$2 log=build/fuzz/logs/$1.log options=()
    [[ -e tests/fuzz/$name.dict ]] && options=(-dict="tests/fuzz/$name.dict")
    mkdir -p "build/fuzz/corpus/$name"
    if "build/fuzz/fuzz_$name" "${options[@]}" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="build/fuzz/findings/$name-" \
        "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name" > "$log" 2>&1; then
        echo "fuzz $name: $(awk '/number_of_executed_units/ { print $2 }' "$log") inputs, no finding"
    else
        echo "fuzz $name: FAILED, the end of $log:"
        tail -n 60 "$log"
        return 1
    fi
}
export -f fuzz_one
printf '%s\n' "${names[@]}" | xargs -P "$(nproc)" -I NAME bash -c "fuzz_one NAME $seconds"
