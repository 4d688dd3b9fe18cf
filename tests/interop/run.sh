#!/usr/bin/env bash
# Installs llama.cpp as the npm package node-llama-cpp (prebuilt, CPU only) under build/interop, and runs interop.mjs.
set -euo pipefail
cd "$(dirname "$0")/../.."

node_major=$(node --version 2> /dev/null | sed -E 's/v([0-9]+).*/\1/' || true)
if ((${node_major:-0} < 20)) || ! command -v npm > /dev/null; then
    echo "make interop needs npm and Node 20 or newer; Debian 12 has Node 18: see https://nodejs.org" >&2
    exit 1
fi

mkdir -p build/interop
cp tests/interop/{package.json,package-lock.json,.npmrc,interop.mjs} build/interop/
(cd build/interop && npm install --silent) # not "npm ci": it insists on the packages of other platforms
node build/interop/interop.mjs
