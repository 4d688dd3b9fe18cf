"""tandem bench beyond its table (saved runs, pages, loading, other servers) and tandem top."""

import http.server
import itertools
import json
import socket
import subprocess
import threading

import harness
from server_test import Server

SMALL = ["--decode", "1,2", "--context", "8", "--prompt", "12", "--device", "cpu"]


class SavedRuns(harness.Case):
    def test_two_runs_are_compared_row_by_row(self):
        for name in "a.json", "b.json":
            self.write(name, self.ok("bench", *SMALL, "--repeat", "10", "--json"))
        comparison = self.json("bench", "--compare", self.path("a.json"), self.path("b.json"), "--json")
        self.assertEqual([row["what"] for row in comparison["rows"]],
                         ["decode, 1 sequence, context 8", "decode, 2 sequences, context 8", "prompt of 12"])
        for row in comparison["rows"]:
            self.assertLessEqual(row["low"], row["ratio"])
            self.assertLessEqual(row["ratio"], row["high"])
        # Twice as slow is seen however a machine jitters, where each repetition is.
        with open(self.path("a.json"), encoding="utf-8") as file:
            run = json.load(file)
        for row in run["rows"]:
            row["ms_each"] = [10 + i % 3 / 10 for i in range(10)]
        self.write("a.json", json.dumps(run))
        for row in run["rows"]:
            row["ms_each"] = [2 * each for each in row["ms_each"]]
        run["model"] = "other"
        self.write("b.json", json.dumps(run))
        table = self.ok("bench", "--compare", self.path("a.json"), self.path("b.json"))
        self.assertEqual(table.count("B is slower"), 3)
        self.assertIn("not alike: models: tales and other", table)

    def test_few_repetitions_say_nothing(self):
        self.write("a.json", self.ok("bench", *SMALL, "--repeat", "2", "--json"))
        self.assertEqual(self.ok("bench", "--compare", self.path("a.json"), self.path("a.json")).count("too few"), 3)

    def test_a_page_of_charts(self):
        self.write("run.json", self.ok("bench", *SMALL, "--repeat", "2", "--json", "--html", self.path("page.html")))
        self.ok("bench", "--from", self.path("run.json"), "--html", self.path("again.html"))
        with open(self.path("page.html"), encoding="utf-8") as page, open(self.path("again.html"), encoding="utf-8") as again:
            html = page.read()
            self.assertEqual(html, again.read())
        for text in "<svg", "Roofline", "Decode by batch", "Time by operation", "share of the limit", "tokens/s":
            self.assertIn(text, html)
        self.assertNotIn("<script", html)

    def test_errors(self):
        self.write("list.json", "[1]")
        self.write("run.json", '{"rows": []}')
        for name in "list.json", "run.json", "none.json":
            self.assertIn(name, self.fails("bench", "--compare", self.path(name), self.path(name)))
        self.assertIn("--html", self.fails("bench", "--from", self.path("run.json")))
        self.fails("bench", "--compare", self.path("run.json"), code=2)


class Load(harness.Case):
    def test_loading_is_measured_by_its_parts(self):
        devices = ["cpu"] + (["vulkan"] if harness.VULKAN else [])
        for device in devices:
            report = self.json("bench", harness.TALES_F16, "--load", "--repeat", "1", "--device", device, "--json")
            self.assertEqual(report["weight_type"], "f16")
            self.assertGreater(report["disk_bytes_per_s"], 0)
            self.assertEqual(report["upload_bytes_per_s"] is None, device == "cpu")
            self.assertGreater(report["warm"]["weights_s"][0], 0)
            self.assertGreater(report["warm"]["ready_s"][0], report["warm"]["open_s"])
            self.assertEqual(report["warm"]["limit"] is None, device == "cpu" and report["past_memory"])
        table = self.ok("bench", harness.TALES_F16, "--load", "--repeat", "1", "--device", "cpu")
        self.assertIn("from memory", table)
        self.assertIn("inside the program", self.fails("bench", "tales", "--load"))


def sse(*events):
    return "".join(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events).encode()


def piece(text, finish=None):
    return {"choices": [{"delta": {"content": text} if text else {}, "finish_reason": finish}]}


USAGE = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}}
GOOD = sse(piece("a"), piece("b"), piece("c", "stop"), USAGE, "[DONE]")
# What the requests meet, one after another: (status, body, whether the line is cut before its end).
SCRIPT = [(200, GOOD, False), (200, GOOD, True), (429, b"{}", False), (500, b"", False),
          (200, sse(piece("a"), piece("b", "stop"), "[DONE]"), False),
          (200, sse(piece("a"), {"error": {"message": "the device failed"}}), False), (200, b"<html>no</html>\n", False),
          (200, sse(piece("a"), "{broken"), False), (200, sse(piece("", "stop"), "[DONE]"), False),
          (200, sse(piece("a", "stop"), dict(USAGE, usage=dict(USAGE["usage"], total_tokens=99)), "[DONE]"), False)]


class Scripted(http.server.ThreadingHTTPServer):
    """A server of completions that keeps to SCRIPT, and wants a key if it has one."""

    def __init__(self, key=None):
        super().__init__(("127.0.0.1", 0), ScriptedHandler)
        self.key = key
        self.asked = []
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class ScriptedHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body, is_cut=False):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:len(body) // 2] if is_cut else body)
        self.close_connection = is_cut

    def is_allowed(self):
        if self.server.key is None or self.headers.get("Authorization") == f"Bearer {self.server.key}":
            return True
        self.answer(401, b"{}")
        return False

    def do_GET(self):
        if self.is_allowed():
            self.answer(200, b'{"data": [{"id": "scripted"}]}')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.is_allowed():
            return
        with self.server.lock:
            self.server.asked.append(body)
            step = SCRIPT[(len(self.server.asked) - 1) % len(SCRIPT)]
        self.answer(*step)


class Against(harness.Case):
    def scripted(self, key=None):
        server = Scripted(key)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server, f"http://127.0.0.1:{server.server_address[1]}"

    def test_every_fault_of_a_server_is_counted_by_its_name(self):
        server, url = self.scripted()
        done = self.tandem("bench", "--against", url, "--requests", len(SCRIPT), "--tokens", 5, "--ttft-ms", 60000, "--json")
        self.assertEqual(done.returncode, 1)
        report = json.loads(done.stdout)
        self.assertEqual(report["model"], "scripted")
        row = report["rows"][0]
        self.assertEqual((row["requests"], row["answered"], row["good"]), (10, 3, 3))
        self.assertEqual((row["without_usage"], row["wrong_usage"]), (1, 1))
        self.assertEqual(row["errors"], {
            "the stream was cut": 1, "status 429": 1, "status 500": 1, "an error in the stream: the device failed": 1,
            "no stream of events: <html>no</html>": 1, "an event that is no object: {broken": 1, "an empty answer": 1})
        prompts = {asked["messages"][0]["content"] for asked in server.asked}
        self.assertEqual(len(prompts), len(SCRIPT), "no prompt is cached for another")
        self.assertTrue(all(asked["max_tokens"] == 5 and asked["stream"] for asked in server.asked))

    def test_a_key_is_sent_from_a_file(self):
        _, url = self.scripted(key="secret")
        self.assertIn("--key", self.fails("bench", "--against", url, "--requests", "1"))
        key = self.write("key", "secret\n")
        self.assertEqual(self.json("bench", "--against", url + "/v1/", "--requests", "1", "--key", key, "--json")["rows"][0]
                         ["answered"], 1)
        wrong = self.write("wrong", "other")
        self.assertIn("does not accept", self.fails("bench", "--against", url, "--requests", "1", "--key", wrong))

    def test_a_server_that_is_not_there(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self.assertIn(url, self.fails("bench", "--against", url, "--model", "m", "--requests", "2"))
            self.assertIn("does not answer", self.fails("top", url, "--once"))
        self.assertIn("no address", self.fails("bench", "--against", "ftp://x"))


class Ours(harness.Case):
    """Our own server, measured and watched."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("tales", "--device", "cpu", "--context", "256")
        cls.url = f"127.0.0.1:{cls.server.port}"

    @classmethod
    def tearDownClass(cls):
        cls.server.process.terminate()
        cls.server.process.wait()
        cls.server.process.stderr.close()

    def test_under_load(self):
        load = ["--words", "8", "--tokens", "8", "--requests", "6"]
        for arguments in ["--concurrency", "1,3"], ["--rate", "50,100"]:
            report = self.json("bench", "--against", self.url, *load, *arguments, "--ttft-ms", "60000", "--json")
            for row in report["rows"]:
                self.assertEqual((row["answered"], row["errors"], row["without_usage"], row["wrong_usage"], row["good"]),
                                 (6, {}, 0, 0, 6))
                times = row["first_token_ms"]
                self.assertTrue(0 < times["p50"] <= times["p90"] <= times["p99"])
                self.assertLessEqual(row["first_token_ms"]["p50"], row["answer_ms"]["p50"])
        table = self.ok("bench", "--against", self.url, *load, "--tpot-ms", "0.000001")
        self.assertIn("1 user", table)
        self.assertRegex(table, r"\s0 %\n")
        missing = self.fails("bench", "--against", self.url, *load, "--model", "none")
        self.assertIn("none of 6 requests was answered: status 404", missing)

    def test_watched(self):
        look = self.json("top", self.url, "--once", "--interval", "0.05", "--json")
        self.assertEqual(look["health"], "ok")
        self.assertEqual([model["name"] for model in look["models"]], ["tales"])
        self.assertEqual([device["name"] for device in look["devices"]], ["cpu"])
        table = self.ok("top", self.url, "--once", "--interval", "0.05")
        for text in "MODEL", "tales", "DEVICE", "RUNNING":
            self.assertIn(text, table)

    def test_watched_while_it_works(self):
        watch = subprocess.Popen([harness.BINARY, "top", self.url, "--interval", "0.2", "--json"], stdout=subprocess.PIPE,
                                 env=self.environment())
        self.addCleanup(watch.stdout.close)
        self.addCleanup(watch.wait)
        self.addCleanup(watch.kill)
        self.assertEqual(json.loads(watch.stdout.readline())["health"], "ok")
        self.ok("bench", "--against", self.url, "--words", "8", "--tokens", "16", "--requests", "8")
        tokens_per_s, first_token_ms = 0, 0
        for line in itertools.islice(watch.stdout, 50):  # the next looks see tokens, and not each of them first ones
            model = json.loads(line)["models"][0]
            tokens_per_s = max(tokens_per_s, model["tokens_per_s"])
            first_token_ms = max(first_token_ms, model["first_token_ms"]["p50"])
            if tokens_per_s > 0 and first_token_ms > 0:
                break
        self.assertGreater(tokens_per_s, 0)
        self.assertGreater(first_token_ms, 0)
        watch.terminate()
        self.assertEqual(watch.wait(harness.TIMEOUT_S), 143)


class GoesAndComes(harness.Case):
    def test_a_server_that_goes_away_is_waited_for(self):
        server = Server("tales", "--device", "cpu", "--context", "64")
        watch = subprocess.Popen([harness.BINARY, "top", f"127.0.0.1:{server.port}", "--interval", "0.1", "--json"],
                                 stdout=subprocess.PIPE, env=self.environment())
        self.addCleanup(watch.stdout.close)
        self.addCleanup(watch.wait)
        self.addCleanup(watch.kill)

        def wait_for(health):
            for line in watch.stdout:
                if json.loads(line)["health"] == health:
                    return
            self.fail(f"ended without {health}")

        wait_for("ok")
        port = server.port
        server.process.kill()
        server.process.wait()
        server.process.stderr.close()
        wait_for("away")
        again = Server("tales", "--device", "cpu", "--context", "64", port=port)
        self.addCleanup(again.process.stderr.close)
        self.addCleanup(again.process.wait)
        self.addCleanup(again.process.kill)
        wait_for("ok")

    def test_on_a_terminal_it_is_drawn_in_place(self):
        server = Server("tales", "--device", "cpu", "--context", "64")
        self.addCleanup(server.process.stderr.close)
        self.addCleanup(server.process.wait)
        self.addCleanup(server.process.kill)
        terminal = harness.Terminal(["top", f"127.0.0.1:{server.port}", "--interval", "0.1"], self.environment())
        self.addCleanup(terminal.kill)
        terminal.expect("MODEL")
        terminal.expect("MODEL")
        terminal.interrupt()
        self.assertEqual(terminal.end(), 130)
        self.assertIn(b"\x1b[H", terminal.raw)


if __name__ == "__main__":
    harness.main()
