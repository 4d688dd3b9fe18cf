"""tandem serve: HTTP, streams, errors, cancellation, limits, odd clients."""

import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import harness

STORY = [{"role": "user", "content": "Tell me a story about a fox."}]


class Server:
    """A server on a port of its own, ready."""

    def __init__(self, *args, wait=True, environment=None, port=0):
        self.process = subprocess.Popen([harness.BINARY, "serve", "--port", str(port), *map(str, args)], stderr=subprocess.PIPE,
                                        stdout=subprocess.DEVNULL, env=environment)
        self.lines = []
        self.port = None
        listening = threading.Event()

        def read():
            for line in self.process.stderr:
                text = line.decode(errors="replace")
                self.lines.append(text)
                if "listening on" in text:
                    self.port = int(text.rsplit(":", 1)[1])
                    listening.set()
            listening.set()

        threading.Thread(target=read, daemon=True).start()
        if not listening.wait(harness.TIMEOUT_S) or self.port is None:
            raise AssertionError("the server did not start: " + "".join(self.lines))
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self):
        end = time.monotonic() + harness.TIMEOUT_S
        while self.request("GET", "/health")[0] != 200:
            if time.monotonic() > end:
                raise AssertionError("the model did not load: " + "".join(self.lines))
            time.sleep(0.02)

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=harness.TIMEOUT_S)

    def request(self, method, path, body=None, headers=None):
        """(status, headers, body) of one request."""
        connection = self.connection()
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response.status, dict(response.getheaders()), data

    def post(self, path, body, headers=None):
        status, _, data = self.request("POST", path, body, headers)
        return status, json.loads(data)

    def stream(self, body):
        """The objects of a chat's stream, and whether it ended with [DONE]."""
        status, headers, data = self.request("POST", "/v1/chat/completions", dict(body, stream=True))
        assert status == 200 and headers["Content-Type"] == "text/event-stream", (status, headers, data)
        events = [line[6:] for line in data.decode().split("\n\n") if line.startswith("data: ")]
        done = events and events[-1] == "[DONE]"
        return [json.loads(event) for event in events if event != "[DONE]"], done

    def open_stream(self, body):
        """A socket on which the head of a stream and its first bytes have come."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=harness.TIMEOUT_S)
        connection.sendall(raw_request(json.dumps(dict(body, stream=True))))
        data = connection.recv(1 << 16)
        assert data.startswith(b"HTTP/1.1 200"), data
        return connection

    def gauge(self, name):
        metrics = self.request("GET", "/metrics")[2].decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in metrics.splitlines() if line.startswith(name + "{"))

    def wait_until_idle(self):
        end = time.monotonic() + harness.TIMEOUT_S
        while self.gauge("tandem_requests_running") + self.gauge("tandem_requests_waiting") > 0:
            if time.monotonic() > end:
                raise AssertionError("requests of clients that are gone go on")
            time.sleep(0.02)

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        code = self.process.wait(harness.TIMEOUT_S)
        self.process.stderr.close()
        return code


def raw_request(body, path="/v1/chat/completions", extra=""):
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{extra}"
            f"Content-Length: {len(body)}\r\n\r\n{body}").encode()


class ServerCase(unittest.TestCase):
    """Tests that share one server."""

    ARGS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.ARGS)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, (code, "".join(cls.server.lines))


class Answers(ServerCase):
    def test_an_answer_in_one_piece(self):
        status, answer = self.server.post("/v1/chat/completions", {"messages": STORY, "max_tokens": 8, "seed": 1})
        self.assertEqual(status, 200)
        self.assertEqual(answer["object"], "chat.completion")
        self.assertEqual(answer["model"], "tales")
        choice = answer["choices"][0]
        self.assertEqual(choice["message"]["role"], "assistant")
        self.assertTrue(choice["message"]["content"])
        self.assertEqual(choice["finish_reason"], "length")
        usage = answer["usage"]
        self.assertEqual(usage["completion_tokens"], 8)
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + 8)
        self.assertIn("cached_tokens", usage["prompt_tokens_details"])

    def test_a_stream_says_the_same(self):
        body = {"messages": STORY, "max_tokens": 24, "temperature": 0}
        whole = self.server.post("/v1/chat/completions", body)[1]["choices"][0]["message"]["content"]
        chunks, done = self.server.stream(dict(body, stream_options={"include_usage": True}))
        self.assertTrue(done)
        self.assertEqual(len({(chunk["id"], chunk["created"]) for chunk in chunks}), 1)
        self.assertEqual(chunks[0]["choices"][0]["delta"]["role"], "assistant")
        roles = [chunk for chunk in chunks if chunk["choices"] and "role" in chunk["choices"][0]["delta"]]
        self.assertEqual(len(roles), 1)
        text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"])
        self.assertEqual(text, whole)
        self.assertEqual(chunks[-1]["choices"], [])
        self.assertEqual(chunks[-1]["usage"]["completion_tokens"], 24)
        self.assertEqual(chunks[-2]["choices"][0]["delta"], {})
        self.assertEqual(chunks[-2]["choices"][0]["finish_reason"], "length")

    def test_the_same_seed_gives_the_same_answer(self):
        body = {"messages": STORY, "max_tokens": 16, "seed": 7}
        first, second = (self.server.post("/v1/chat/completions", body)[1]["choices"][0]["message"] for _ in range(2))
        self.assertEqual(first, second)

    def test_several_choices(self):
        answer = self.server.post("/v1/chat/completions", {"messages": STORY, "max_tokens": 4, "n": 3})[1]
        self.assertEqual([choice["index"] for choice in answer["choices"]], [0, 1, 2])
        self.assertEqual(answer["usage"]["completion_tokens"], 12)

    def test_log_probabilities(self):
        body = {"messages": STORY, "max_tokens": 3, "temperature": 0, "logprobs": True, "top_logprobs": 2}
        choice = self.server.post("/v1/chat/completions", body)[1]["choices"][0]
        tokens = choice["logprobs"]["content"]
        self.assertEqual(len(tokens), 3)
        self.assertEqual("".join(token["token"] for token in tokens).strip(), choice["message"]["content"].strip())
        self.assertEqual(tokens[0]["top_logprobs"][0]["token"], tokens[0]["token"])

    def test_a_schema_holds_the_answer(self):
        schema = {"type": "object", "properties": {"fox": {"type": "boolean"}}, "required": ["fox"],
                  "additionalProperties": False}
        answer = self.server.post("/v1/chat/completions", {
            "messages": STORY, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}})
        content = json.loads(answer[1]["choices"][0]["message"]["content"])
        self.assertIsInstance(content["fox"], bool)

    def test_a_call_of_a_tool(self):
        tool = {"type": "function", "function": {"name": "find_fox", "parameters": {
            "type": "object", "properties": {"fast": {"type": "boolean"}}, "required": ["fast"],
            "additionalProperties": False}}}
        for choice in ("required", {"type": "function", "function": {"name": "find_fox"}}):
            answer = self.server.post("/v1/chat/completions",
                                      {"messages": STORY, "tools": [tool], "tool_choice": choice})[1]
            self.assertEqual(answer["choices"][0]["finish_reason"], "tool_calls")
            call = answer["choices"][0]["message"]["tool_calls"][0]
            self.assertEqual(call["function"]["name"], "find_fox")
            self.assertIn(json.loads(call["function"]["arguments"])["fast"], [True, False])

    def test_a_call_that_is_cut_off_is_still_a_call(self):
        tool = {"type": "function", "function": {"name": "find_fox", "parameters": {
            "type": "object", "properties": {"where": {"type": "string", "minLength": 40}}, "required": ["where"],
            "additionalProperties": False}}}
        body = {"messages": STORY, "tools": [tool], "tool_choice": "required", "max_tokens": 30, "temperature": 0}
        choice = self.server.post("/v1/chat/completions", body)[1]["choices"][0]
        self.assertEqual(choice["finish_reason"], "length")
        self.assertEqual(choice["message"]["tool_calls"][0]["function"]["name"], "find_fox")
        chunks, done = self.server.stream(body)
        self.assertTrue(done)
        pieces = [piece for chunk in chunks for piece in chunk["choices"][0]["delta"].get("tool_calls", [])]
        self.assertEqual(pieces[0]["function"]["name"], "find_fox")
        self.assertRaises(ValueError, json.loads, pieces[0]["function"]["arguments"])
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "length")

    def test_the_prompt_alone(self):
        answer = self.server.post("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 0, "echo": True,
                                                      "logprobs": 0})[1]
        self.assertEqual(answer["choices"][0]["text"], "Once upon a time")
        self.assertEqual(len(answer["choices"][0]["logprobs"]["token_logprobs"]), answer["usage"]["prompt_tokens"])
        self.assertEqual(answer["usage"]["completion_tokens"], 0)

    def test_completions(self):
        answer = self.server.post("/v1/completions", {"prompt": ["Once upon", "The fox"], "max_tokens": 5,
                                                      "temperature": 0, "echo": True, "logprobs": 1})[1]
        self.assertEqual(len(answer["choices"]), 2)
        self.assertTrue(answer["choices"][0]["text"].startswith("Once upon"))
        self.assertIsNone(answer["choices"][0]["logprobs"]["token_logprobs"][0])

    def test_embeddings(self):
        answer = self.server.post("/v1/embeddings", {"input": ["a fox", "a lantern"]})[1]
        vectors = [item["embedding"] for item in answer["data"]]
        self.assertAlmostEqual(sum(x * x for x in vectors[0]), 1, places=4)
        self.assertNotEqual(vectors[0], vectors[1])
        packed = self.server.post("/v1/embeddings", {"input": "a fox", "encoding_format": "base64"})[1]
        import base64
        data = base64.b64decode(packed["data"][0]["embedding"])
        self.assertEqual(len(data), 4 * len(vectors[0]))
        self.assertAlmostEqual(struct.unpack("<f", data[:4])[0], vectors[0][0], places=4)

    def test_models_and_tokens(self):
        models = json.loads(self.server.request("GET", "/v1/models")[2])
        self.assertEqual(models["data"][0]["id"], "tales")
        self.assertGreater(models["data"][0]["max_model_len"], 0)
        self.assertEqual(json.loads(self.server.request("GET", "/v1/models/tales")[2])["id"], "tales")
        self.assertEqual(self.server.request("GET", "/v1/models/gpt")[0], 404)
        tokens = self.server.post("/tokenize", {"content": "a fox"})[1]["tokens"]
        self.assertEqual(self.server.post("/detokenize", {"tokens": tokens})[1]["content"].strip(), "a fox")

    def test_the_live_view(self):
        connection = socket.create_connection(("127.0.0.1", self.server.port), timeout=harness.TIMEOUT_S)
        connection.sendall(b"GET /api/tandem/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        stream = connection.makefile("rb")
        live = None
        while not live or live["models"][0]["state"] != "ready":  # it looks once a second
            line = stream.readline()
            if line.startswith(b"data: "):
                live = json.loads(line[6:])
        stream.close()
        connection.close()
        self.assertEqual(live["models"][0]["state"], "ready")
        self.assertEqual(live["devices"][0]["kind"], "cpu")
        self.assertTrue(live["memory_map"])


class Errors(ServerCase):
    def refused(self, body, status, param=None, path="/v1/chat/completions"):
        code, headers, data = self.server.request("POST", path, body)
        self.assertEqual(code, status, data)
        error = json.loads(data)["error"]
        self.assertEqual(headers["x-should-retry"], "false")
        if param:
            self.assertEqual(error["param"], param)
        return error

    def test_what_is_wrong_is_named(self):
        chat = {"messages": STORY}
        self.refused(b"{", 400)
        self.refused(b"[1]", 400)
        self.refused({}, 400, "messages")
        self.refused({"messages": []}, 400, "messages")
        self.refused({"messages": [{"role": "pope", "content": "x"}]}, 400, "messages[0].role")
        self.refused(dict(chat, temperature="hot"), 400, "temperature")
        self.refused(dict(chat, n=1000000), 400, "n")
        self.refused(dict(chat, max_tokens=-1), 400, "max_tokens")
        self.refused(dict(chat, stop=[""] * 3), 400, "stop")
        self.refused(dict(chat, top_logprobs=99, logprobs=True), 400, "logprobs")
        self.refused(dict(chat, tools=[{"type": "function"}]), 400)
        self.refused(dict(chat, model="../../etc/passwd"), 404, "model")
        self.refused({"prompt": [99999999]}, 400, "prompt", "/v1/completions")
        image = [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}]
        self.refused({"messages": [{"role": "user", "content": image}]}, 400)

    def test_a_bad_schema_is_refused_before_anything_is_written(self):
        for schema in ({"type": "no such type"}, {"$ref": "#/nowhere"}, {"type": "string", "pattern": "("}):
            self.refused({"messages": STORY, "stream": True, "response_format": {
                "type": "json_schema", "json_schema": {"schema": schema}}}, 400, "response_format")
        self.refused({"messages": STORY, "grammar": "root ::= ("}, 400)

    def test_a_prompt_beyond_the_context(self):
        error = self.refused({"messages": [{"role": "user", "content": "fox " * 20000}]}, 400)
        self.assertEqual(error["type"], "exceed_context_size_error")
        self.assertEqual(error["code"], "context_length_exceeded")
        self.assertGreater(error["n_prompt_tokens"], error["n_ctx"])
        self.assertIn("exceeds the available context size", error["message"])
        self.assertIn(f"maximum context length is {error['n_ctx']} tokens", error["message"])
        self.assertEqual(error["param"], "messages")
        for path, field in (("/v1/completions", "prompt"), ("/v1/embeddings", "input")):
            status, answer = self.server.post(path, {field: "fox " * 20000})
            self.assertEqual((status, answer["error"]["param"]), (400, field))

    def test_deep_json_is_refused(self):
        self.refused(b'{"messages":' + b"[" * 100000 + b"]" * 100000 + b"}", 400)

    def test_paths_and_methods(self):
        self.assertEqual(self.server.request("GET", "/nothing")[0], 404)
        status, headers, _ = self.server.request("GET", "/v1/chat/completions")
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        self.assertEqual(self.server.request("GET", "/v1/../v1/models")[0], 400)
        self.assertEqual(self.server.request("HEAD", "/health")[2], b"")

    def test_nothing_can_be_deleted_or_made(self):
        for method, path in (("DELETE", "/api/delete"), ("POST", "/api/create"), ("POST", "/api/blobs/sha256:../../x")):
            self.assertIn(self.server.request(method, path, {"model": "tales"})[0], (400, 404), path)

    def test_another_site_is_refused(self):
        self.assertEqual(self.server.request("GET", "/v1/models", headers={"Host": "evil.example"})[0], 403)
        status, headers, _ = self.server.request("GET", "/v1/models", headers={"Origin": "https://evil.example"})
        self.assertEqual(status, 403)
        self.assertNotIn("Access-Control-Allow-Origin", headers)

    def test_bytes_that_are_no_http(self):
        for data in (b"\x16\x03\x01\x00\x00", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n" + b"x: y\r\n" * 20000):
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=harness.TIMEOUT_S) as connection:
                connection.sendall(data)
                if not data.endswith(b"\r\n\r\n") and len(data) < 100:
                    connection.shutdown(socket.SHUT_WR)
                answer = connection.recv(100)
            self.assertTrue(answer == b"" or b" 4" in answer, answer)

    def test_a_body_with_two_lengths_or_in_a_code(self):
        for extra, status in (("Transfer-Encoding: chunked\r\n", b"400"), ("Content-Encoding: gzip\r\n", b"415")):
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=harness.TIMEOUT_S) as connection:
                connection.sendall(raw_request("{}", extra=extra))
                self.assertIn(status, connection.recv(100))

    def test_who_sends_a_large_body_in_vain_still_reads_why(self):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=harness.TIMEOUT_S) as connection:
            connection.sendall(raw_request("x" * (4 << 20), path="/nothing"))
            self.assertIn(b" 404 ", connection.recv(100))

    def test_a_body_that_is_too_large(self):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=harness.TIMEOUT_S) as connection:
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
            self.assertIn(b"413", connection.recv(100))


class Connections(ServerCase):
    def test_a_connection_serves_many_requests(self):
        connection = self.server.connection()
        for _ in range(3):
            connection.request("POST", "/v1/chat/completions",
                               json.dumps({"messages": STORY, "max_tokens": 2, "stream": True}))
            self.assertTrue(connection.getresponse().read().endswith(b"data: [DONE]\n\n"))
            connection.request("POST", "/v1/chat/completions", "{")
            self.assertEqual(connection.getresponse().read()[:9], b'{"error":')
        connection.close()

    def test_requests_sent_ahead(self):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=harness.TIMEOUT_S) as connection:
            body = json.dumps({"messages": STORY, "max_tokens": 2})
            connection.sendall(raw_request(body) + b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            data = b""
            while piece := connection.recv(1 << 16):
                data += piece
        self.assertEqual(data.count(b"HTTP/1.1 200"), 2)
        self.assertTrue(data.endswith(b'{"status":"ok"}'))

    def test_a_body_in_chunks_and_on_demand(self):
        body = json.dumps({"messages": STORY, "max_tokens": 2}).encode()
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=harness.TIMEOUT_S) as connection:
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                               b"Transfer-Encoding: chunked\r\n\r\n")
            self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 100"))
            for byte in body:
                connection.sendall(b"1\r\n" + bytes([byte]) + b"\r\n")
            connection.sendall(b"0\r\n\r\n")
            self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 200"))

    def test_http_1_0_gets_a_stream_without_chunks(self):
        body = json.dumps({"messages": STORY, "max_tokens": 2, "stream": True})
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=harness.TIMEOUT_S) as connection:
            connection.sendall(raw_request(body).replace(b"HTTP/1.1", b"HTTP/1.0"))
            data = b""
            while piece := connection.recv(1 << 16):
                data += piece
        self.assertNotIn(b"chunked", data)
        self.assertTrue(data.endswith(b"data: [DONE]\n\n"))

    def test_clients_that_go_away_leave_nothing_behind(self):
        long = {"messages": STORY, "ignore_eos": True}
        streams = [self.server.open_stream(long) for _ in range(8)]
        for index, connection in enumerate(streams):
            if index % 2:  # a reset, as of a process that was killed
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        waiting = socket.create_connection(("127.0.0.1", self.server.port))
        waiting.sendall(raw_request(json.dumps(long)))  # one that has read nothing yet
        waiting.close()
        self.server.wait_until_idle()

    def test_a_client_that_is_killed(self):
        script = ("import socket,sys,time\nc=socket.create_connection(('127.0.0.1',int(sys.argv[1])))\n"
                  "c.sendall(sys.argv[2].encode())\nc.recv(100)\nprint('x',flush=True)\ntime.sleep(600)\n")
        body = raw_request(json.dumps({"messages": STORY, "ignore_eos": True, "stream": True})).decode()
        client = subprocess.Popen(["python3", "-c", script, str(self.server.port), body], stdout=subprocess.PIPE)
        client.stdout.readline()
        client.kill()
        client.wait()
        client.stdout.close()
        self.server.wait_until_idle()

    def test_odd_clients_do_not_hold_the_others(self):
        half_open = [socket.create_connection(("127.0.0.1", self.server.port)) for _ in range(20)]
        for connection in half_open:
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: loc")
        slow = self.server.open_stream({"messages": STORY, "max_tokens": 400, "ignore_eos": True, "n": 4,
                                        "logprobs": True, "top_logprobs": 20})
        for _ in range(3):
            status, answer = self.server.post("/v1/chat/completions", {"messages": STORY, "max_tokens": 4})
            self.assertEqual(status, 200)
            self.assertEqual(answer["usage"]["completion_tokens"], 4)
        slow.settimeout(harness.TIMEOUT_S)
        data = b""
        while not data.endswith(b"0\r\n\r\n"):  # it still gets everything
            piece = slow.recv(1 << 16)
            if not piece:
                break
            data = (data + piece)[-64:]
        self.assertIn(b"[DONE]", data)
        slow.close()
        for connection in half_open:
            connection.close()


class Keys(ServerCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.mkdtemp(prefix="tandem-e2e-")
        cls.log = os.path.join(directory, "access.log")
        keys = os.path.join(directory, "keys")
        with open(os.open(keys, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write("sk-reader-0123456789abcdef use reader\nsk-other-0123456789abcdef use other\n")
        cls.server = Server("--api-keys", keys, "--concurrent", 1, "--log", cls.log, wait=True)

    def test_a_key_is_needed(self):
        body = {"messages": STORY, "max_tokens": 2}
        for headers in ({}, {"Authorization": "Bearer sk-wrong"}, {"Authorization": "sk-reader-0123456789abcdef"}):
            self.assertIn(self.server.request("POST", "/v1/chat/completions", body, headers)[0], (400, 401), headers)
        for headers in ({"Authorization": "Bearer sk-reader-0123456789abcdef"}, {"x-api-key": "sk-other-0123456789abcdef"}):
            self.assertEqual(self.server.request("POST", "/v1/chat/completions", body, headers)[0], 200, headers)
        both = {"Authorization": "Bearer sk-wrong", "x-api-key": "sk-reader-0123456789abcdef"}
        self.assertIn(self.server.request("GET", "/v1/models", headers=both)[0], (400, 401))
        self.assertEqual(self.server.request("GET", "//v1/models")[0], 400)
        self.assertEqual(self.server.request("GET", "/health")[0], 200)

    def test_cached_prompts_are_not_shared_between_keys(self):
        body = {"messages": [{"role": "user", "content": "Tell me about the fox and the lantern. " * 8}], "max_tokens": 1}

        def cached(key):
            answer = self.server.post("/v1/chat/completions", body, {"x-api-key": f"sk-{key}-0123456789abcdef"})[1]
            return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

        beginning = 16  # that all conversations have in common, and a key with its own earlier ones
        self.assertLess(cached("reader"), beginning)
        self.assertGreater(cached("reader"), beginning)
        self.assertLess(cached("other"), beginning)

    def test_too_much_at_once_is_told_when_to_come_back(self):
        key = "Authorization: Bearer sk-reader-0123456789abcdef\r\n"
        connection = socket.create_connection(("127.0.0.1", self.server.port), timeout=harness.TIMEOUT_S)
        connection.sendall(raw_request(json.dumps({"messages": STORY, "ignore_eos": True, "stream": True}), extra=key))
        connection.recv(100)
        headers = {"Authorization": "Bearer sk-reader-0123456789abcdef"}
        status, answer_headers, _ = self.server.request("POST", "/v1/chat/completions", {"messages": STORY}, headers)
        self.assertEqual(status, 429)
        self.assertGreater(int(answer_headers["Retry-After"]), 0)
        connection.close()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        with open(cls.log, encoding="utf-8") as file:
            entries = [json.loads(line) for line in file]
        assert any(entry["status"] == 200 and entry.get("key") == "reader" for entry in entries), entries
        assert all("sk-" not in json.dumps(entry) for entry in entries), entries


class Starting(harness.Case):
    def fails(self, *args):
        done = self.tandem("serve", *args)
        self.assertEqual(done.returncode, 1)
        lines = [line for line in done.stderr.decode().splitlines() if line.startswith("tandem:")]
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0]

    def test_what_cannot_be_is_said_in_one_line(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.assertIn(f"port {port}", self.fails("--port", port))
        self.assertIn("--api-keys", self.fails("--host", "0.0.0.0"))
        self.assertIn("no-such.gguf", self.fails("no-such.gguf"))
        self.assertIn("no-such-folder", self.fails("--models", "no-such-folder"))
        certificate = self.write("bad.pem", "not a certificate")
        self.assertIn("bad.pem", self.fails("--port", 0, "--certificate", certificate, "--private-key", certificate))
        self.assertIn("--private-key", self.fails("--certificate", certificate))

    def test_models_of_a_folder_load_when_they_are_asked_for(self):
        os.mkdir(self.path("models"))
        os.symlink(os.path.join(os.path.dirname(harness.DATA), "..", "assets", "tales-q8_0.gguf"),
                   self.path("models", "small.gguf"))
        self.write("secret.gguf", "outside")
        server = Server("--models", self.path("models"), "--keep-alive", 0)
        states = {model["id"]: model["state"] for model in json.loads(server.request("GET", "/v1/models")[2])["data"]}
        self.assertEqual(states, {"tales": "ready", "small": "unloaded"})
        body = {"model": "small", "messages": STORY, "max_tokens": 2}
        self.assertEqual(server.post("/v1/chat/completions", body)[0], 200)
        for name in ("../secret", "secret", "models/../../secret", "/etc/passwd"):
            self.assertEqual(server.post("/v1/chat/completions", dict(body, model=name))[0], 404)
        self.assertEqual(server.stop(), 0)

    def test_a_full_disk_for_the_log_disturbs_nobody(self):
        server = Server("--log", "/dev/full")
        for _ in range(3):
            self.assertEqual(server.post("/v1/chat/completions", {"messages": STORY, "max_tokens": 2})[0], 200)
        self.assertEqual(server.stop(), 0)

    def test_the_log_has_sizes_for_people(self):
        server = Server()
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(harness.TIMEOUT_S), 0)
        end = time.monotonic() + harness.TIMEOUT_S
        while not any("stopped" in line for line in server.lines) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertRegex("".join(server.lines), r"loaded tales in [^\n]*: context \d+, \d+\.\d+ MiB\n")
        server.process.stderr.close()

    def test_answers_under_way_are_written_before_the_server_ends(self):
        server = Server()
        stream = server.open_stream({"messages": STORY, "max_tokens": 200, "ignore_eos": True})
        server.process.send_signal(signal.SIGTERM)
        data = b""
        while piece := stream.recv(1 << 16):
            data += piece
        stream.close()
        self.assertIn(b"[DONE]", data)
        self.assertEqual(server.process.wait(harness.TIMEOUT_S), 0)
        server.process.stderr.close()

    def test_a_server_ends_well_wherever_its_loading_is(self):
        # That it waits for no loader is a unit test, where the loader can be held: HttpServer.EndsWithoutWaitingForAModel.
        for device in ("cpu", "vulkan") if harness.VULKAN else ("cpu",):
            for least_progress in (0, 0.5):  # while the file is read, and while the device takes the weights
                server = Server(harness.TALES_F16, "--device", device, wait=False)
                while json.loads(server.request("GET", "/health")[2]).get("progress", 1) < least_progress:
                    pass
                self.assertEqual(server.stop(), 0, (device, least_progress, server.lines))

    def test_tls(self):
        import ssl
        key, certificate = self.path("key.pem"), self.path("cert.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                        "-days", "2", "-subj", "/CN=localhost"], check=True, capture_output=True)
        server = Server("--certificate", certificate, "--private-key", key, wait=False)
        context = ssl.create_default_context(cafile=certificate)
        context.check_hostname = False
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=harness.TIMEOUT_S)
        connection.request("POST", "/v1/chat/completions",
                           json.dumps({"messages": STORY, "max_tokens": 2, "stream": True}))
        self.assertTrue(connection.getresponse().read().endswith(b"data: [DONE]\n\n"))
        connection.close()
        with socket.create_connection(("127.0.0.1", server.port)) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    harness.main()
