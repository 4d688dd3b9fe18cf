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
                    self.assertGreater(row["read_share"], 0)
                # Every sequence of a step reads the same weights, and a cache of its own.
                self.assertGreater(report["rows"][1]["bytes"], report["rows"][0]["bytes"])
                self.assertLess(report["rows"][1]["bytes"], 1.5 * report["rows"][0]["bytes"])
                self.assertEqual([row["what"] for row in report["check"]],
                                 ["prompt of 12", "decode, 1 sequence", "decode, 2 sequences"])
                for row in report["check"]:
                    self.assertTrue(row["ok"] and row["finite"] and row["same_top"], row)

    def test_table(self):
        table = self.ok("bench", "--model", "tales", *SMALL, "--check")
        for text in ["TOKENS/S", "OF LIMIT", "decode, 2 sequences, context 8", "prompt of 12", "AGAINST THE CPU"]:
            self.assertIn(text, table)

    def test_only_what_is_asked_for(self):
        report = self.json("bench", "--decode", "0", "--prompt", "4", "--repeat", "1", "--json")
        self.assertEqual([row["kind"] for row in report["rows"]], ["prompt"])
        self.assertNotIn("check", report)

    def test_errors(self):
        self.fails("bench", "--model", "no-such-model", *SMALL)
        self.fails("bench", "--decode", "many", code=2)
        self.fails("bench", "--repeat", "0", code=2)
        self.fails("bench", "--device", "abacus", *SMALL)
        self.assertIn("--tune needs", self.fails("bench", "--device", "cpu", "--tune", *SMALL))


if __name__ == "__main__":
    harness.main()
