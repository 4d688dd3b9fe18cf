#!/usr/bin/env bash
# Installs the validator ajv under build/schemas, and runs schemas.mjs [COUNT [FIRST SEED]].
set -euo pipefail
cd "$(dirname "$0")/../.."

mkdir -p build/schemas
cp tests/schemas/{package.json,package-lock.json,.npmrc,schemas.mjs} build/schemas/
tests/clients/install.sh build/schemas
node build/schemas/schemas.mjs "$@"
