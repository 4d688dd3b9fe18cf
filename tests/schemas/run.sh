#!/usr/bin/env bash
# Installs the validator ajv under build/schemas, and runs schemas.mjs [COUNT [FIRST SEED]].
set -euo pipefail
cd "$(dirname "$0")/../.."

node_major=$(node --version 2> /dev/null | sed -E 's/v([0-9]+).*/\1/' || true)
if ((${node_major:-0} < 20)) || ! command -v npm > /dev/null; then
    echo "make schemas needs npm and Node 20 or newer; Debian 12 has Node 18: see https://nodejs.org" >&2
    exit 1
fi

mkdir -p build/schemas
cp tests/schemas/{package.json,package-lock.json,.npmrc,schemas.mjs} build/schemas/
(cd build/schemas && npm ci --silent)
node build/schemas/schemas.mjs "$@"
