"""Starts a server of several ranks, asks it, kills and stops its ranks under load, and prints a row of a table."""

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import threading
import time

LIMIT_S = 300


class Server:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE)
        self.lines = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stderr:
            self.lines.append(line.decode(errors="replace"))

    def ports(self):
        return [int(found[1]) for line in list(self.lines) if (found := re.search(r"listening on \S+:(\d+)", line))]

    def await_start(self, times):
        end = time.monotonic() + LIMIT_S
        while len(self.ports()) < times or self.get("/health")[0] != 200:
            if time.monotonic() > end or self.process.poll() is not None:
                raise SystemExit("not started:\n" + "".join(self.lines))
            time.sleep(0.05)

    def get(self, path):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.ports()[-1], timeout=LIMIT_S)
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except OSError:
            return 0, ""

    def complete(self, prompt, tokens):
        """How the stream ended, its tokens, and the seconds until the first and until the end."""
        begin = time.monotonic()
        first = None
        count = 0
        end = "broken"
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.ports()[-1], timeout=LIMIT_S)
            connection.request("POST", "/v1/completions", headers={"Content-Type": "application/json"},
                               body=json.dumps({"prompt": prompt, "max_tokens": tokens, "stream": True,
                                                "ignore_eos": True, "temperature": 0}))
            for line in connection.getresponse():
                if line.startswith(b"data: [DONE]"):
                    end = "whole" if end != "error" else end
                elif b'"error"' in line:
                    end = "error"
                elif line.startswith(b"data:"):
                    first = first or time.monotonic() - begin
                    count += 1
        except (OSError, http.client.HTTPException):
            pass
        return end, count, first or 0.0, time.monotonic() - begin

    def many(self, number, tokens, prompt="Once upon a time"):
        results = []
        threads = [threading.Thread(target=lambda: results.append(self.complete(prompt, tokens)))
                   for _ in range(number)]
        for thread in threads:
            thread.start()
        return threads, results

    def rank(self, number):
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    environment = file.read().split(b"\0")
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if b"OMPI_COMM_WORLD_RANK=%d" % number in environment and b"serve" in words[:3]:
                return int(name)
        raise SystemExit(f"no rank {number}")


def faults(server, ranks, starts):
    for rank in range(ranks):
        for how in (signal.SIGKILL, signal.SIGSTOP):
            threads, results = server.many(4, 2000)
            while float(re.search(r"tandem_requests_running\{[^}]*\} (\S+)", server.get("/metrics")[1])[1]) < 1:
                time.sleep(0.01)
            begin = time.monotonic()
            os.kill(server.rank(rank), how)
            for thread in threads:
                thread.join()
            ended = time.monotonic() - begin
            starts += 1
            server.await_start(starts)
            ends = ", ".join(f"{sum(r[0] == kind for r in results)} {kind}" for kind in ("whole", "error", "broken")
                             if any(r[0] == kind for r in results))
            print(f"    rank {rank} {how.name}: streams ended after {ended:.1f} s ({ends}), "
                  f"ready again after {time.monotonic() - begin:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", default="")
    parser.add_argument("--no-faults", action="store_true")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    server = Server(options.command)
    server.await_start(1)
    server.complete("warm up", 8)
    _, count, _, whole = server.complete("Once upon a time", 100)
    _, _, prompt_s, _ = server.complete("word " * 200, 2)
    threads, results = server.many(8, 100)
    begin = time.monotonic()
    for thread in threads:
        thread.join()
    eight = sum(result[1] for result in results) / (time.monotonic() - begin)
    print(f"{options.name}: 1 stream {count / whole:.1f} tokens/s, 8 streams {eight:.1f} tokens/s, "
          f"first token after a prompt of 200 words {prompt_s * 1e3:.0f} ms", flush=True)
    text = server.get("/metrics")[1]
    for line in text.splitlines():
        if line.startswith(("tandem_stage_seconds", "tandem_stage_waiting", "tandem_hop")):
            print("    " + line)
    if not options.no_faults:
        faults(server, len(re.findall(r"^tandem_stage_seconds_total", text, re.MULTILINE)), 1)
    server.process.send_signal(signal.SIGTERM)
    print(f"    ended with {server.process.wait(LIMIT_S)}")


if __name__ == "__main__":
    main()
