"""Copies of the server behind Debian's HAProxy with the configuration of packaging/cluster, and what else is there."""

import glob
import http.client
import json
import os
import re
import signal
import subprocess
import threading
import time
import unittest

import balancer
import harness
from server_test import Server

NEEDED = "haproxy and python3-yaml"
try:
    import yaml
    HAVE_ALL = balancer.find("haproxy") is not None
except ImportError:
    HAVE_ALL = False
LEAVE_OUT = not HAVE_ALL and os.environ.get("CI") != "true"

LONG = "Tell me a story about a fox, a lantern and a river, and then another one about a bear who finds a key. " * 2


def chat(content, **more):
    return dict({"messages": [{"role": "user", "content": content}], "max_tokens": 8}, **more)


@unittest.skipIf(LEAVE_OUT, "needs " + NEEDED)
class Replicas(harness.Case):
    def setUp(self):
        super().setUp()
        self.servers = {}
        self.addCleanup(lambda: [server.stop() for server in self.servers.values()])
        for name in "abc":
            self.start(name)
        self.balancer = balancer.Balancer(self.directory, [self.servers[name].port for name in "abc"])
        self.addCleanup(self.balancer.stop)

    def start(self, name):
        self.servers[name] = Server("tales", "--threads", "1", "--parallel", "8", "--notice", "2", environment=self.environment())

    def answer(self, body, headers=None):
        """(server, headers, object) of an answer in one piece."""
        response = self.balancer.post("/v1/chat/completions", body, headers)
        data = response.read()
        self.assertEqual(response.status, 200, data)
        return response.headers["x-served-by"], response.headers, json.loads(data)

    def answers_of(self, name):
        _, _, data = self.servers[name].request("GET", "/metrics")
        return sum(float(value) for value in re.findall(r"^tandem_answers_total\{.*\} (\S+)$", data.decode(), re.M))

    def test_every_request_is_answered_once_and_by_the_one_with_the_least_to_do(self):
        clients, each, seen, failures = 6, 3, [], []

        def work(number):
            try:
                for turn in range(each):
                    response = self.balancer.post("/v1/chat/completions", chat(f"Story {number} {turn}", stream=True))
                    self.assertTrue(response.read().endswith(b"data: [DONE]\n\n"))
                    seen.append(response.headers["x-served-by"])
            except Exception as error:  # pylint: disable=broad-except
                failures.append(error)

        threads = [threading.Thread(target=work, args=[number]) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(len(seen), clients * each)
        self.assertEqual(set(seen), {"a", "b", "c"})
        self.assertEqual(sum(self.answers_of(name) for name in "abc"), clients * each)

    def test_a_conversation_goes_on_where_its_beginning_is_cached(self):
        for number in range(4):
            messages = [{"role": "user", "content": f"{number}. {LONG}"}]
            first, headers, answer = self.answer(chat("", messages=messages))
            messages += [answer["choices"][0]["message"], {"role": "user", "content": "And then?"}]
            prefix = {"x-tandem-prefix": headers["x-tandem-prefix"]}
            second, again, answer = self.answer(chat("", messages=messages), prefix)
            self.assertEqual((second, again["x-tandem-prefix"]), (first, headers["x-tandem-prefix"]))
            self.assertGreater(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        session = {self.answer(chat(f"Story {number}"), {"x-session-id": "mine"})[0] for number in range(4)}
        self.assertEqual(len(session), 1)

    def test_nothing_is_lost_while_servers_are_restarted_one_by_one(self):
        stop, failures = threading.Event(), []
        counts = [0, 0, 0]

        def work(number):
            while not stop.is_set():
                try:
                    response = self.balancer.post("/v1/chat/completions", chat(f"Story {number}", stream=True))
                    data = response.read()
                    if response.status != 200 or not data.endswith(b"data: [DONE]\n\n"):
                        failures.append((response.status, data[-300:]))
                    counts[number] += 1
                except Exception as error:  # pylint: disable=broad-except
                    failures.append(error)
                if failures:
                    return

        threads = [threading.Thread(target=work, args=[number]) for number in range(len(counts))]
        for thread in threads:
            thread.start()
        try:
            for name in "abc":
                self.assertEqual(self.servers[name].stop(), 0)
                self.start(name)
                self.balancer.move(name, self.servers[name].port)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(failures, [])
        self.assertTrue(all(counts), counts)

    def test_a_server_that_is_killed_takes_only_its_own_streams_along(self):
        # Each answer is far from its end when its first words are there.
        streams = {}
        for number in range(3):
            response = self.balancer.post("/v1/chat/completions",
                                          chat(f"Story {number}", n=8, max_tokens=1000, ignore_eos=True, stream=True))
            self.assertTrue(response.readline().startswith(b"data: "))
            streams[response.headers["x-served-by"]] = response
        self.assertEqual(set(streams), {"a", "b", "c"})
        self.servers["a"].process.send_signal(signal.SIGKILL)
        try:
            rest = streams["a"].read()
        except (http.client.IncompleteRead, OSError):
            rest = b""
        self.assertNotIn(b"[DONE]", rest)
        for name in "bc":
            for _ in range(20):
                self.assertTrue(streams[name].readline())
            streams[name].close()
        for number in range(6):
            self.assertIn(self.answer(chat(f"Story {number}"))[0], {"b", "c"})


@unittest.skipIf(LEAVE_OUT, "needs " + NEEDED)
class Manifests(harness.Case):
    def documents(self):
        for path in sorted(glob.glob(os.path.join(balancer.PACKAGING, "kubernetes", "*.yaml"))):
            with open(path, encoding="utf-8") as file:
                yield from yaml.safe_load_all(file)

    def test_the_deployment_starts_answers_its_probes_and_has_the_metrics_that_are_asked_for(self):
        [container] = next(document for document in self.documents() if document["kind"] == "Deployment")["spec"][
            "template"]["spec"]["containers"]
        keys = self.write("keys", "secret-of-a-client use someone\n")
        os.chmod(keys, 0o600)
        here = {"serve": None, "--port": None, "8080": None, "gemma3:4b": "tales", "0.0.0.0": "127.0.0.1",
                "/keys/keys": keys}
        self.assertTrue(set(here) <= set(container["args"]), container["args"])
        arguments = [here.get(argument, argument) for argument in container["args"]]
        server = Server(*filter(None, arguments), environment=self.environment())
        self.addCleanup(server.stop)
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertEqual(server.request("GET", container[probe]["httpGet"]["path"])[0], 200, probe)
        self.assertEqual(server.request("GET", "/v1/models")[0], 401)
        status, _ = server.post("/v1/chat/completions", chat("Hi"), {"Authorization": "Bearer secret-of-a-client"})
        self.assertEqual(status, 200)

        self.assertEqual(server.request("GET", "/metrics")[0], 200)  # --open-metrics
        with open(os.path.join(balancer.PACKAGING, "grafana.json"), encoding="utf-8") as file:
            panels = json.load(file)["panels"]
        queries = [target["expr"] for panel in panels for target in panel["targets"]]
        queries += [trigger["metadata"]["query"] for document in self.documents() if document["kind"] == "ScaledObject"
                    for trigger in document["spec"]["triggers"]]
        wanted = {name for query in queries for name in re.findall(r"\b(?:tandem_|vllm:)\w+", query)}
        with open(os.path.join(balancer.PACKAGING, "kubernetes", "gateway.yaml"), encoding="utf-8") as file:
            wanted |= set(re.findall(r"vllm:\w+", file.read()))
        self.assertGreater(len(wanted), 12)
        self.wait_for_metrics(server, wanted)
        self.check_queries(queries)

    def wait_for_metrics(self, server, wanted):
        """Those of devices are there when they were looked at for the first time."""
        end = time.monotonic() + harness.TIMEOUT_S
        while True:
            text = server.request("GET", "/metrics")[2].decode()
            missing = wanted - set(re.findall(r"^([\w:]+)[ {]", text, re.M))
            if not missing:
                return
            self.assertLess(time.monotonic(), end, missing)
            time.sleep(0.05)

    def check_queries(self, queries):
        """By Prometheus' own tool, where it is: its package would start a server of its own."""
        if balancer.find("promtool") is None:
            return
        for variable, value in (("$job", "tandem"), ("$__rate_interval", "1m")):
            queries = [query.replace(variable, value) for query in queries]
        rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
        path = self.write("rules.yaml", yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
        done = subprocess.run([balancer.find("promtool"), "check", "rules", path], capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode() + done.stdout.decode())

    def test_the_scripts_are_sound(self):
        for script in glob.glob(os.path.join(balancer.PACKAGING, "*.sbatch")):
            subprocess.run(["bash", "-n", script], check=True)


if __name__ == "__main__":
    harness.main()
