"""tandem bench: the table and the JSON of a small measurement, the comparison with the CPU, and its errors."""

import os

import harness

SMALL = ["--decode", "1,2", "--context", "8", "--prompt", "12", "--chunk", "8", "--repeat", "2"]
DEVICES = ["cpu"] + (["vulkan"] if os.environ.get("TANDEM_VULKAN") else [])


class Bench(harness.Case):
    def test_json_has_a_row_for_each_measurement(self):
        for device in DEVICES:
            with self.subTest(device=device):
                report = self.json("bench", "--device", device, *SMALL, "--check", "--json")
                self.assertGreater(report["read_bytes_per_s"], 0)
                rows = [(row["kind"], row["sequences"], row.get("context", row.get("prompt"))) for row in report["rows"]]
                self.assertEqual(rows, [("decode", 1, 8), ("decode", 2, 8), ("prompt", 1, 12)])
                for row in report["rows"]:
                    self.assertGreater(row["tokens_per_s"], 0)
                    self.assertGreater(row["flops"], 0)
                    self.assertEqual(row["samples"] + row["outliers"], 2)
                    self.assertGreater(row["ms_mean"], 0)
                    self.assertGreaterEqual(row["ms_deviation"], row["ms_ci95"] / 1.96)
                # Every sequence of a step reads the same weights, and a cache of its own.
                self.assertGreater(report["rows"][1]["bytes"], report["rows"][0]["bytes"])
                self.assertLess(report["rows"][1]["bytes"], 1.5 * report["rows"][0]["bytes"])
                self.assertEqual([row["what"] for row in report["check"]],
                                 ["prompt of 12", "decode, 1 sequence", "decode, 2 sequences"])
                for row in report["check"]:
                    self.assertTrue(row["ok"] and row["finite"] and row["same_top"], row)

    def test_several_devices_are_shown_with_what_each_did(self):
        arguments = ["bench", "--device", "cpu,cpu", *SMALL]
        for split in [], ["--split", "1"]:
            report = self.json(*arguments, *split, "--json")
            for row in report["rows"]:
                if "stages" not in row:  # measured to be faster on one
                    self.assertEqual(split, [])
                    continue
                self.assertTrue(0 <= row["stages"]["bubble"] < 1, row)
                self.assertEqual(len(row["stages"]["devices"]), 2)
                for device in row["stages"]["devices"]:
                    self.assertGreater(device["busy_ms"], 0)
                    self.assertEqual(device["predicted_ms"] is None, bool(split))
        self.assertIn("layers 0 to 0 on cpu", report["details"])
        table = self.ok(*arguments, "--split", "1", "--profile")
        for text in "PREDICTED MS", "MEASURED MS", "(bubble)", "layers 0 to 0":
            self.assertIn(text, table)
        self.assertIn("tune each by itself", self.fails(*arguments, "--split", "1", "--tune"))

    def test_table(self):
        table = self.ok("bench", "tales", *SMALL, "--check")
        for text in ["TOKENS/S", "OUTLIERS", " of 2 ", "OF LIMIT", "decode, 2 sequences, context 8", "prompt of 12",
                     "AGAINST THE CPU"]:
            self.assertIn(text, table)

    def test_what_fits_the_caches_has_no_share_of_the_read_rate(self):
        report = self.json("bench", *SMALL, "--json")
        for row in report["rows"][:2]:
            self.assertEqual(row["fits_caches"], row["bytes"] <= report["cache_bytes"])
            if row["fits_caches"]:
                self.assertIsNone(row["read_share"])
            else:
                self.assertGreater(row["read_share"], 0)
        fits = any(row["fits_caches"] for row in report["rows"])
        self.assertEqual("cached: fits the caches of" in self.ok("bench", *SMALL), fits)

    def test_a_shape_is_made_of_any_type_or_mix(self):
        small = ["--decode", "1", "--context", "8", "--prompt", "0", "--repeat", "1", "--device", "cpu", "--json"]
        report = self.json("bench", "gemma3-1b", "--type", "Q4_K_M", *small)
        self.assertEqual(report["model"], "gemma3-1b q4_k_m")
        self.assertIn("has its own", self.fails("bench", "tales", "--type", "q4_0", *small))
        self.fails("bench", "gemma3-1b", "--type", "q9", *small, code=2)

    def test_the_model_may_stand_anywhere(self):
        for arguments in ([harness.TALES_F16, *SMALL], [*SMALL, harness.TALES_F16], ["--model", harness.TALES_F16, *SMALL]):
            with self.subTest(arguments=arguments):
                self.assertIn("tales-f16", self.json("bench", *arguments, "--json")["model"])
        self.fails("bench", "tales", "--model", "tales", *SMALL, code=2)

    def test_many_repetitions_where_none_are_asked_for(self):
        row = self.json("bench", "--decode", "1", "--context", "8", "--prompt", "0", "--json")["rows"][0]
        self.assertGreaterEqual(row["samples"] + row["outliers"], 10)
        self.assertLessEqual(row["samples"] + row["outliers"], 80)
        self.assertGreaterEqual(row["samples"], row["outliers"])

    def test_only_what_is_asked_for(self):
        report = self.json("bench", "--decode", "0", "--prompt", "4", "--repeat", "1", "--json")
        self.assertEqual([row["kind"] for row in report["rows"]], ["prompt"])
        self.assertEqual(report["model"], "tales")
        self.assertNotIn("check", report)

    def test_errors(self):
        self.fails("bench", "no-such-model", *SMALL)
        self.fails("bench", "--decode", "many", code=2)
        self.fails("bench", "--repeat", "0", code=2)
        self.fails("bench", "--device", "abacus", *SMALL)
        self.assertIn("--tune needs", self.fails("bench", "--device", "cpu", "--tune", *SMALL))


if __name__ == "__main__":
    harness.main()
