#!/usr/bin/env bash
# Installs the npm packages of a folder, unless they are there: tests/clients/install.sh FOLDER.
set -euo pipefail
cd "$1"

node_major=$(node --version 2> /dev/null | sed -E 's/v([0-9]+).*/\1/' || true)
if ((${node_major:-0} < 20)) || ! command -v npm > /dev/null; then
    echo "$1 needs npm and Node 20.19 or newer; Debian 12 has Node 18: see https://nodejs.org" >&2
    exit 3
fi
cmp --silent package-lock.json node_modules/.installed.json || {
    npm ci --silent
    cp package-lock.json node_modules/.installed.json
}
