"""tandem pull, run NAME, list, show and rm against a server that speaks the Hub's protocol, with all faults of the line."""

import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
import unittest

import harness
from hub_server import Fault, Hub, Repository, make_certificate
from server_test import Server

PIECE = 32 << 20  # that the program asks for at once
TALES = os.path.join(os.path.dirname(harness.DATA), "..", "assets", "tales-q8_0.gguf")


def content(size, seed):
    return random.Random(seed).randbytes(size)


BIG = content(2 * PIECE + 12345, 1)  # three pieces
SMALL = content(100_000, 2)


def big_repository(**options):
    return Repository({"big-Q4_K_M.gguf": BIG, "big-Q8_0.gguf": SMALL, "README.md": b"# Big\n"}, small=["README.md"], **options)


class PullCase(harness.Case):
    def setUp(self):
        super().setUp()
        self.variables = {}

    def environment(self, **changes):
        environment = super().environment(**changes)
        for name in list(environment):
            is_other = name.lower().endswith("_proxy") or name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "XDG_DATA_HOME")
            if is_other or name.startswith(("HF_", "HUGGING", "OLLAMA", "LLAMA")):
                environment.pop(name)
        return {**environment, **self.variables}

    def serve(self, repositories, **options):
        hub = Hub(repositories, **options)
        self.addCleanup(hub.__exit__)
        self.variables["HF_ENDPOINT"] = hub.url
        return hub

    def pulled(self, *args):
        """The content of what `tandem pull` says it has put there."""
        path = self.ok("pull", *args).strip()
        with open(path, "rb") as file:
            return file.read()

    def cache(self, *parts):
        return self.path(".cache/huggingface/hub", *parts)

    def leftovers(self):
        return [name for _, _, names in os.walk(self.directory) for name in names if "tandem-" in name]


class Pull(PullCase):
    def test_a_file_lies_as_the_hubs_own_programs_keep_it(self):
        hub = self.serve({"org/big": big_repository()})
        path = self.ok("pull", "org/big").strip()
        repository = hub.repositories["org/big"]
        self.assertEqual(path, self.cache("models--org--big/snapshots", repository.commit, "big-Q4_K_M.gguf"))
        etag = repository.etag("big-Q4_K_M.gguf")
        self.assertEqual(os.readlink(path), f"../../blobs/{etag}")
        with open(self.cache("models--org--big/blobs", etag), "rb") as file:
            self.assertEqual(file.read(), BIG)
        with open(self.cache("models--org--big/refs/main")) as file:
            self.assertEqual(file.read(), repository.commit)
        self.assertEqual(self.leftovers(), [])
        self.assertGreaterEqual(len(hub.asked("/blob/")), 3)  # in pieces

    def test_names_are_written_in_many_ways(self):
        hub = self.serve({"org/big": big_repository()})
        for name in ("org/big:Q8_0", "org/big:q8_0", "hf.co/org/big:Q8_0", "org/big:big-Q8_0.gguf",
                     hub.url + "/org/big/resolve/main/big-Q8_0.gguf"):
            self.assertEqual(self.pulled(name), SMALL, name)
        self.assertEqual(len(hub.asked("/blob/")), 1)  # once is enough
        self.assertRegex(self.fails("pull", "org/big:Q3_K_M"), "there is no Q3_K_M: there are Q4_K_M, Q8_0")
        self.assertRegex(self.fails("pull", "nonsense"), "write org/name")
        self.assertRegex(self.fails("pull", "gemma3:4c"), "did you mean 'gemma3:4b'")

    def test_all_parts_and_whole_repositories_come(self):
        parts = {f"Q8_0/m-Q8_0-0000{i}-of-00003.gguf": content(1000 + i, i) for i in (1, 2, 3)}
        tensors = {"config.json": b"{}", "model.safetensors": SMALL, "tokenizer.json": b"{}", "notes.txt": b"x"}
        hub = self.serve({"org/split": Repository(parts), "org/tensors": Repository(tensors, small=["config.json"])})
        path = self.ok("pull", "org/split").strip()
        for i in (1, 2, 3):
            with open(path.replace("00001-of", f"0000{i}-of"), "rb") as file:
                self.assertEqual(file.read(), parts[f"Q8_0/m-Q8_0-0000{i}-of-00003.gguf"])
        folder = self.ok("pull", "org/tensors").strip()
        self.assertEqual(sorted(os.listdir(folder)), ["config.json", "model.safetensors", "tokenizer.json"])
        self.assertEqual(hub.asked("notes.txt"), [])

    def test_a_line_that_is_cut_goes_on_where_it_was(self):
        hub = self.serve({"org/big": big_repository()})
        hub.faults = [Fault("/blob/", times=3, cut_after=5 << 20)]
        self.assertEqual(self.pulled("org/big"), BIG)
        self.assertLess(hub.sent_bytes, len(BIG) + (8 << 20))  # nothing is fetched twice

    def test_servers_that_fail_for_a_while(self):
        for status in (408, 500, 502, 503, 504):
            hub = self.serve({"org/big": big_repository()})
            hub.faults = [Fault("/api/", status=status), Fault("/resolve/", status=status), Fault("/blob/", status=status)]
            self.assertEqual(self.pulled("org/big:Q8_0"), SMALL, status)
            self.ok("rm", "org/big:Q8_0")
        hub.faults = [Fault("/blob/", status=429, headers={"RateLimit": '"resolvers";r=0;t=0'}),
                      Fault("/api/", status=429, headers={"Retry-After": "1"})]
        self.assertEqual(self.pulled("org/big:Q8_0"), SMALL)

    def test_an_address_that_expires_is_asked_for_anew(self):
        hub = self.serve({"org/big": big_repository()})
        hub.faults = [Fault("/blob/", times=2, status=403)]
        self.assertEqual(self.pulled("org/big:Q8_0"), SMALL)
        self.assertEqual(len(hub.asked("/resolve/")), 3)

    def test_a_server_that_ignores_ranges(self):
        hub = self.serve({"org/big": big_repository()})
        hub.faults = [Fault("/blob/", times=99, ignore_range=True)]
        self.assertEqual(self.pulled("org/big"), BIG)

    def test_a_file_that_has_become_shorter(self):
        hub = self.serve({"org/big": big_repository()})
        etag = hub.repositories["org/big"].etag("big-Q4_K_M.gguf")
        hub.faults = [Fault("/resolve/", status=302, headers={"Location": f"{hub.content_url}/blob/{etag}"})]
        hub.content[f"/blob/{etag}"] = b"short"
        self.assertRegex(self.fails("pull", "-q", "org/big"), "has changed")
        self.assertEqual(self.pulled("org/big"), BIG)

    def test_wrong_bytes_are_never_used(self):
        hub = self.serve({"org/big": big_repository()})
        hub.faults = [Fault("/blob/", wrong=True)]
        self.assertEqual(self.pulled("org/big:Q8_0"), SMALL)  # at the second time
        self.ok("rm", "org/big:Q8_0")
        hub.faults = [Fault("/blob/", times=9, wrong=True)]
        self.assertRegex(self.fails("pull", "-q", "org/big:Q8_0").splitlines()[-1], "the checksum is")
        self.assertEqual(json.loads(self.ok("list", "--json"))["models"], [])
        self.assertEqual(self.leftovers(), [])

    def test_a_slow_line(self):
        hub = self.serve({"org/big": big_repository()})
        hub.faults = [Fault("/blob/", slow=True)]
        self.assertEqual(self.pulled("org/big:Q8_0"), SMALL)

    def test_what_cannot_be_had_is_said_in_words(self):
        hub = self.serve({"org/big": big_repository(), "org/gated": big_repository(token="hf_right", gated=True)})
        self.assertRegex(self.fails("pull", "org/none"), "no such repository, or it is private or behind terms")
        self.assertRegex(self.fails("pull", "org/big@v9"), "no such revision")
        self.assertRegex(self.fails("pull", "org/gated"), f"accept them at {hub.url}/org/gated, then set HF_TOKEN")
        hub.faults = [Fault("/api/", times=9, status=404)]
        self.assertRegex(self.fails("pull", "org/big"), "no such file or repository")
        hub.faults = []
        self.variables["HF_HUB_OFFLINE"] = "1"
        self.assertRegex(self.fails("pull", "org/big"), "HF_HUB_OFFLINE is set")

    def test_a_token_stays_with_the_hub(self):
        hub = self.serve({"org/gated": big_repository(token="hf_right", gated=True), "org/old": Repository({}, moved_to="org/gated")})
        self.variables["HF_TOKEN"] = "hf_right"
        self.assertEqual(self.pulled("org/gated:Q8_0"), SMALL)
        self.assertEqual(self.pulled("org/old:Q8_0"), SMALL)  # a repository that was renamed
        for path, headers, is_hub in hub.requests:
            self.assertEqual(headers.get("Authorization"), "Bearer hf_right" if is_hub else None, path)

    def test_tls_is_checked(self):
        certificate, key = make_certificate(self.directory)
        self.serve({"org/big": big_repository()}, tls=(certificate, key))
        self.assertRegex(self.fails("pull", "org/big:Q8_0"), "[Cc]ertificate|SSL")
        self.variables["SSL_CERT_FILE"] = certificate
        self.assertEqual(self.pulled("org/big:Q8_0"), SMALL)

    def test_a_proxy_is_used(self):
        hub = self.serve({"org/big": big_repository()})
        self.variables["http_proxy"] = "http://localhost:1"
        self.assertRegex(self.fails("pull", "org/big"), "check the network, a proxy")
        self.variables["no_proxy"] = "localhost"
        self.assertEqual(self.pulled("org/big:Q8_0"), SMALL)
        self.assertTrue(hub.requests)

    def test_plain_addresses(self):
        hub = self.serve({})
        hub.content["/files/story.gguf"] = BIG
        hub.file_headers = {"Last-Modified": "Mon, 02 Nov 2026 10:00:00 GMT"}
        url = hub.content_url + "/files/story.gguf"
        hub.faults = [Fault("/files/", times=1, status=503), Fault("/files/", times=2, cut_after=3 << 20)]
        self.assertEqual(self.pulled(url), BIG)
        self.assertEqual(self.json("list", "--json")["models"][0]["name"], "story")
        self.assertRegex(self.fails("pull", hub.content_url + "/page.html"), "has to end with .gguf")

    def test_a_disk_that_is_too_small(self):
        hub = self.serve({"org/huge": big_repository()})
        entry = hub.repositories["org/huge"].entry
        hub.repositories["org/huge"].entry = lambda path: {**entry(path), "lfs": {"oid": "b" * 64, "size": 1 << 60}}
        self.assertRegex(self.fails("pull", "org/huge", "--anyway", "-q"), "the disk has .* free")
        self.assertRegex(self.fails("pull", "org/huge", "-q"), "(the disk has .* free|no device of this machine)")

    def test_names_of_a_server_lead_nowhere_else(self):
        hub = self.serve({"org/bad": Repository({"../../../x-Q4_K_M.gguf": SMALL})})
        self.assertRegex(self.fails("pull", "org/bad"), "leads out of the repository")
        self.assertEqual(hub.asked("/resolve/"), [])


class Killed(PullCase):
    """kill -9 in every phase, then the same command again."""

    def start(self):
        return subprocess.Popen([harness.BINARY, "pull", "-q", "org/big"], env=self.environment(),
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self, process):
        process.send_signal(signal.SIGKILL)
        process.wait()

    def check_again(self, hub):
        hub.release.set()
        hub.faults = []
        self.assertEqual(self.pulled("org/big"), BIG)
        self.assertEqual(self.leftovers(), [])

    def test_while_it_waits_for_an_answer(self):
        for pattern in ("/revision/", "/tree/", "/resolve/", "/blob/"):
            with self.subTest(pattern):
                hub = self.serve({"org/big": big_repository()})
                hub.faults = [Fault(pattern, hang_after=0, times=9)]
                process = self.start()
                self.assertTrue(hub.hanging.wait(harness.TIMEOUT_S))
                self.kill(process)
                self.check_again(hub)
                self.ok("rm", "org/big")

    def test_while_bytes_arrive(self):
        hub = self.serve({"org/big": big_repository()})
        hub.faults = [Fault("/blob/", hang_after=20 << 20, times=9)]
        process = self.start()
        self.assertTrue(hub.hanging.wait(harness.TIMEOUT_S))
        while hub.sent_bytes < 40 << 20:
            time.sleep(0.01)
        self.kill(process)
        before = hub.sent_bytes
        self.check_again(hub)
        self.assertLess(hub.sent_bytes - before, len(BIG) - (10 << 20))  # what had arrived is kept

    def test_an_interrupt_says_that_all_is_kept(self):
        hub = self.serve({"org/big": big_repository()})
        hub.faults = [Fault("/blob/", hang_after=4 << 20, times=99)]
        for command in (["pull", "-q", "org/big"], ["run", "org/big", "Hello there"]):
            hub.hanging.clear()
            process = subprocess.Popen([harness.BINARY, *command], env=self.environment(), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertTrue(hub.hanging.wait(harness.TIMEOUT_S))
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=harness.TIMEOUT_S)
            self.assertEqual(process.returncode, 130, command)
            self.assertIn(b"the same command goes on", error)
        self.check_again(hub)

    def test_what_an_interrupt_leaves_can_be_removed(self):
        parts = {f"m-Q4_K_M-0000{i}-of-00002.gguf": content(PIECE // 2, i) for i in (1, 2)}
        hub = self.serve({"org/split": Repository(parts)})
        hub.content["/files/story.gguf"] = BIG
        hub.faults = [Fault(f"/files/|/blob/{hub.repositories['org/split'].etag(sorted(parts)[1])}", hang_after=1 << 20, times=9)]
        for name in ("org/split", hub.content_url + "/files/story.gguf"):
            hub.hanging.clear()
            process = subprocess.Popen([harness.BINARY, "pull", "-q", name], env=self.environment(), stderr=subprocess.DEVNULL)
            self.assertTrue(hub.hanging.wait(harness.TIMEOUT_S))
            if name == "org/split":
                self.assertRegex(self.fails("rm", name), "org/split: it is being fetched: stop that first")
            self.kill(process)
        left = {model["name"]: model["size_bytes"] for model in self.json("list", "--json")["unfinished"]}
        self.assertEqual(sorted(left), ["org/split", "story"])
        self.assertGreaterEqual(left["org/split"], PIECE)  # with the part that is whole
        self.assertIn("`tandem rm org/split` removes it", self.tandem("list").stderr.decode())
        self.ok("rm", "org/split:Q4_K_M", "story")
        self.assertEqual(self.json("list", "--json"), {"models": [], "unfinished": []})
        self.assertEqual(self.leftovers(), [])
        self.assertFalse(os.path.exists(self.cache("models--org--split")))

    def test_two_at_once_fetch_it_once(self):
        hub = self.serve({"org/big": big_repository()})
        processes = [self.start() for _ in range(2)]
        for process in processes:
            self.assertEqual(process.wait(harness.TIMEOUT_S), 0)
        self.assertEqual(hub.sent_bytes, len(BIG))


@unittest.skipIf(harness.SANITIZED, "AddressSanitizer wants to be loaded first")
class StoppedAnywhere(PullCase):
    """Before each call that changes a file, one after the other."""

    PARTS = {f"Q4_K_M/m-Q4_K_M-0000{i}-of-00002.gguf": content(50_000, i) for i in (1, 2)}

    def setUp(self):
        super().setUp()
        self.shim = self.path("stop_at.so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", self.shim,
                        os.path.join(os.path.dirname(os.path.abspath(__file__)), "stop_at.c")], check=True)
        self.serve({"org/split": Repository(self.PARTS)})
        self.ok("pull", "-q", "org/split")
        self.clean = self.tree()
        self.ok("rm", "org/split")

    def tree(self):
        return sorted(os.path.relpath(os.path.join(folder, name), self.cache())
                      for folder, _, names in os.walk(self.cache()) for name in names)

    def stopped(self, number, **variables):
        environment = self.environment(LD_PRELOAD=self.shim, STOP_AT=str(number), **variables)
        return subprocess.run([harness.BINARY, "pull", "-q", "org/split"], env=environment, capture_output=True,
                              timeout=harness.TIMEOUT_S, check=False)

    def check_what_is_listed(self, number):
        """A model that can be seen is whole."""
        for model in self.json("list", "--json")["models"]:
            for i, part in enumerate(self.PARTS.values(), 1):
                with open(model["path"].replace("00001-of", f"0000{i}-of"), "rb") as file:
                    self.assertEqual(file.read(), part, number)

    def check_again(self, number):
        path = self.ok("pull", "-q", "org/split").strip()
        for i, part in enumerate(self.PARTS.values(), 1):
            with open(path.replace("00001-of", f"0000{i}-of"), "rb") as file:
                self.assertEqual(file.read(), part, number)
        self.assertEqual(self.tree(), self.clean, number)
        self.ok("rm", "org/split")

    def test_by_kill(self):
        for number in range(1, 1000):
            shutil.rmtree(self.cache())
            done = self.stopped(number)
            if done.returncode == 0:
                break
            self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
            self.check_what_is_listed(number)
            self.check_again(number)
        self.assertGreater(number, 30)  # folders, tag, locks, parts, names, links, the revision

    def test_by_a_full_disk(self):
        for number in range(1, 1000):
            shutil.rmtree(self.cache())
            done = self.stopped(number, STOP_ERROR=str(errno.ENOSPC))
            if done.returncode == 0:
                break
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr.decode().splitlines()[-1], "^tandem: .*(disk is full|No space left)")
            self.check_what_is_listed(number)
            self.check_again(number)
        self.assertGreater(number, 20)


class Library(PullCase):
    def test_a_model_is_fetched_by_run_and_then_there(self):
        with open(TALES, "rb") as file:
            tales = file.read()
        hub = self.serve({"org/tales": Repository({"tales-Q8_0.gguf": tales})})
        first = self.tandem("run", "org/tales", "Tell me a story.", "--greedy", "-n", "5", "--device", "cpu")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn(b"org/tales:Q8_0: ", first.stderr)
        requests = len(hub.requests)
        again = self.ok("run", "org/tales:Q8_0", "Tell me a story.", "--greedy", "-n", "5", "--device", "cpu")
        self.assertEqual(again, first.stdout.decode())
        self.assertEqual(len(hub.requests), requests)  # what is here is used without a question
        shown = self.json("show", "org/tales", "--json")
        self.assertEqual((shown["name"], shown["family"], shown["runs"]), ("org/tales:Q8_0", "gemma3", True))
        self.assertIn("org/tales:Q8_0", self.ok("list"))
        self.ok("inspect", "org/tales")
        self.ok("rm", "org/tales")
        self.assertNotIn("org/tales", self.ok("list"))
        self.assertRegex(self.fails("show", "org/tales"), "`tandem pull org/tales` fetches it")

    def test_a_newer_version_replaces_the_old(self):
        hub = self.serve({"org/big": big_repository()})
        self.assertEqual(self.pulled("org/big:Q8_0"), SMALL)
        newer = content(5000, 9)
        hub.repositories["org/big"].files["big-Q8_0.gguf"] = newer
        hub.repositories["org/big"].commit = "beef" + "0" * 36
        self.assertEqual(self.pulled("org/big:Q8_0"), newer)
        self.assertEqual([model["size_bytes"] for model in self.json("list", "--json")["models"]], [5000])

    def test_models_of_other_programs_are_used_where_they_lie(self):
        digest = "d" * 64
        for name, text in (("manifests/registry.ollama.ai/library/story/latest", json.dumps({"layers": [
                {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:" + digest}]})), ("blobs/x", "")):
            os.makedirs(os.path.dirname(self.path(".ollama/models", name)), exist_ok=True)
            self.write(os.path.join(".ollama/models", name), text)
        os.symlink(TALES, self.path(".ollama/models/blobs", "sha256-" + digest))
        os.makedirs(self.path(".lmstudio/models/maker/model"))
        os.symlink(TALES, self.path(".lmstudio/models/maker/model/m-Q8_0.gguf"))
        owners = {model["name"]: model["owner"] for model in self.json("list", "--json")["models"]}
        self.assertEqual(owners, {"story:latest": "Ollama", "maker/model:Q8_0": "LM Studio"})
        for name in ("story", "maker/model"):
            self.ok("run", name, "Hello there", "-n", "2", "--device", "cpu")
        self.assertRegex(self.fails("rm", "story"), "belongs to Ollama: remove it there")

    def test_what_could_be_fetched_is_listed_with_what_fits(self):
        listed = self.json("list", "--available", "--json")
        names = {model["name"]: model for model in listed["models"]}
        self.assertIn("gemma3:4b", names)
        self.assertGreater(listed["read_bytes_per_s"], 0)
        for model in listed["models"]:
            self.assertEqual(model["tokens_per_second_at_most"] is not None, model["fits"], model)
        mixture, dense = (names[name]["tokens_per_second_at_most"] for name in ("qwen3:30b-a3b", "qwen3:32b"))
        if mixture and dense:  # where they fit
            self.assertGreater(mixture, 5 * dense)  # a token reads some of the experts
        self.assertTrue(re.search(r"gemma3:27b +16.5 GB", self.ok("list", "--available")))


class ServedLibrary(PullCase):
    """What clients of Ollama's API do with models."""

    def setUp(self):
        super().setUp()
        with open(TALES, "rb") as file:
            self.hub = self.serve({"org/tales": Repository({"tales-Q8_0.gguf": file.read()}), "org/big": big_repository()})

    def start(self, *args):
        server = Server("--device", "cpu", *args, environment=self.environment())
        self.addCleanup(server.stop)
        return server

    def names(self, server):
        return [model["name"] for model in json.loads(server.request("GET", "/api/tags")[2])["models"]]

    def test_a_model_is_pulled_used_copied_and_deleted(self):
        server = self.start()
        status, headers, data = server.request("POST", "/api/pull", {"model": "hf.co/org/tales"})
        self.assertEqual((status, headers["Content-Type"]), (200, "application/x-ndjson"))
        lines = [json.loads(line) for line in data.splitlines()]
        self.assertEqual(lines[0], {"status": "pulling manifest"})
        self.assertEqual(lines[-1], {"status": "success"})
        steps = [line for line in lines if "digest" in line]
        self.assertEqual(steps[-1]["completed"], os.path.getsize(TALES))
        self.assertEqual(steps[-1]["total"], os.path.getsize(TALES))
        self.assertRegex(steps[-1]["digest"], "^sha256:[0-9a-f]{64}$")
        self.assertEqual(self.names(server), ["tales", "org/tales:Q8_0"])
        for name in ("org/tales:Q8_0", "org/tales", "hf.co/org/tales"):
            status, answer = server.post("/api/generate", {"model": name, "prompt": "x", "stream": False,
                                                           "options": {"num_predict": 2}})
            self.assertEqual(status, 200, answer)
        self.assertEqual(server.post("/api/copy", {"source": "org/tales", "destination": "mine"})[0], 200)
        self.assertEqual(server.post("/api/create", {"model": "file", "from": os.path.realpath(TALES)}),
                         (200, {"status": "success"}))
        self.assertEqual(sorted(self.names(server)), ["file", "mine", "org/tales:Q8_0", "tales"])
        self.assertEqual(server.post("/api/generate", {"model": "mine", "prompt": "x", "stream": False})[0], 200)
        for name in ("mine", "file", "org/tales"):
            self.assertEqual(server.request("DELETE", "/api/delete", {"model": name})[0], 200, name)
        self.assertTrue(os.path.exists(TALES))
        self.assertEqual(server.request("DELETE", "/api/delete", {"model": "mine"})[0], 404)
        self.assertEqual(server.request("DELETE", "/api/delete", {"model": "tales"})[0], 404)

    def test_a_pull_that_fails_says_why(self):
        server = self.start()
        lines = server.request("POST", "/api/pull", {"model": "org/none"})[2].splitlines()
        self.assertIn("no such repository", json.loads(lines[-1])["error"])
        status, answer = server.post("/api/pull", {"model": "org/none", "stream": False})
        self.assertEqual(status, 502)
        self.assertIn("no such repository", answer["error"])
        self.assertEqual(server.post("/api/pull", {"model": "org/tales", "stream": False}), (200, {"status": "success"}))
        self.assertEqual(server.post("/api/create", {"model": "x", "from": "/nowhere.gguf"})[0], 400)
        self.assertEqual(server.post("/api/create", {"model": "x", "from": "tales", "system": "y"})[0], 400)

    def test_a_client_that_goes_ends_its_pull_and_all_is_kept(self):
        server = self.start()
        self.hub.faults = [Fault("/blob/", hang_after=20 << 20, times=9)]
        connection = server.connection()
        connection.request("POST", "/api/pull", json.dumps({"model": "org/big"}))
        connection.getresponse().read1(1)
        self.assertTrue(self.hub.hanging.wait(harness.TIMEOUT_S))
        connection.close()
        self.hub.release.set()
        self.hub.faults = []
        self.assertEqual(server.post("/api/pull", {"model": "org/big", "stream": False})[0], 200)

    def test_only_what_was_named_where_that_is_wanted(self):
        self.ok("pull", "-q", "org/tales")
        server = self.start("--no-library")
        self.assertEqual(self.names(server), ["tales"])
        self.assertEqual(server.post("/api/pull", {"model": "org/tales"})[0], 403)
        self.assertEqual(server.request("DELETE", "/api/delete", {"model": "org/tales"})[0], 403)

    def test_a_model_to_serve_is_fetched_first(self):
        server = self.start("org/tales")
        self.assertEqual(self.names(server)[0], "org/tales:Q8_0")
        self.assertTrue(json.loads(server.request("GET", "/api/tandem/catalog")[2])["can_pull"])


if __name__ == "__main__":
    harness.main()
