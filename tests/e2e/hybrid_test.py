"""An NPU beside the device: which one ran is said, and what happens where there is none."""

import json
import pathlib
import tempfile

import harness

PROMPT = "Tell me a story about a curious fox who finds an old lantern in the woods and wants to know whose it is. " * 3


class Hybrid(harness.Case):
    def reported(self, *args):
        """Standard error of a run that succeeds."""
        done = self.tandem(*args)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return done.stderr.decode()

    def test_the_emulator_runs_only_by_name_and_says_so(self):
        for placement in ("npu-attention", "npu-prefill"):
            shown = self.reported("run", "tales", PROMPT, "-n", 8, "--temperature", 0, "--npu", "emulator",
                               "--placement", placement)
            self.assertIn("cpu + npu emulator", shown)
        shown = self.reported("run", "tales", PROMPT, "-n", 8, "--temperature", 0)
        self.assertNotIn("npu", shown)

    def test_a_trace_of_one_device_is_not_written_and_that_is_said(self):
        shown = self.reported("run", "tales", "Hello", "-n", 1, "--placement", "gpu", "--trace", "nowhere.json")
        self.assertIn("--trace: cpu runs everything", shown)

    def test_auto_says_who_ran(self):
        shown = self.reported("run", "tales", "Hello", "-n", 1, "--npu", "emulator")
        self.assertIn("; cpu;", shown)
        self.assertNotIn("npu emulator", shown)

    def test_without_an_npu_the_device_runs_everything_and_a_strict_run_fails(self):
        shown = self.reported("run", "tales", PROMPT, "-n", 4, "--placement", "npu-prefill")
        self.assertIn("cpu runs everything", shown)
        error = self.fails("run", "tales", PROMPT, "-n", 4, "--placement", "npu-prefill", "--strict", "--device", "cpu")
        self.assertIn("NPU", error)
        error = self.fails("run", "tales", PROMPT, "-n", 4, "--npu", "emulator", "--strict", "--device", "cpu")
        self.assertIn("does not count", error)
        self.assertIn("--npu is off",
                      self.fails("run", "tales", PROMPT, "--npu", "off", "--placement", "npu-attention"))
        self.assertIn("npu-decode", self.fails("run", "tales", PROMPT, "--placement", "npu-decode", code=2))

    def test_the_trace_shows_both_devices_at_the_same_time(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace.json"
            self.ok("run", "tales", PROMPT * 2, "-n", 1, "--npu", "emulator", "--placement", "npu-prefill",
                        "--npu-layers", 3, "--trace", trace)
            events = json.loads(trace.read_text())["traceEvents"]
        names = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
        self.assertEqual(set(names.values()), {"cpu", "npu emulator"})
        spans = [(names[event["tid"]], event["ts"], event["ts"] + event["dur"]) for event in events
                 if event["ph"] == "X"]
        overlaps = [1 for device, begin, end in spans for other, other_begin, other_end in spans
                    if device == "cpu" and other != "cpu" and begin < other_end and other_begin < end]
        self.assertTrue(overlaps, spans)

    def test_plan_predicts_every_placement(self):
        report = self.json("plan", "gemma3-1b", "--machine", "780m", "--prompt", "64,1024", "--json")
        self.assertTrue(report["predicted"])
        rows = report["prompts"]
        self.assertEqual([row["policy"] for row in rows[:4]], ["gpu", "npu-attention", "npu-prefill", "auto"])
        for four in (rows[:4], rows[4:]):
            self.assertLessEqual(four[3]["seconds"], min(row["seconds"] for row in four) * 1.0001)


if __name__ == "__main__":
    harness.main()
