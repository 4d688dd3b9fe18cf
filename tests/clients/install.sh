#!/usr/bin/env bash
# Installs the npm packages of a folder, unless they are there: tests/clients/install.sh FOLDER. Exits with 3 where that is not
# possible.
set -euo pipefail
cd "$1"

node_major=$(node --version 2> /dev/null | sed -E 's/v([0-9]+).*/\1/' || true)
if ((${node_major:-0} < 20)) || ! command -v npm > /dev/null; then
    echo "$1 needs npm and Node 20.19 or newer; Debian 12 has Node 18: see https://nodejs.org" >&2
    exit 3
fi
cmp --silent package-lock.json node_modules/.installed.json || {
    npm ci --silent || {
        echo "npm cannot install the packages of $1: is there a network?" >&2
        exit 3
    }
    cp package-lock.json node_modules/.installed.json
}
