"""tandem serve as clients of Ollama, Anthropic and OpenAI's /v1/responses see it, and those who watch it."""

import json
import shutil
import subprocess
import time

import harness
from server_test import STORY, ServerCase

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"],
          "additionalProperties": False}


def events_of(data):
    """The data of a stream's events; each has the name of its type."""
    events = []
    for block in data.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            event = json.loads(fields["data"])
            assert event["type"] == fields["event"], block
            events.append(event)
    return events


class Ollama(ServerCase):
    def test_a_chat_comes_line_by_line(self):
        body = {"model": "tales:latest", "messages": STORY, "options": {"num_predict": 8, "seed": 1}}
        status, headers, data = self.server.request("POST", "/api/chat", body)
        self.assertEqual((status, headers["Content-Type"]), (200, "application/x-ndjson"))
        lines = [json.loads(line) for line in data.splitlines()]
        self.assertEqual([line["done"] for line in lines], [False] * (len(lines) - 1) + [True])
        self.assertEqual(lines[-1]["done_reason"], "length")
        self.assertEqual(lines[-1]["eval_count"], 8)
        for field in ("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_duration"):
            self.assertIsInstance(lines[-1][field], int)
        status, whole = self.server.post("/api/chat", dict(body, stream=False))
        self.assertEqual(whole["message"]["content"], "".join(line["message"]["content"] for line in lines))

    def test_a_schema_holds_the_answer(self):
        status, answer = self.server.post("/api/generate", {"model": "tales", "prompt": "x", "format": SCHEMA,
                                                            "stream": False})
        self.assertEqual(status, 200)
        self.assertIn(json.loads(answer["response"])["n"], range(10))

    def test_models(self):
        names = [model["name"] for model in json.loads(self.server.request("GET", "/api/tags")[2])["models"]]
        self.assertIn("tales", names)
        self.assertEqual(self.server.post("/api/show", {"name": "tales"})[1]["details"]["family"], "gemma3")
        self.assertEqual(self.server.post("/api/show", {"name": "../tales"})[0], 404)
        self.assertIn("version", json.loads(self.server.request("GET", "/api/version")[2]))
        self.assertEqual(self.server.post("/api/pull", {"model": "tales"}), (200, {"status": "success"}))
        status, error = self.server.post("/api/pull", {"model": "elsewhere"})
        self.assertEqual(status, 404)
        self.assertIn("hf.co/org/name", error["error"])
        self.assertEqual(self.server.request("GET", "/")[2], b"Ollama is running")

    def test_a_model_is_unloaded_and_loaded(self):
        self.assertEqual(self.server.post("/api/chat", {"model": "tales", "keep_alive": 0})[1]["done_reason"], "unload")
        end = time.monotonic() + harness.TIMEOUT_S  # it goes when nobody uses it any more
        while json.loads(self.server.request("GET", "/api/ps")[2])["models"]:
            self.assertLess(time.monotonic(), end)
        self.assertEqual(self.server.post("/api/generate", {"model": "tales"})[1]["done_reason"], "load")
        self.assertEqual(len(json.loads(self.server.request("GET", "/api/ps")[2])["models"]), 1)

    def test_embeddings(self):
        answer = self.server.post("/api/embed", {"model": "tales", "input": ["a fox", "a dog"]})[1]
        self.assertEqual(len(answer["embeddings"]), 2)
        self.assertAlmostEqual(sum(x * x for x in answer["embeddings"][0]), 1, places=4)
        older = self.server.post("/api/embeddings", {"model": "tales", "prompt": "a fox"})[1]
        self.assertEqual(len(older["embedding"]), len(answer["embeddings"][0]))

    def test_errors(self):
        status, answer = self.server.post("/api/chat", {"model": "tales", "messages": [{"role": "king"}]})
        self.assertEqual((status, list(answer)), (400, ["error"]))
        for method, path, expected in (("POST", "/api/push", 404), ("GET", "/api/nothing", 404), ("GET", "/api/chat", 405)):
            status, _, data = self.server.request(method, path)
            self.assertEqual((status, type(json.loads(data)["error"])), (expected, str), path)


class Anthropic(ServerCase):
    BODY = {"model": "tales", "max_tokens": 8, "messages": STORY}

    def test_a_message(self):
        status, message = self.server.post("/v1/messages", self.BODY)
        self.assertEqual(status, 200)
        self.assertEqual(message["stop_reason"], "max_tokens")
        self.assertEqual(message["content"][0]["type"], "text")
        usage = message["usage"]
        count = self.server.post("/v1/messages/count_tokens", {"model": "tales", "messages": STORY})[1]["input_tokens"]
        self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"], count)

    def test_a_stream(self):
        status, _, data = self.server.request("POST", "/v1/messages", dict(self.BODY, stream=True, temperature=0))
        self.assertEqual(status, 200)
        events = events_of(data)
        self.assertEqual([event["type"] for event in events if event["type"] != "content_block_delta"],
                         ["message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"])
        text = "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")
        whole = self.server.post("/v1/messages", dict(self.BODY, temperature=0))[1]
        self.assertEqual(text, whole["content"][0]["text"])

    def test_a_call_of_a_tool(self):
        body = dict(self.BODY, max_tokens=200, tools=[{"name": "guess", "input_schema": SCHEMA}],
                    tool_choice={"type": "any"})
        message = self.server.post("/v1/messages", body)[1]
        self.assertEqual(message["stop_reason"], "tool_use")
        call = message["content"][0]
        self.assertEqual((call["type"], call["name"]), ("tool_use", "guess"))
        self.assertIn(call["input"]["n"], range(10))
        body["messages"] = STORY + [{"role": "assistant", "content": [call]}, {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call["id"], "content": "right"}]}]
        self.assertEqual(self.server.post("/v1/messages", dict(body, tool_choice={"type": "none"}))[0], 200)

    def test_errors(self):
        status, error = self.server.post("/v1/messages", {"model": "tales", "messages": STORY})
        self.assertEqual((status, error["type"], error["error"]["type"]), (400, "error", "invalid_request_error"))
        status, error = self.server.post("/v1/messages", dict(self.BODY, model="none"))
        self.assertEqual((status, error["error"]["type"]), (404, "not_found_error"))


class Responses(ServerCase):
    def test_a_response(self):
        status, response = self.server.post("/v1/responses", {"input": STORY[0]["content"], "max_output_tokens": 8})
        self.assertEqual((status, response["status"]), (200, "incomplete"))
        self.assertEqual(response["output"][0]["content"][0]["type"], "output_text")

    def test_a_stream(self):
        body = {"input": "x", "stream": True, "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}}
        events = events_of(self.server.request("POST", "/v1/responses", body)[2])
        self.assertEqual([event["sequence_number"] for event in events], list(range(len(events))))
        self.assertEqual(events[0]["type"], "response.created")
        self.assertEqual(events[-1]["type"], "response.completed")
        text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
        self.assertEqual(events[-1]["response"]["output"][0]["content"][0]["text"], text)
        self.assertIn(json.loads(text)["n"], range(10))

    def test_a_call_of_a_tool(self):
        body = {"input": "x", "tools": [{"type": "function", "name": "guess", "parameters": SCHEMA}],
                "tool_choice": "required"}
        response = self.server.post("/v1/responses", body)[1]
        call = response["output"][0]
        self.assertEqual((call["type"], call["name"]), ("function_call", "guess"))
        self.assertIn(json.loads(call["arguments"])["n"], range(10))

    def test_nothing_is_stored(self):
        status, error = self.server.post("/v1/responses", {"input": "x", "previous_response_id": "resp_1"})
        self.assertEqual((status, error["error"]["param"]), (400, "previous_response_id"))

    def test_what_was_asked_comes_back(self):
        body = {"input": "hi", "instructions": "Be brief.", "metadata": {"thread": "7"}, "max_output_tokens": 2}
        response = self.server.post("/v1/responses", body)[1]
        self.assertEqual((response["instructions"], response["metadata"]), ("Be brief.", {"thread": "7"}))


class Watching(ServerCase):
    ARGS = ("--log", "/dev/full")

    def test_a_full_disk_for_the_log_disturbs_nobody(self):
        for _ in range(20):
            self.assertEqual(self.server.post("/v1/messages", Anthropic.BODY)[0], 200)

    def test_the_description(self):
        description = json.loads(self.server.request("GET", "/openapi.json")[2])
        self.assertIn("/v1/messages", description["paths"])

    def test_metrics(self):
        self.server.post("/v1/messages", Anthropic.BODY)
        metrics = self.server.request("GET", "/metrics")[2].decode()
        self.assertIn('\nvllm:num_requests_waiting{model_name="tales"} 0\n', metrics)
        self.assertIn('\ntandem_time_to_first_token_seconds_count{model_name="tales"}', metrics)
        if shutil.which("promtool"):
            own = "".join(line + "\n" for line in metrics.splitlines() if "vllm:" not in line)  # it dislikes colons
            lint = subprocess.run(["promtool", "check", "metrics"], input=own, text=True, capture_output=True)
            self.assertEqual((lint.returncode, lint.stderr), (0, ""))

    def test_the_load_for_envoy(self):
        headers = self.server.request("POST", "/v1/messages", Anthropic.BODY,
                                      {"endpoint-load-metrics-format": "TEXT"})[1]
        self.assertIn("named_metrics.kv_cache_usage_perc=", headers["endpoint-load-metrics"])


if __name__ == "__main__":
    harness.main()
