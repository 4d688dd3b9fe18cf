#!/usr/bin/env python3
"""Two keys under unequal load against `tandem serve`: does the small one wait for the greedy one?

  bench/serve_fairness.py                        32 prompts of n = 16 all the time, beside one request after the other
  bench/serve_fairness.py --prompts 256 -- --parallel 64 --device vulkan

The greedy key always has `--prompts` requests of `--n` answers under way: whenever one has ended it sends the next. The
small key sends one short request after the other. Shown are p50 and p99 of the time to the small key's first token, alone
and beside the greedy one, and the tokens a second that the greedy one has, alone and beside the small one.
"""

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

WORDS = ("fox", "owl", "cat", "dog", "hen", "cow", "bee", "ant", "elk", "bat")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/tandem")
    parser.add_argument("--prompts", type=int, default=32, help="requests of the greedy key under way (32)")
    parser.add_argument("--n", type=int, default=16, help="answers to each of them (16)")
    parser.add_argument("--tokens", type=int, default=200, help="of each of these answers (200)")
    parser.add_argument("--requests", type=int, default=100, help="of the small key, each time (100)")
    parser.add_argument("--words", type=int, default=200, help="of each prompt of the small key (200)")
    parser.add_argument("serve", nargs="*", help="further arguments of tandem serve, after --")
    return parser.parse_args()


def start(arguments, keys):
    process = subprocess.Popen([arguments.binary, "serve", "--port", "0", "--api-keys", keys, *arguments.serve],
                               stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", line)
        if found:
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return process, int(found[1])
    sys.exit("the server did not start")


class Client:
    """One key's connection."""

    def __init__(self, port, key):
        self.connection = http.client.HTTPConnection("127.0.0.1", port)
        self.headers = {"Authorization": f"Bearer {key}"}

    def post(self, body):
        self.connection.request("POST", "/v1/completions", json.dumps(body), self.headers)
        response = self.connection.getresponse()
        if response.status != 200:
            raise RuntimeError(response.read().decode())
        return response


def prompt_of(number, words):
    return " ".join(WORDS[(number * (i + 1) + i // 7) % len(WORDS)] for i in range(words)) + f" {number}"


def first_token_seconds(client, number, arguments):
    begin = time.perf_counter()
    response = client.post({"prompt": prompt_of(number, arguments.words), "max_tokens": 4, "ignore_eos": True,
                            "stream": True})
    line = response.readline()
    while not line.startswith(b"data: "):
        line = response.readline()
    seconds = time.perf_counter() - begin
    response.read()
    return seconds


class Greedy:
    """A key that always has as many requests under way."""

    def __init__(self, port, arguments):
        self.port, self.arguments = port, arguments
        self.stops = False
        self.sent = 0
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.work) for _ in range(arguments.prompts)]
        for thread in self.threads:
            thread.start()

    def work(self):
        client = Client(self.port, "sk-greedy-0123456789")
        while not self.stops:
            with self.lock:
                self.sent += 1
                number = self.sent
            response = client.post({"prompt": f"Once upon a time there were {number}", "n": self.arguments.n,
                                    "max_tokens": self.arguments.tokens, "ignore_eos": True, "stream": True})
            while response.readline() and not self.stops:
                pass
            if self.stops:
                client.connection.close()

    def stop(self):
        self.stops = True
        for thread in self.threads:
            thread.join()


def metric(port, name):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics", headers={"Authorization": "Bearer sk-small-0123456789"})
    text = connection.getresponse().read().decode()
    connection.close()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(name + r"[{ ]", line))


def measure(port, first, arguments):
    """(p50, p99 in ms, tokens a second of the whole server) over the small key's requests."""
    client = Client(port, "sk-small-0123456789")
    tokens, begin = metric(port, "tandem_generation_tokens_total"), time.perf_counter()
    seconds = sorted(first_token_seconds(client, first + i, arguments) for i in range(arguments.requests))
    rate = (metric(port, "tandem_generation_tokens_total") - tokens) / (time.perf_counter() - begin)
    return (1e3 * seconds[len(seconds) // 2], 1e3 * seconds[min(len(seconds) - 1, len(seconds) * 99 // 100)], rate)


def greedy_rate(port, seconds=5):
    tokens, begin = metric(port, "tandem_generation_tokens_total"), time.perf_counter()
    time.sleep(seconds)
    return (metric(port, "tandem_generation_tokens_total") - tokens) / (time.perf_counter() - begin)


def main():
    arguments = parse_arguments()
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        os.chmod(keys.name, 0o600)
        keys.write("sk-greedy-0123456789 use greedy\nsk-small-0123456789 use small\n")
        keys.flush()
        process, port = start(arguments, keys.name)
        measure(port, 0, argparse.Namespace(requests=3, words=arguments.words))  # everything is there
        alone = measure(port, 1000, arguments)
        greedy = Greedy(port, arguments)
        while metric(port, "tandem_requests_waiting") == 0:
            time.sleep(0.1)
        rate = greedy_rate(port)
        beside = measure(port, 1_000_000, arguments)
        preemptions = metric(port, "tandem_preemptions_total")
        greedy.stop()
        process.send_signal(signal.SIGTERM)
        process.wait()
    print(f"first token of the small key: alone p50 {alone[0]:.1f} ms, p99 {alone[1]:.1f} ms; "
          f"beside {arguments.prompts} prompts of n = {arguments.n}: p50 {beside[0]:.1f} ms, p99 {beside[1]:.1f} ms "
          f"({beside[1] / alone[1]:.2f} of it alone)")
    print(f"tokens a second of the server: {rate:.0f} without the small key, {beside[2]:.0f} with it; "
          f"sequences that gave way: {preemptions:.0f}")


if __name__ == "__main__":
    main()
