"""Asks a server (tandem serve) and prints its answer as it is written; Python's own library is enough.

Usage: client.py [URL [PROMPT]]
"""

import json
import sys
import urllib.error
import urllib.request


def ask(url, prompt):
    """Yields the pieces of the answer."""
    body = {"messages": [{"role": "user", "content": prompt}], "stream": True, "max_tokens": 100}
    request = urllib.request.Request(
        url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as response:
        for line in response:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            event = json.loads(line[len("data: "):])
            for choice in event["choices"]:
                yield choice["delta"].get("content") or ""


def main():
    url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
    prompt = sys.argv[2] if len(sys.argv) > 2 else "Tell me a story about a fox"
    try:
        for piece in ask(url, prompt):
            print(piece, end="", flush=True)
        print()
    except urllib.error.HTTPError as error:
        sys.exit(f"client.py: {error.code}: {error.read().decode(errors='replace')}")
    except urllib.error.URLError as error:
        sys.exit(f"client.py: {url}: {error.reason}: is `tandem serve` running?")


if __name__ == "__main__":
    main()
