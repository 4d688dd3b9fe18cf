#!/usr/bin/env bash
# Installs what the tests of the page need (Debian's chromium, npm packages), and runs them.
set -euo pipefail
cd "$(dirname "$0")/../.."

tools/bootstrap.sh web
tests/clients/install.sh tests/web
mkdir -p build/web_tests
rm -f build/web_tests/*.png
web/node_modules/.bin/tsc --project web --outDir build/web_tests/src
node --test --test-timeout=300000 tests/web/modules_test.mjs tests/web/page_test.mjs
