"""One model over several ranks by the real mpirun: the same numbers as alone, and clear refusals."""

import http.client
import json
import os
import signal
import subprocess
import threading
import unittest

import harness
from harness import SANITIZED, Case, data
from job import Job, missing

LIMIT_S = 180  # of any wait: far more than it takes
# Containers forbid the copy by the kernel.
SHARED_MEMORY = {"OMPI_MCA_btl": "self,vader", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def mpirun(ranks):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", "--oversubscribe", "--bind-to", "none", *root, "-np", str(ranks)]


class WithRanks(Case):
    @classmethod
    def setUpClass(cls):
        why = missing()
        if why and os.environ.get("CI") == "true" and not SANITIZED:
            raise RuntimeError(why)
        if why:
            raise unittest.SkipTest(why)


class Commands(WithRanks):
    def run_ranks(self, *words):
        done = subprocess.run([*map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S,
                              env=self.environment(**SHARED_MEMORY), check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace")

    def test_logits_are_those_of_one_process(self):
        model = data("models", "gemma3")
        common = ["eval", model, "--tokens", "5,9,200,31,7,80,4,4,12", "--device", "cpu:reference", "--threads", "1",
                  "--rank-timeout", "600"]
        self.ok(*common, "--logits", self.path("alone"))
        with open(self.path("alone"), "rb") as file:
            alone = file.read()
        for ranks, split in ((2, "layers"), (3, "1,2")):
            code, _, error = self.run_ranks(*mpirun(ranks), harness.BINARY, *common, "--split", split, "--logits",
                                            self.path("together"))
            self.assertEqual(code, 0, error)
            with open(self.path("together"), "rb") as file:
                self.assertEqual(file.read(), alone, f"{ranks} ranks")

    def test_answers_and_benchmarks(self):
        ids = self.ok("eval", harness.TALES_F16, "--tokens", "2,105,77", "--greedy", "12", "--device", "cpu:reference")
        code, out, error = self.run_ranks(*mpirun(2), harness.BINARY, "eval", harness.TALES_F16, "--tokens", "2,105,77",
                                          "--greedy", "12", "--device", "cpu:reference", "--split", "layers",
                                          "--rank-timeout", "600")
        self.assertEqual((code, out), (0, ids), error)
        code, out, error = self.run_ranks(*mpirun(2), harness.BINARY, "bench", "tales", "--decode", "2", "--context", "32",
                                          "--prompt", "64", "--repeat", "3", "--device", "cpu", "--split", "layers",
                                          "--rank-timeout", "600")
        self.assertEqual(code, 0, error)
        self.assertRegex(out, r"steps of [\d.]+ ms over 2 ranks")
        self.assertRegex(out, r"bubble: -?\d+ %")
        self.assertRegex(out, r"rank 1, .* \(cpu\) +layers \d+ to 11 +- ")  # not predicted: this device was not measured

    def test_what_cannot_be_is_said_in_one_line(self):
        error = self.fails("eval", "tales", "--tokens", "1", "--greedy", "1", "--split", "layers")
        self.assertIn("mpirun", error)
        tokens = ["--tokens", "1,2", "--greedy", "1", "--device", "cpu", "--split", "layers", "--rank-timeout",
                  "600"]
        code, _, error = self.run_ranks(*mpirun(1), harness.BINARY, "eval", data("models", "gemma3"), *tokens, ":",
                                        "-np", "1", harness.BINARY, "eval", data("models", "qwen3"), *tokens)
        self.assertNotEqual(code, 0)
        self.assertRegex(error, r"tandem: rank 1 \(.*\): its model is another one than that of rank 0")
        code, _, error = self.run_ranks(*mpirun(1), harness.BINARY, "eval", "tales", *tokens, ":",
                                        "-np", "1", harness.BINARY, "eval", self.path("none.gguf"), *tokens)
        self.assertNotEqual(code, 0)
        self.assertRegex(error, r"tandem: rank 1 \(.*\): .*none\.gguf")


class Faults(WithRanks):
    def test_a_rank_that_dies_or_hangs_ends_streams_with_an_error_and_the_job_starts_again(self):
        job = Job("tales", "--hosts", "localhost,localhost", "--device", "cpu", "--threads", "1", "--rank-timeout", "3",
                  environment=self.environment(**SHARED_MEMORY))
        self.addCleanup(job.process.kill)
        for times, how in enumerate((signal.SIGKILL, signal.SIGSTOP), 1):
            ends = [None] * 3
            streaming = threading.Barrier(len(ends) + 1)

            def ask(number, port):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
                connection.request("POST", "/v1/completions", headers={"Content-Type": "application/json"},
                                   body=json.dumps({"prompt": "Once", "max_tokens": 2000, "ignore_eos": True, "stream": True}))
                response = connection.getresponse()
                response.readline()
                streaming.wait(LIMIT_S)
                ends[number] = response.read()  # pylint: disable=cell-var-from-loop
                connection.close()

            threads = [threading.Thread(target=ask, args=[number, job.port]) for number in range(len(ends))]
            for thread in threads:
                thread.start()
            streaming.wait(LIMIT_S)
            os.kill(job.ranks()[1], how)
            for thread in threads:
                thread.join(LIMIT_S)
            for end in ends:
                self.assertIsNotNone(end, f"{how.name}: the stream broke off, or goes on")
                self.assertIn(b'"error"', end, how.name)
            job.wait_for_start(times + 1)
            lines = "".join(job.lines)
            self.assertRegex(lines, r"the job ended with \d+: it is started again in \d s")
        self.assertRegex(lines, r"rank 1 \(.*\) has been silent for 3 s")
        status, answer = job.post("/v1/completions", {"prompt": "Once", "max_tokens": 4})
        self.assertEqual((status, answer["usage"]["completion_tokens"]), (200, 4))
        self.assertEqual(job.stop(), 0, "".join(job.lines))


if __name__ == "__main__":
    harness.main()
