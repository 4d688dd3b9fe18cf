#!/usr/bin/env python3
"""Many streams through HAProxy to three servers, which are restarted one after the other meanwhile: is any answer lost?

  bench/serve_replicas.py --streams 300            each server is ended by SIGTERM and started again under load
  bench/serve_replicas.py --streams 300 --kill     the first one by SIGKILL: only what it was sending may be lost

HAProxy (Debian: haproxy) runs with packaging/cluster/haproxy.cfg, addresses and certificate changed. As many clients as streams
ask one question after the other until all servers have been restarted; each must get a whole answer.
"""

import argparse
import collections
import http.client
import os
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "e2e"))
import balancer  # noqa: E402  pylint: disable=wrong-import-position
import harness  # noqa: E402  pylint: disable=wrong-import-position
from server_test import Server  # noqa: E402  pylint: disable=wrong-import-position


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/tandem")
    parser.add_argument("--streams", type=int, default=300, help="open at once (300)")
    parser.add_argument("--tokens", type=int, default=32, help="of each answer (32)")
    parser.add_argument("--kill", action="store_true", help="the first server ends by SIGKILL")
    return parser.parse_args()


def ask(front, number, tokens):
    """(server, whether the answer is whole)."""
    body = {"prompt": f"Once upon a time there were {number}", "max_tokens": tokens, "ignore_eos": True, "stream": True}
    response = front.post("/v1/completions", body)
    served_by = response.headers["x-served-by"]
    try:
        data = response.read()
    except (http.client.IncompleteRead, OSError):
        data = b""
    return served_by, response.status, data.endswith(b"data: [DONE]\n\n")


def main():
    arguments = parse_arguments()
    harness.BINARY = os.path.abspath(arguments.binary)
    threading.stack_size(1 << 18)
    options = ("tales", "--threads", "1", "--parallel", "32", "--notice", "2")
    with tempfile.TemporaryDirectory(prefix="tandem-replicas-") as directory:
        servers = {name: Server(*options) for name in "abc"}
        front = balancer.Balancer(directory, [servers[name].port for name in "abc"],
                                  connections=2 * arguments.streams + 100)
        stop, lock = threading.Event(), threading.Lock()
        outcomes = collections.Counter()

        def work(number):
            while not stop.is_set():
                served_by, status, whole = ask(front, number, arguments.tokens)
                with lock:
                    outcomes[served_by, "whole" if whole else f"lost (status {status})"] += 1

        threads = [threading.Thread(target=work, args=[number]) for number in range(arguments.streams)]
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        print(f"{'':>8} {'restarted after':>16} {'took':>8} {'answers so far':>16}")
        for name in "abc":
            while True:  # it is under load
                with lock:
                    if outcomes[name, "whole"] >= arguments.streams // 6:
                        break
                time.sleep(0.05)
            at = time.monotonic()
            servers[name].stop(signal.SIGKILL if arguments.kill and name == "a" else signal.SIGTERM)
            servers[name] = Server(*options)
            front.move(name, servers[name].port)
            now = time.monotonic()
            print(f"{name:>8} {at - begin:>14.1f} s {now - at:>6.1f} s {sum(outcomes.values()):>16}", flush=True)
        stop.set()
        for thread in threads:
            thread.join()
        front.stop()
        for server in servers.values():
            server.stop()
    print()
    for (name, outcome), count in sorted(outcomes.items(), key=str):
        print(f"{name or '-':>8} {outcome:<20} {count:>6}")
    lost = sum(count for (_, outcome), count in outcomes.items() if outcome != "whole")
    print(f"{'all':>8} {'lost':<20} {lost:>6}")
    return 0 if lost == 0 or arguments.kill else 1


if __name__ == "__main__":
    sys.exit(main())
