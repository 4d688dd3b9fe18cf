"""Starts a server of several ranks, asks it, kills and stops its ranks under load, and prints what clients saw.

  TANDEM_BINARY=build/tandem tests/ranks/clients.py tales --hosts localhost,localhost,localhost --device cpu --threads 1
"""

import argparse
import http.client
import json
import os
import re
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
from job import Job, read_proc  # noqa: E402  pylint: disable=wrong-import-position

IDLE_S = 10
TICKS = os.sysconf("SC_CLK_TCK")


def complete(job, prompt, tokens):
    """How the stream ended, its tokens if it is whole (a piece may be several), and the seconds until the first and until the end."""
    begin = time.monotonic()
    first, end = None, "broken off"
    try:
        connection = job.connection()
        connection.request("POST", "/v1/completions", headers={"Content-Type": "application/json"},
                           body=json.dumps({"prompt": prompt, "max_tokens": tokens, "stream": True, "ignore_eos": True,
                                            "temperature": 0}))
        for line in connection.getresponse():
            if line.startswith(b"data: [DONE]"):
                end = "whole" if end != "with an error" else end
            elif b'"error"' in line:
                end = "with an error"
            elif line.startswith(b"data:"):
                first = first or time.monotonic() - begin
    except (OSError, http.client.HTTPException):
        pass
    return end, tokens if end == "whole" else 0, first or 0.0, time.monotonic() - begin


def many(job, number, tokens):
    results = []
    threads = [threading.Thread(target=lambda: results.append(complete(job, "Once upon a time", tokens)))
               for _ in range(number)]
    for thread in threads:
        thread.start()
    return threads, results


def join(threads):
    for thread in threads:
        thread.join()


def processor_seconds(pid):
    fields = read_proc(pid, "stat").rsplit(b")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def show_idle(job):
    """What ranks take of a core while nobody asks."""
    time.sleep(2)
    ranks = sorted(job.ranks().items())
    before = [processor_seconds(pid) for _, pid in ranks]
    time.sleep(IDLE_S)
    after = [processor_seconds(pid) for _, pid in ranks]
    print("    idle: " + ", ".join(f"rank {rank} {100 * (end - begin) / IDLE_S:.1f} % of a core"
                                   for (rank, _), begin, end in zip(ranks, before, after)), flush=True)


def show_speeds(job, name):
    complete(job, "warm up", 8)
    _, count, _, whole = complete(job, "Once upon a time", 100)
    _, _, prompt_s, _ = complete(job, "word " * 200, 2)
    begin = time.monotonic()
    threads, results = many(job, 8, 100)
    join(threads)
    eight = sum(result[1] for result in results) / (time.monotonic() - begin)
    print(f"{name}: 1 stream {count / whole:.1f} tokens/s, 8 streams {eight:.1f} tokens/s, "
          f"first token after a prompt of 200 words {prompt_s * 1e3:.0f} ms", flush=True)
    for line in job.request("GET", "/metrics")[2].decode().splitlines():
        if line.startswith(("tandem_stage_seconds", "tandem_stage_waiting", "tandem_stage_sent", "tandem_hop")):
            print("    " + line)


def show_faults(job, lost):
    for rank in lost:
        for how in (signal.SIGKILL, signal.SIGSTOP):
            times = job.times_ready()
            threads, results = many(job, 4, 2000)
            while job.gauge("tandem_requests_running") < 1:
                time.sleep(0.01)
            begin = time.monotonic()
            os.kill(job.ranks()[rank], how)
            join(threads)
            ended = time.monotonic() - begin
            job.wait_for_start(times + 1)
            kinds = {kind: sum(result[0] == kind for result in results) for kind in {result[0] for result in results}}
            ends = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
            print(f"    rank {rank} {how.name}: streams ended after {ended:.1f} s ({ends}), "
                  f"ready again after {time.monotonic() - begin:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="this machine", help="of the network, in what is printed")
    parser.add_argument("--lose", type=lambda text: [int(part) for part in text.split(",") if part], default=[0, 1, 2], help="ranks that are killed and stopped (0,1,2)")
    options, arguments = parser.parse_known_args()
    job = Job(*arguments)
    try:
        show_speeds(job, options.name)
        show_idle(job)
        show_faults(job, options.lose)
        print(f"    ended with {job.stop()}")
    finally:
        job.process.kill()


if __name__ == "__main__":
    main()
