#!/usr/bin/env python3
"""Many streams at once against `tandem serve`: is every answer whole, does memory stay, what does the server add.

  bench/serve_load.py --streams 1000                 every answer is read to its end and has all its tokens
  bench/serve_load.py --streams 1000 --cancel        every other client leaves half-way
  bench/serve_load.py --streams 100 --tokens 200 -- --parallel 100
                                                     among the figures: p99 of what the server adds to a token

What the server adds is its own measurement (tandem_stream_delay_seconds of /metrics): from the engine's thread to the
end of the write to the client's socket. Real clients are other machines; this one reads what has come every 10 ms and
yields to the server, so that it takes little of the cores that the server is measured on. Its share is printed.
"""

import argparse
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time

LOOK_EVERY_S = 0.01
YIELDS = 10  # niceness of the client


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


def fetch(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    text = connection.getresponse().read().decode()
    connection.close()
    return text


class Stream:
    """One client with its answer."""

    def __init__(self, port, number, arguments):
        body = json.dumps({"prompt": f"Once upon a time there were {number}", "max_tokens": arguments.tokens,
                           "stream": True, "ignore_eos": True, "stream_options": {"include_usage": True}})
        self.number = number
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
                            f"{body}".encode())
        self.socket.setblocking(False)
        self.leaves_after = arguments.tokens // 2 if arguments.cancel and number % 2 == 1 else None
        self.events = 0
        self.begin, self.end = b"", b""
        self.tokens = None  # of the whole answer; negative: it was left

    def read(self):
        """Takes what has come; True: it was all."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise RuntimeError(f"stream {self.number} broke off: {self.begin!r} ... {self.end!r}")
        self.events += data.count(b"data: ")
        self.begin = self.begin or data[:300]
        self.end = (self.end + data)[-2000:]
        if self.leaves_after is not None and self.events > self.leaves_after:
            self.tokens = -1
        elif self.end.endswith(b"0\r\n\r\n"):
            if b"data: [DONE]" not in self.end:
                raise RuntimeError(f"stream {self.number}: {self.begin!r}")
            self.tokens = int(re.search(rb'"completion_tokens":(\d+)', self.end)[1])
        else:
            return False
        self.socket.close()
        return True


def read_all(port, arguments):
    """The number of tokens of every answer."""
    streams = {}
    poll = select.epoll()
    for number in range(arguments.streams):
        stream = Stream(port, number, arguments)
        streams[stream.socket.fileno()] = stream
        poll.register(stream.socket.fileno(), select.EPOLLIN)
    counts = []
    while streams:
        time.sleep(LOOK_EVERY_S)
        for file, _ in poll.poll(0, len(streams)):
            if streams[file].read():
                counts.append(streams.pop(file).tokens)
    return counts


def memory_mib(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) // 1024


def cpu_seconds(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def quantile(metrics, name, share):
    """The upper edge of the bucket in which it lies."""
    buckets = [(float(edge), float(count)) for edge, count in
               re.findall(name + r'_bucket\{[^}]*le="([^"]+)"[^}]*\} (\S+)', metrics)]
    total = buckets[-1][1]
    return next(edge for edge, count in buckets if count >= share * total)


def measure(process, port, arguments):
    while '"ok"' not in fetch(port, "/health"):
        time.sleep(0.1)
    for turn in range(arguments.rounds):
        begin, own, servers = time.monotonic(), time.process_time(), cpu_seconds(process)
        counts = read_all(port, arguments)
        seconds = time.monotonic() - begin
        whole = [count for count in counts if count >= 0]
        if any(count != arguments.tokens for count in whole):
            sys.exit(f"answers with another number of tokens than {arguments.tokens}: {sorted(set(whole))}")
        while True:
            metrics = fetch(port, "/metrics")
            if not any(float(value) for value in re.findall(r"tandem_requests_(?:running|waiting)\{[^}]*\} (\S+)", metrics)):
                break
            time.sleep(0.05)
        print(f"round {turn + 1}: {len(whole)} whole answers, {len(counts) - len(whole)} left, "
              f"{sum(whole) / seconds:.0f} tokens/s read, {memory_mib(process)} MiB; cores used: server "
              f"{(cpu_seconds(process) - servers) / seconds:.2f}, client {(time.process_time() - own) / seconds:.2f}",
              flush=True)
    for share in (0.5, 0.9, 0.99, 0.999):
        edge = quantile(metrics, "tandem_stream_delay_seconds", share)
        print(f"server overhead per write, p{share * 100:g}: at most {edge * 1e3:g} ms")


def main():
    arguments = parse_arguments()
    process, port = start(arguments)
    try:
        os.nice(YIELDS)
        measure(process, port, arguments)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
