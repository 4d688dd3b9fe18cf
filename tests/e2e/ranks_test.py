"""One model over several ranks by the real mpirun: the same numbers as alone, and clear refusals."""

import os
import shutil
import subprocess
import unittest

import harness
from harness import SANITIZED, Case, data

LIMIT_S = 180  # of any wait: far more than it takes


def missing():
    if SANITIZED:
        return "MPI itself leaks, and is not built with sanitizers: unit_ranks has the protocol"
    if not shutil.which("mpirun"):
        return "no mpirun (Debian: openmpi-bin)"
    if not os.path.exists(os.path.join(os.path.dirname(harness.BINARY), "libtandem-mpi.so")):
        return "no libtandem-mpi.so (Debian: libopenmpi-dev, before the build)"
    return None


def mpirun(ranks):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", "--oversubscribe", "--bind-to", "none", *root, "-np", str(ranks)]


class Commands(Case):
    @classmethod
    def setUpClass(cls):
        why = missing()
        if why and os.environ.get("CI") == "true" and not SANITIZED:
            raise RuntimeError(why)
        if why:
            raise unittest.SkipTest(why)

    def run_ranks(self, *words):
        done = subprocess.run([*map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S,
                              env=self.environment(OMPI_MCA_btl="self,vader",  # containers forbid the copy by the kernel
                                                   OMPI_MCA_btl_vader_single_copy_mechanism="none"), check=False)
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


if __name__ == "__main__":
    harness.main()
