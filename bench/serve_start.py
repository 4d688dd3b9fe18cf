#!/usr/bin/env python3
"""Is a server that says it is ready ready? Starts `tandem serve` with an empty cache folder and sends bursts of streams.

  bench/serve_start.py gemma-3-27b.gguf                              bursts of 1, 8, 32 and 64 streams, each twice
  bench/serve_start.py model.gguf --bursts 1,8 -- --device vulkan    further arguments of tandem serve after --

For each burst: when the first token came, and the longest time that any stream waited for more. What only the first
burst of its size has was not made ready before /health said so. Then the first token of a prompt of 512 tokens with
nobody else there, to be compared with the prompt of `tandem bench --prompt 512`.
"""

import argparse
import http.client
import json
import os
import random
import selectors
import signal
import socket
import statistics
import subprocess
import tempfile
import time


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--binary", default="build/tandem")
    parser.add_argument("--bursts", default="1,8,32,64", help="numbers of streams (1,8,32,64)")
    parser.add_argument("--tokens", type=int, default=64, help="of each answer (64)")
    parser.add_argument("--prompt", type=int, default=512, help="tokens of the prompt that is timed alone (512)")
    parser.add_argument("--repeat", type=int, default=5, help="times that it is timed (5)")
    parser.add_argument("serve", nargs="*", help="further arguments of tandem serve, after --")
    return parser.parse_args()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_ready(port, process):
    """Seconds, and how far loading was each time it was looked at."""
    begin, seen = time.monotonic(), []
    while process.poll() is None:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/health")
            response = connection.getresponse()
            health = json.loads(response.read())
            if response.status == 200:
                return time.monotonic() - begin, seen
            seen.append(health.get("progress", 0))
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.01)
    raise SystemExit("the server ended before it was ready")


def open_stream(port, prompt, tokens):
    body = json.dumps({"prompt": prompt, "max_tokens": tokens, "stream": True, "temperature": 0, "ignore_eos": True})
    request = f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    request += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
    stream = socket.create_connection(("127.0.0.1", port))
    stream.sendall(request.encode())
    return stream


def burst(port, count, prompt_tokens, tokens):
    """First token and longest gap over all streams, in seconds."""
    selector = selectors.DefaultSelector()
    begin = time.monotonic()
    for _ in range(count):
        prompt = [random.randrange(1000, 200000) for _ in range(prompt_tokens)]
        stream = open_stream(port, prompt, tokens)
        selector.register(stream, selectors.EVENT_READ, {"last": None, "first": None, "gap": 0.0, "data": b""})
    results = []
    while len(results) < count:
        for key, _ in selector.select():
            piece, state, now = key.fileobj.recv(1 << 16), key.data, time.monotonic()
            if not piece:
                if b"[DONE]" not in state["data"]:
                    raise SystemExit(f"a stream ended early: {state['data'][-400:]!r}")
                results.append(state)
                selector.unregister(key.fileobj)
                key.fileobj.close()
                continue
            state["data"] += piece
            if b"data: " not in piece:
                continue
            if state["first"] is None:
                state["first"] = now - begin
            else:
                state["gap"] = max(state["gap"], now - state["last"])
            state["last"] = now
    return max(r["first"] for r in results), max(r["gap"] for r in results)


def main():
    options = parse_arguments()
    sizes = [int(size) for size in options.bursts.split(",")]
    port = free_port()
    with tempfile.TemporaryDirectory() as cache:
        command = [options.binary, "serve", options.model, "--port", str(port), "--parallel", str(max(sizes)), *options.serve]
        process = subprocess.Popen(command, env={**os.environ, "XDG_CACHE_HOME": cache})
        try:
            seconds, seen = wait_until_ready(port, process)
            steps = len({round(share, 2) for share in seen})
            print(f"ready after {seconds:.2f} s; progress was told in {steps} steps", flush=True)
            print(f"{'streams':>8} {'burst':>6} {'first token':>12} {'longest gap':>12}")
            for size in sizes:
                for number in (1, 2):
                    first, gap = burst(port, size, 32, options.tokens)
                    print(f"{size:>8} {number:>6} {first * 1e3:>9.1f} ms {gap * 1e3:>9.1f} ms", flush=True)
            times = [burst(port, 1, options.prompt, 2)[0] for _ in range(options.repeat)]
            listed = ", ".join(f"{t * 1e3:.1f}" for t in times)
            print(f"first token of a prompt of {options.prompt}: median {statistics.median(times) * 1e3:.1f} ms of {listed}")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


if __name__ == "__main__":
    main()
