"""The first minutes of somebody with an installed Tandem, in another root: run, pull, run, serve, a client.

Usage: walk.py --root ROOT --program PROGRAM (its path in there); as root, for chroot. The user `tandem` must be there.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

from hub_server import Hub, Repository  # noqa: E402

TALES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "assets", "tales-q8_0.gguf")
PROMPT = "Tell me a story about a fox"
LIMIT_S = 300


class System:
    def __init__(self, root, program, variables):
        self.command = ["/usr/sbin/chroot", "--userspec=tandem:tandem", root, program]
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": "/var/lib/tandem", "LC_ALL": "C.UTF-8", **variables}

    def start(self, *arguments):
        return subprocess.Popen([*self.command, *arguments], env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)

    def run(self, *arguments, code=0):
        process = self.start(*arguments)
        out, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == code, (arguments, process.returncode, out, err)
        print(f"   tandem {' '.join(arguments)}: {(out or err).splitlines()[0][:80] if out or err else ''}")
        return out, err


def serve(system):
    process = system.start("serve", "tandem-test/tales", "--port", "0")
    lines = []
    listening = threading.Event()

    def read():
        for line in process.stderr:
            lines.append(line)
            if "listening on" in line:
                listening.set()
        listening.set()

    threading.Thread(target=read, daemon=True).start()
    try:
        assert listening.wait(LIMIT_S), "the server says nothing"
        port = re.search(r"listening on http://127\.0\.0\.1:(\d+)", "".join(lines))
        assert port, lines
        body = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 40}
        request = urllib.request.Request(f"http://127.0.0.1:{port[1]}/v1/chat/completions", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=LIMIT_S) as response:
            answer = json.load(response)["choices"][0]["message"]["content"]
        assert len(answer) > 20, answer
        print(f"   a client of tandem serve: {answer[:60]!r}")
    finally:
        process.terminate()
    assert process.wait(LIMIT_S) == 0, lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--program", required=True)
    options = parser.parse_args()
    state = os.path.join(options.root, "var/lib/tandem")
    subprocess.run(["/usr/sbin/chroot", options.root, "install", "-d", "-o", "tandem", "-g", "tandem", "/var/lib/tandem"], check=True)
    open(os.path.join(state, "mine"), "w", encoding="utf-8").close()
    with open(TALES, "rb") as file:
        model = file.read()
    with Hub({"tandem-test/tales": Repository({"tales-Q8_0.gguf": model})}) as hub:
        system = System(options.root, options.program, {"HF_ENDPOINT": hub.url, "HF_HOME": "/var/lib/tandem"})
        version, _ = system.run("--version")
        assert version.startswith("tandem "), version
        system.run("devices")
        out, _ = system.run("run", PROMPT, "-q")
        assert len(out) > 20, out
        out, _ = system.run("pull", "tandem-test/tales")
        with open(options.root + out.strip(), "rb") as file:
            assert file.read() == model
        out, _ = system.run("run", "tandem-test/tales", PROMPT, "-q")
        assert len(out) > 20, out
        serve(system)


if __name__ == "__main__":
    main()
