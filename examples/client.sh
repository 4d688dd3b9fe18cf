#!/bin/sh
# Asks a server (tandem serve) with curl and prints what it says as it comes: client.sh [URL [PROMPT]]
set -eu
url=${1:-http://127.0.0.1:8080}
prompt=${2:-Tell me a story about a fox}
# A JSON text of the prompt: backslashes and quotes have a backslash before them, lines end in \n.
quoted=$(printf '%s' "$prompt" | sed 's/[\\"]/\\&/g' | awk 'NR > 1 { printf "\\n" } { printf "%s", $0 }')

# Every line "data: ..." is one JSON object with a piece of the answer; the last is "data: [DONE]".
curl --silent --show-error --fail-with-body --no-buffer "$url/v1/chat/completions" --header 'Content-Type: application/json' \
    --data "{\"messages\": [{\"role\": \"user\", \"content\": \"$quoted\"}], \"stream\": true, \"max_tokens\": 100}"
