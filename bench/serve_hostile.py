"""What bodies that are made to hold the server up cost it: processor time and peak memory.

    python3 bench/serve_hostile.py build/release/tandem

Each body goes to each route by itself, to a server with the embedded model. The time is what the threads of the server
have run until the answer was there, to the microsecond (`schedstat`), so that a busy machine changes little.
"""

import http.client
import os
import subprocess
import sys

BODY_BYTES = 4 << 20
USER = '"messages":[{"role":"user","content":"x"}],"prompt":"x","input":"x","model":"tales","max_tokens":1'
ROUTES = ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/api/chat", "/api/show", "/tokenize",
          "/v1/embeddings")


def times(text, bytes_of_all, separator=","):
    return separator.join([text] * (bytes_of_all // (len(text) + len(separator))))


def bodies():
    """(name, body): as large as fits, and as large as the parser lets through."""
    size = BODY_BYTES - 1000
    keys = ",".join(f'"{i:06}":1' for i in range(size // 11))
    some_keys = ",".join(f'"{i:06}":1' for i in range(4090))
    yield "many keys", f"{{{USER},{keys}}}"
    yield "4090 keys", f"{{{USER},{some_keys}}}"
    yield "one key many times", f"{{{USER},{times(chr(34) + 'k' + chr(34) + ':1', size)}}}"
    yield "long keys", f"{{{USER}," + ",".join(f'"{"k" * 4000}{i}":1' for i in range(size // 4010)) + "}"
    yield "logit_bias", f'{{{USER},"logit_bias":{{{keys}}}}}'
    yield "logit_bias of 4090", f'{{{USER},"logit_bias":{{{some_keys}}}}}'
    yield "depth", f'{{{USER},"metadata":{"[" * size}'
    yield "small arrays", f'{{{USER},"x":[{",".join(["[]"] * 65_000)}]}}'
    yield "arrays 60 deep", f'{{{USER},"x":[{",".join(["[" * 60 + "]" * 60] * 1080)}]}}'
    yield "small objects", f'{{{USER},"x":[{times("{" + chr(34) + "a" + chr(34) + ":1}", 32_000 * 8)}]}}'
    yield "numbers", f'{{{USER},"x":[{",".join(["123456"] * 159_000)}]}}'
    yield "floats", f'{{{USER},"x":[{",".join(["2.225073858507e-308"] * 159_000)}]}}'
    yield "one number", f'{{{USER},"n":{"9" * size}}}'
    yield "one fraction", f'{{{USER},"temperature":0.{"3" * size}}}'
    yield "one string", f'{{{USER},"x":"{"a" * size}"}}'
    yield "an open string", f'{{{USER},"x":"{"a" * size}'
    yield "escapes", f'{{{USER},"x":"{times(chr(92) + "n", size, "")}"}}'
    yield "\\u escapes", f'{{{USER},"x":"{times(chr(92) + "u00e9", size, "")}"}}'
    yield "spaces", f'{{{USER}{" " * size}}}'
    tool = '{"type":"function","function":{"name":"f","parameters":{"a":1}}}'
    yield "tools", f'{{{USER},"tools":[{times(tool, 6_000 * len(tool))}]}}'
    message = '{"role":"user","content":"x"}'
    yield "messages", f'{{"model":"tales","max_tokens":1,"messages":[{times(message, 16_000 * len(message))}]}}'
    part = '{"type":"text","text":"x"}'
    parts = f'{{"role":"user","content":[{times(part, 16_000 * len(part))}]}}'
    yield "parts", f'{{"model":"tales","max_tokens":1,"messages":[{parts}]}}'
    escapes = times(chr(92) + "n", size - 500_000, "")
    yield "a bit of all", (f'{{{USER},"x":["{escapes}",{times("{" + chr(34) + "a" + chr(34) + ":1}", 32_000 * 8)},'
                           f'{",".join(["5"] * 60_000)}]}}')
    yield "stop", f'{{{USER},"stop":[{",".join([chr(34) + "s" + chr(34)] * 65_000)}]}}'
    yield "a stop of one string", f'{{{USER},"stop":"{"s" * size}"}}'
    yield "metadata", f'{{{USER},"metadata":{{{some_keys}}}}}'
    yield "token ids", f'{{"prompt":[{",".join(["5"] * 159_000)}],"input":[{",".join(["5"] * 20)}],"model":"tales"}}'


def run_ns(pid):
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total


def peak_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) // 1024 for line in file if line.startswith("VmHWM"))


def main():
    server = subprocess.Popen([sys.argv[1], "serve", "--port", "0", "--parallel", "1"], stderr=subprocess.PIPE)
    port = next(int(line.rsplit(b":", 1)[1]) for line in server.stderr if b"listening on" in line)

    def post(path, body):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        connection.request("POST", path, body)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    post("/tokenize", '{"content":"a"}')  # the model is there
    print(f"{'':22}" + "".join(f"{route.rsplit('/', 1)[1][:12]:>18}" for route in ROUTES) + "   peak MiB")
    for name, body in bodies():
        cells = []
        for route in ROUTES:
            before = run_ns(server.pid)
            status = post(route, body)
            cells.append(f"{status} {(run_ns(server.pid) - before) / 1e6:8.1f} ms")
        print(f"{name:22}" + "".join(f"{cell:>18}" for cell in cells) + f"{peak_mib(server.pid):11}", flush=True)
    server.terminate()
    server.wait()


if __name__ == "__main__":
    main()
