#!/usr/bin/env bash
# Installs the npm clients and runs them against build/tandem serve: run.sh [--where-possible].
# With --where-possible, a machine without Node 20 or without a network passes.
set -euo pipefail
cd "$(dirname "$0")/../.."

tests/clients/install.sh tests/clients || {
    status=$?
    [[ ${1-} == --where-possible && $status == 3 ]] || exit "$status"
    echo "The npm clients are left out."
    exit 0
}
node --test --test-timeout=300000 tests/clients/*_test.mjs
