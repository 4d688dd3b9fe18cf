#!/usr/bin/env bash
# Installs the npm clients and runs them against build/tandem serve.
set -euo pipefail
cd "$(dirname "$0")/../.."

tests/clients/install.sh tests/clients
node --test --test-timeout=300000 tests/clients/*_test.mjs
