"""tandem serve: models among several clients: shares, files that are bad or get lost, who may unload, every field."""

import json
import os
import shutil
import time

import harness
from server_test import STORY, Server

CHAT = "/v1/chat/completions"
TALES = os.path.join(os.path.dirname(harness.DATA), "..", "assets", "tales-q8_0.gguf")


def with_key(key):
    return {"Authorization": f"Bearer {key}"}


class Shares(harness.Case):
    def test_a_small_key_does_not_wait_for_a_greedy_one(self):
        keys = self.write("keys", "sk-greedy-0123456789 use greedy\nsk-small-0123456789 use small\n")
        os.chmod(keys, 0o600)
        server = Server("--api-keys", keys, "--parallel", 16, "--context", 2048)
        greedy = []
        for i in range(4):  # four times what runs at once, each for two thousand steps
            connection = server.connection()
            body = {"prompt": f"Once {i}", "n": 16, "max_tokens": 2000, "ignore_eos": True, "stream": True}
            connection.request("POST", "/v1/completions", json.dumps(body), with_key("sk-greedy-0123456789"))
            greedy.append(connection)
        end = time.monotonic() + harness.TIMEOUT_S

        def gauge(name):
            metrics = server.request("GET", "/metrics", headers=with_key("sk-small-0123456789"))[2].decode()
            return sum(float(line.rsplit(" ", 1)[1]) for line in metrics.splitlines() if line.startswith(name + "{"))

        while gauge("tandem_requests_running") < 16 or gauge("tandem_requests_waiting") == 0:
            self.assertLess(time.monotonic(), end)
        steps = gauge("tandem_engine_steps_total")
        status, _, _ = server.request("POST", "/v1/completions", {"prompt": "a cat", "max_tokens": 4},
                                      with_key("sk-small-0123456789"))
        self.assertEqual(status, 200)
        # Without a share of its own it would wait for the end of the first sixteen answers.
        self.assertLess(gauge("tandem_engine_steps_total") - steps, 1000)
        self.assertGreater(gauge("tandem_requests_waiting"), 0)
        for connection in greedy:
            connection.close()
        self.assertEqual(server.stop(), 0)


class Files(harness.Case):
    def folder(self, **files):
        os.mkdir(self.path("models"))
        for name, size in files.items():
            path = self.path("models", name + ".gguf")
            shutil.copy(TALES, path)
            if size is not None:
                os.truncate(path, size)
        return self.path("models")

    def ask(self, server, model):
        return server.post(CHAT, {"model": model, "messages": STORY, "max_tokens": 2})

    def test_a_file_that_cannot_be_loaded_is_not_offered(self):
        folder = self.folder(good=None, short=100_000)
        self.write("models/text.gguf", "no model at all")
        server = Server("--models", folder)
        listed = [model["id"] for model in json.loads(server.request("GET", "/v1/models")[2])["data"]]
        self.assertEqual(listed, ["tales", "good"])
        tags = [model["name"] for model in json.loads(server.request("GET", "/api/tags")[2])["models"]]
        self.assertEqual(tags, ["tales", "good"])
        for name, reason in (("short", "incomplete"), ("text", "GGUF")):
            status, answer = self.ask(server, name)
            self.assertEqual((status, answer["error"]["code"]), (422, "model_unusable"))
            self.assertIn(f"'{name}'", answer["error"]["message"])
            self.assertIn(reason, answer["error"]["message"])
            self.assertNotIn(self.directory, answer["error"]["message"])
            self.assertTrue(any(self.path("models", name + ".gguf") in line for line in server.lines), server.lines)
        self.assertEqual(self.ask(server, "good")[0], 200)
        shutil.copy(TALES, self.path("models", "short.gguf"))  # it is put right
        self.assertEqual(self.ask(server, "short")[0], 200)
        os.remove(self.path("models", "good.gguf"))
        os.remove(self.path("models", "text.gguf"))
        listed = [model["id"] for model in json.loads(server.request("GET", "/v1/models")[2])["data"]]
        self.assertIn("good", listed, "it is still loaded")
        self.assertEqual(self.ask(server, "text")[0], 404)
        self.assertEqual(server.stop(), 0)

    def test_a_file_that_gets_shorter_takes_its_model_and_no_other(self):
        folder = self.folder(lost=None, kept=None)
        server = Server(os.path.join(folder, "lost.gguf"), os.path.join(folder, "kept.gguf"))
        for model in ("lost", "kept"):
            self.assertEqual(self.ask(server, model)[0], 200)
        body = {"model": "kept", "messages": STORY, "max_tokens": 300, "ignore_eos": True}
        stream = server.open_stream(body)  # goes on meanwhile
        os.truncate(os.path.join(folder, "lost.gguf"), 4096)
        status, answer = self.ask(server, "lost")
        self.assertEqual(status, 500, answer)
        self.assertNotIn(self.directory, json.dumps(answer))
        self.assertEqual(self.ask(server, "kept")[0], 200)
        data = b""
        while b"[DONE]" not in data:
            piece = stream.recv(1 << 16)
            self.assertTrue(piece, data)
            data += piece
        stream.close()
        self.assertTrue(any("lost.gguf: the file got shorter" in line for line in server.lines), server.lines)
        shutil.copy(TALES, os.path.join(folder, "new.gguf"))
        os.replace(os.path.join(folder, "new.gguf"), os.path.join(folder, "lost.gguf"))
        self.assertEqual(self.ask(server, "lost")[0], 200, "it is loaded again")
        self.assertEqual(server.stop(), 0)


class Unloading(harness.Case):
    def test_only_an_admin_has_a_say_in_how_long_a_model_stays(self):
        keys = self.write("keys", "sk-use-0123456789 use user\nsk-admin-0123456789 use,admin chief\n")
        os.chmod(keys, 0o600)
        server = Server("--api-keys", keys)
        user, admin = with_key("sk-use-0123456789"), with_key("sk-admin-0123456789")

        def loads():
            return sum("loading tales" in line for line in server.lines)

        def unloads():
            return sum("unloading tales" in line for line in server.lines)

        body = {"model": "tales", "messages": STORY, "max_tokens": 1, "keep_alive": 0}
        requests = ((CHAT, body), ("/api/chat", dict(body, keep_alive="0s")), ("/api/generate", {
            "model": "tales", "prompt": "a cat", "keep_alive": 0, "stream": False}), ("/api/embed", {
                "model": "tales", "input": "a cat", "keep_alive": 0}))
        for path, request in requests:
            request = {key: value for key, value in request.items() if path == CHAT or key != "max_tokens"}
            self.assertEqual(server.request("POST", path, request, user)[0], 200, path)
        self.assertEqual(server.post("/api/generate", {"model": "tales", "keep_alive": 0}, user)[0], 403)
        self.assertEqual(server.post("/api/generate", {"model": "tales", "keep_alive": 0.001}, user)[0], 200)
        self.assertEqual(server.post(CHAT, dict(body, keep_alive=-1), user)[0], 200)
        self.assertEqual((loads(), unloads()), (1, 0))
        self.assertEqual(server.post("/api/generate", {"model": "tales", "keep_alive": 0}, admin)[0], 200)
        end = time.monotonic() + harness.TIMEOUT_S
        while unloads() == 0:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        self.assertEqual(server.stop(), 0)


class Constraints(harness.Case):
    """What asks for a form works, whatever it is called, or is refused."""

    def setUp(self):
        super().setUp()
        self.server = Server()
        self.addCleanup(self.server.stop)

    def text(self, **fields):
        status, answer = self.server.post(CHAT, {"messages": STORY, "max_tokens": 60, "seed": 1, **fields})
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]["message"]["content"]

    def test_every_name_of_a_constraint_holds_the_answer(self):
        schema = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 3, "maximum": 5}},
                  "required": ["age"], "additionalProperties": False}
        for fields in ({"guided_json": schema}, {"guided_json": json.dumps(schema)}, {"json_schema": schema},
                       {"structured_outputs": {"json": schema}},
                       {"response_format": {"type": "json_object", "schema": schema}},
                       {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}):
            self.assertIn(json.loads(self.text(**fields))["age"], (3, 4, 5), fields)
        for fields in ({"guided_regex": "[0-9]{3}-(a|b){1,4}c"}, {"guided_regex": "^[0-9]{3}-(a|b){1,4}c$"},
                       {"structured_outputs": {"regex": "[0-9]{3}-(a|b){1,4}c"}}):
            self.assertRegex(self.text(**fields, temperature=0.5), r"\A[0-9]{3}-[ab]{1,4}c\Z")
        for fields in ({"guided_choice": ["yes \"indeed\"", "no"]},
                       {"structured_outputs": {"choice": ["yes \"indeed\"", "no"]}}):
            self.assertIn(self.text(**fields), ("yes \"indeed\"", "no"))
        for fields in ({"guided_grammar": 'root ::= "a" "b"{1,3} "c"'},
                       {"structured_outputs": {"grammar": 'root ::= "abc"'}}):
            self.assertRegex(self.text(**fields), r"\Aab+c\Z")
        for fields in ({"guided_regex": "("}, {"guided_choice": []}, {"guided_json": 5}, {"guided_grammar": "root"},
                       {"guided_json": schema, "grammar": 'root ::= "a"'}, {"structured_outputs": {"json": schema,
                                                                                                   "choice": ["a"]}}):
            self.assertEqual(self.server.post(CHAT, {"messages": STORY, **fields})[0], 400, fields)

    def test_tokens_that_end_an_answer(self):
        body = {"prompt": "Once upon a time", "max_tokens": 30, "temperature": 0}
        tokens = self.server.post("/v1/completions", dict(body, ignore_eos=True))[1]
        text = tokens["choices"][0]["text"]
        pieces = self.server.post("/tokenize", {"content": text, "with_pieces": True})[1]["tokens"]
        self.assertEqual("".join(token["piece"] for token in pieces).strip(), text.strip())
        stop = pieces[5]["id"]
        cut = self.server.post("/v1/completions", dict(body, stop_token_ids=[stop]))[1]
        self.assertEqual(cut["choices"][0]["finish_reason"], "stop")
        self.assertLess(cut["usage"]["completion_tokens"], 8)
        least = self.server.post("/v1/completions", dict(body, stop_token_ids=[stop], min_tokens=20))[1]
        self.assertGreaterEqual(least["usage"]["completion_tokens"], 20)
        few = self.server.post("/v1/completions", {"prompt": "Once", "n_predict": 3, "ignore_eos": True})[1]
        self.assertEqual(few["usage"]["completion_tokens"], 3)
        self.assertEqual(self.server.post("/v1/completions", dict(body, stop_token_ids=[10**9]))[0], 400)


if __name__ == "__main__":
    harness.main()
