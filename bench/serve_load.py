#!/usr/bin/env python3
"""Many streams at once against `tandem serve`: is every answer whole, does memory stay, what does the server add.

  bench/serve_load.py --streams 1000                 every answer is read to its end and has all its tokens
  bench/serve_load.py --streams 1000 --cancel        every other client leaves half-way
  bench/serve_load.py --streams 100 --tokens 200     among the figures: p99 of what the server adds to a token

What the server adds is its own measurement (tandem_stream_delay_seconds of /metrics): from the engine's thread to the
end of the write to the client's socket.
"""

import argparse
import asyncio
import json
import re
import signal
import subprocess
import sys
import time


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/tandem")
    parser.add_argument("--streams", type=int, default=1000, help="open at once (1000)")
    parser.add_argument("--tokens", type=int, default=64, help="of each answer (64)")
    parser.add_argument("--rounds", type=int, default=3, help="one after the other, to see memory stay (3)")
    parser.add_argument("--cancel", action="store_true", help="every other client leaves half-way")
    parser.add_argument("serve", nargs="*", help="further arguments of tandem serve, after --")
    return parser.parse_args()


def start(arguments):
    process = subprocess.Popen([arguments.binary, "serve", "--port", "0", *arguments.serve], stderr=subprocess.PIPE,
                               text=True)
    for line in process.stderr:
        found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", line)
        if found:
            return process, int(found[1])
    sys.exit("the server did not start")


async def fetch(port, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    data = await reader.read()
    writer.close()
    return data.split(b"\r\n\r\n", 1)[1].decode()


async def stream(port, number, arguments):
    """Tokens of one answer; negative when it was left half-way."""
    body = json.dumps({"prompt": f"Once upon a time there were {number}", "max_tokens": arguments.tokens, "stream": True,
                       "ignore_eos": True, "stream_options": {"include_usage": True}})
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    leaves = arguments.cancel and number % 2 == 1
    events, data = 0, b""
    while not data.endswith(b"0\r\n\r\n"):
        piece = await reader.read(1 << 16)
        if not piece:
            raise RuntimeError(f"stream {number} broke off: {data[-200:]!r}")
        events += piece.count(b"data: ")
        data += piece
        if leaves and events > arguments.tokens // 2:
            writer.close()
            return -1
    writer.close()
    if b"data: [DONE]" not in data:
        raise RuntimeError(f"stream {number}: {data[:300]!r}")
    return int(re.search(rb'"completion_tokens":(\d+)', data)[1])


def memory_mib(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) // 1024


def quantile(metrics, name, share):
    """The upper edge of the bucket in which it lies."""
    buckets = [(float(edge), float(count)) for edge, count in
               re.findall(name + r'_bucket\{[^}]*le="([^"]+)"[^}]*\} (\S+)', metrics)]
    total = buckets[-1][1]
    return next(edge for edge, count in buckets if count >= share * total)


async def measure(process, port, arguments):
    while '"ok"' not in await fetch(port, "/health"):
        await asyncio.sleep(0.1)
    for turn in range(arguments.rounds):
        begin = time.monotonic()
        counts = await asyncio.gather(*(stream(port, number, arguments) for number in range(arguments.streams)))
        seconds = time.monotonic() - begin
        whole = [count for count in counts if count >= 0]
        if any(count != arguments.tokens for count in whole):
            sys.exit(f"answers with another number of tokens than {arguments.tokens}: {sorted(set(whole))}")
        while True:
            metrics = await fetch(port, "/metrics")
            if not any(float(value) for value in re.findall(r"tandem_requests_(?:running|waiting)\{[^}]*\} (\S+)", metrics)):
                break
            await asyncio.sleep(0.05)
        print(f"round {turn + 1}: {len(whole)} whole answers, {len(counts) - len(whole)} left, "
              f"{sum(whole) / seconds:.0f} tokens/s read, {memory_mib(process)} MiB", flush=True)
    for share in (0.5, 0.99):
        edge = quantile(metrics, "tandem_stream_delay_seconds", share)
        print(f"server overhead per write, p{share * 100:.0f}: at most {edge * 1e3:g} ms")


def main():
    arguments = parse_arguments()
    process, port = start(arguments)
    try:
        asyncio.run(measure(process, port, arguments))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
