"""tandem npu: lists, checks, writes, builds and runs designs; what it writes as MLIR is read by the real mlir-opt."""

import os
import re
import shutil
import subprocess
import unittest

import harness

MLIR_OPT = shutil.which("mlir-opt-22")
DOCS = os.path.join(os.path.dirname(os.path.dirname(harness.DATA)), "docs")
OP = re.compile(r'"(\w+\.[\w.]+)"\(')


class Npu(harness.Case):
    def examples(self):
        return [name for family in self.json("npu", "list", "--json")["designs"] for name in family["examples"]]

    def test_list_says_what_there_is(self):
        listed = self.json("npu", "list", "--json")
        self.assertEqual([array["name"] for array in listed["arrays"]], ["npu1", "npu2"])
        self.assertAlmostEqual(listed["arrays"][0]["int8_tops"], 13.1, places=1)
        self.assertIn("gemm_i8_MxKxN", self.ok("npu", "list"))
        device = listed["device"]
        self.assertEqual(device["usable"], not device["obstacles"])
        for obstacle in device["obstacles"]:
            self.assertTrue(obstacle["what"] and obstacle["remedy"])

    def test_every_design_is_within_the_limits_of_both_arrays(self):
        for array in ("npu1", "npu2"):
            checked = self.json("npu", "check", "all", "--array", array, "--json")["checked"]
            self.assertEqual([design["design"] for design in checked], self.examples())
            for design in checked:
                banks = design["rules"].pop("banks")
                self.assertEqual(set(design["rules"].values()), {"ok"}, design)
                self.assertEqual(banks, "apart", design)
        checked = self.json("npu", "check", "gemm_i8_64x256x256", "--json")["checked"][0]
        for tile in checked["tiles"]:
            self.assertLessEqual(tile["memory_bytes"]["used"], tile["memory_bytes"]["limit"])
        self.assertEqual(len([tile for tile in checked["tiles"] if tile["kind"] == "compute tile"]), 16)

    def test_every_name_that_is_printed_can_be_asked_for(self):
        examples = self.examples()
        lines = self.ok("npu", "check", "all").splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["DESIGN", *examples])
        listed = self.ok("npu", "list")
        for name in examples:
            with self.subTest(design=name):
                self.assertEqual(self.json("npu", "check", name, "--json")["checked"][0]["design"], name)
                self.assertIn(f"\n{name}: within", self.ok("npu", "check", name))
                self.ok("npu", "emit", name)
        for family in self.json("npu", "list", "--json")["designs"]:
            self.assertIn(family["examples"][0], listed)
        done = self.json("npu", "run", "gemm_i8_40x64x300", "--emulator", "--json")
        self.assertEqual(done["design"], "gemm_i8_40x64x300")

    def test_the_emulator_agrees_with_a_plain_computation(self):
        for name, array in (("gemm_i8_64x256x256", "npu1"), ("gemm_i8_40x64x300", "npu2")):
            done = self.json("npu", "run", name, "--array", array, "--emulator", "--json")
            rows, inner, columns = map(int, name.split("_")[-1].split("x"))
            self.assertEqual(done["ran_on"], "npu emulator")
            self.assertEqual(done["compared"], rows * columns)
            self.assertGreaterEqual(done["macs"], rows * inner * columns)
            self.assertGreater(done["estimated_seconds"], 0)

    def test_every_family_of_designs_runs(self):
        for family in self.json("npu", "list", "--json")["designs"]:
            name = family["examples"][0]
            text = self.ok("npu", "run", name, "--emulator")
            self.assertTrue(text.startswith(f"{name} on the npu emulator (npu1)"), text)
            self.assertIn("estimated on the array, not measured", text)

    @unittest.skipUnless(MLIR_OPT, "left out: mlir-opt-22 (Debian: mlir-22-tools, in bookworm-security) is not installed")
    def test_designs_as_mlir_survive_the_way_through_mlir_opt(self):
        for name in self.examples():
            for array in ("npu1", "npu2"):
                with self.subTest(design=name, array=array):
                    self.round_trip(self.ok("npu", "emit", name, "--array", array))

    def round_trip(self, text):
        # Where the dialect is not known, neither is it that a device holds symbols: calls cannot find their function.
        text = text.replace('"func.call"(', '"tandem.call"(')
        once = self.mlir_opt(text)
        self.assertEqual(self.mlir_opt(once), once)
        self.assertEqual(OP.findall(once), OP.findall(text))

    def mlir_opt(self, text):
        done = subprocess.run([MLIR_OPT, "--allow-unregistered-dialect", "--mlir-print-op-generic", "-"], input=text,
                              capture_output=True, text=True, timeout=harness.TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[:2000])
        return done.stdout

    def test_without_an_npu_running_says_why_not(self):
        if self.json("npu", "list", "--json")["device"]["usable"]:
            self.skipTest("left out: this machine has an NPU")
        self.assertIn("--emulator", self.fails("npu", "run", "gemm_i8_64x256x256"))

    # What the page says of Gemma 3 27B is what the program says.
    @unittest.skipIf(harness.SANITIZED, "left out: it takes too long, and computes the same")
    def test_the_table_and_the_picture_of_the_docs_are_what_plan_predicts(self):
        picture = self.path("plan.svg")
        rows = self.json("plan", "--machine", "780m", "--json", "--svg", picture)["prompts"]
        with open(os.path.join(DOCS, "npu.md"), encoding="utf-8") as file:
            page = file.read()
        alone = {row["prompt"]: row["seconds"] for row in rows if row["policy"] == "gpu"}
        for row in rows:
            placement = f"auto: {row['placement']}" if row["policy"] == "auto" else row["policy"]
            npu = row["npu_busy_s"] / row["seconds"]
            gain = alone[row["prompt"]] / row["seconds"] - 1
            self.assertIn(f"| {row['prompt']} | {placement} | {row['npu_layers'] or '-'} | {row['seconds']:.2f} | "
                          f"{row['tokens_per_s']:.0f} | {100 * row['gpu_busy_s'] / row['seconds']:.0f} % | "
                          + ("- | |" if row["placement"] == "gpu" else f"{100 * npu:.0f} % | {100 * gain:+.0f} % |"),
                          page)
        alone = self.json("plan", "gemma3-4b", "--machine", "780m", "--prompt", "512", "--json")["alone"]
        for name, row in zip(("gpu", "npu1"), alone):
            self.assertIn(f"| gemma3-4b | {name} | {row['prompt_tokens_per_s']:.0f} | "
                          f"{row['prompt_joules_per_token']:.3f} | {row['answer_tokens_per_s']:.{int(name != 'gpu')}f} | "
                          f"{row['answer_joules_per_token']:.3f} |", page)
        with open(picture, "rb") as made, open(os.path.join(DOCS, "pictures", "npu-prefill.svg"), "rb") as kept:
            self.assertEqual(made.read(), kept.read(), "tandem plan --svg docs/pictures/npu-prefill.svg draws it again")

    def test_plan_says_what_stays_and_that_it_predicts(self):
        plan = self.json("plan", "tales", "--machine", "780m", "--prompt", "64", "--json")
        self.assertTrue(plan["predicted"])
        self.assertEqual(plan["left_to_gpu"], [])
        self.assertEqual([row["policy"] for row in plan["alone"]], ["gpu", "npu"])
        thirsty = self.json("plan", "tales", "--machine", "780m", "--prompt", "64", "--npu-watts", "2.4", "--json")
        for row, other, times in zip(plan["alone"], thirsty["alone"], (1, 2)):
            self.assertGreater(row["answer_tokens_per_s"], 0)
            for joules in ("prompt_joules_per_token", "answer_joules_per_token"):
                self.assertAlmostEqual(other[joules], times * row[joules])

    def test_plan_of_a_small_model_has_digits_that_say_something(self):
        lines = self.ok("plan", "tales", "--machine", "780m").splitlines()
        lines = lines[next(i for i, line in enumerate(lines) if line.startswith("prompts with an NPU")):]
        self.assertIn("TIME", lines[1])
        times = [re.search(r" (\d+\.?\d*) (s|ms|us) ", line) for line in lines[2:18]]
        self.assertTrue(all(times), lines)
        self.assertTrue(all(float(time[1]) >= 1 for time in times), lines)
        self.assertIn("not modelled: matrices too small to fill the GPU", lines[18])
        # Even with a GPU that does anything in no time.
        endless = self.json("plan", "tales", "--prompt", "1", "--gpu-tflops", "1e6", "--gpu-gb-per-s", "1e6", "--json")
        self.assertGreater(endless["prompts"][0]["seconds"], 50e-6)

    def test_the_selftest_says_what_it_saw_and_what_is_missing(self):
        tried = self.json("npu", "selftest", "--emulator", "--json")
        self.assertTrue(tried["passed"])
        steps = ["device", "toolchain", "open", "product", "attention", "changing designs", "reading", "multiplying",
                 "load"]
        self.assertEqual([step["step"] for step in tried["steps"]], steps)
        self.assertEqual([step["left_out"] for step in tried["steps"]], 6 * [False] + 3 * [True])
        loaded = self.json("npu", "selftest", "--emulator", "--minutes", "0", "--json")["steps"][-1]
        self.assertTrue(loaded["ok"])
        self.assertRegex(loaded["saw"], r"^1 runs of gemm_i8_64x256x256 in 0.0 minutes, .* right to the last$")
        self.assertIn("16384 results right", tried["steps"][3]["saw"])
        if self.json("npu", "list", "--json")["device"]["usable"]:
            return
        report = self.tandem("npu", "selftest")
        self.assertEqual(report.returncode, 1)
        self.assertRegex(report.stdout.decode(), r"device +FAILED +the NPU cannot be used: ")
        self.assertRegex(report.stdout.decode(), r"load +left out +after what failed\n")
        self.assertIn("not passed", report.stdout.decode())

    def test_emit_writes_a_file(self):
        out = self.path("design.mlir")
        self.assertEqual(self.ok("npu", "emit", "gemm_i8_64x256x256", "--out", out), "")
        with open(out, encoding="utf-8") as file:
            self.assertEqual(file.read(), self.ok("npu", "emit", "gemm_i8_64x256x256"))

    def test_build_runs_the_toolchain_once(self):
        tools = {
            "aie/bin/aiecc": "case $1 in --version) echo 1.4;; --help) echo --get-xclbin;; "
                             "*) touch design.xclbin instructions.bin;; esac",
            "peano/bin/clang++": "case $1 in --version) echo 20;; esac",
        }
        for name, script in tools.items():
            os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
            os.chmod(self.write(name, f"#!/bin/sh\n{script}\n"), 0o755)
        changes = {"MLIR_AIE_INSTALL_DIR": self.path("aie"), "PEANO_INSTALL_DIR": self.path("peano")}
        first, second = (self.build(changes) for _ in range(2))
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn(b"compiling gemm.cc", first.stderr)
        self.assertEqual(second.stderr, b"")
        self.assertEqual(first.stdout, second.stdout)
        for path in first.stdout.decode().split():
            self.assertTrue(os.path.isfile(path), path)

    def build(self, changes):
        environment = self.environment(**changes)
        return subprocess.run([harness.BINARY, "npu", "build", "gemm_i8_64x256x256"], capture_output=True, check=False,
                              timeout=harness.TIMEOUT_S, env=environment)

    def test_errors_in_one_line(self):
        nowhere = self.build({"MLIR_AIE_INSTALL_DIR": "", "PEANO_INSTALL_DIR": "", "PATH": "/nowhere"})
        self.assertEqual(nowhere.returncode, 1)
        self.assertIn(b"aiecc, the vendor's compiler for designs, is not installed: install mlir-aie", nowhere.stderr)
        self.assertIn("there is no design 'gemm_i8_64x256'", self.fails("npu", "run", "gemm_i8_64x256", "--emulator"))
        self.assertIn("there is no design 'nothing'", self.fails("npu", "check", "nothing"))
        self.assertIn("npu9", self.fails("npu", "emit", "gemm_i8_64x256x256", "--array", "npu9", code=2))
        self.assertIn("needs a command: list, check", self.fails("npu", code=2))


if __name__ == "__main__":
    harness.main()
