#!/usr/bin/env bash
# Installs the validator ajv under build/schemas, and runs schemas.mjs with the programs of a build:
# tests/schemas/run.sh BUILD [COUNT [FIRST SEED]].
set -euo pipefail
build=$(realpath "${1:-build}")
cd "$(dirname "$0")/../.."

mkdir -p build/schemas
cp tests/schemas/{package.json,package-lock.json,.npmrc,maker.mjs,schemas.mjs} build/schemas/
tests/clients/install.sh build/schemas
node build/schemas/schemas.mjs "$build" "${@:2}"
