"""tandem eval: golden logits and greedy ids through the program, perplexity, and its errors."""

import array
import json
import math

import harness
from harness import data

FAMILIES = ["gemma3", "llama", "llama3-rope", "mistral", "qwen2", "qwen3"]


def expected(family):
    with open(data("models", family, "expected.json"), encoding="utf-8") as file:
        return json.load(file)


def floats(path):
    values = array.array("f")
    with open(path, "rb") as file:
        values.frombytes(file.read())
    return values


def ids(numbers, separator=","):
    return separator.join(map(str, numbers))


class Eval(harness.Case):
    def test_golden_logits_and_greedy_ids(self):
        for family in FAMILIES:
            with self.subTest(family=family):
                golden = expected(family)
                model = data("models", family)
                self.ok("eval", model, "--tokens", ids(golden["tokens"]), "--logits", self.path("logits"))
                logits, wanted = floats(self.path("logits")), floats(data("models", family, "logits.f32"))
                self.assertEqual(len(logits), golden["shape"][0] * golden["shape"][1])
                scale = max(map(abs, wanted))
                self.assertLess(max(abs(a - b) for a, b in zip(logits, wanted)), 2e-4 * scale)
                greedy = self.ok("eval", model, "--tokens", ids(golden["greedy_prompt"], " "), "--greedy",
                                 len(golden["greedy"]))
                self.assertEqual(greedy, ids(golden["greedy"], " ") + "\n")

    def test_logits_and_greedy_in_one_run_from_a_file_on_the_reference(self):
        golden = expected("gemma3")
        tokens = self.write("ids", ids(golden["greedy_prompt"], "\n"))
        answer = self.json("eval", data("models", "gemma3"), "--tokens", "@" + tokens, "--logits", self.path("out"),
                           "--greedy", len(golden["greedy"]), "--device", "cpu:reference", "--threads", 1, "--json")
        self.assertEqual(answer, {"ids": golden["greedy"]})
        self.assertEqual(len(floats(self.path("out"))), len(golden["greedy_prompt"]) * golden["shape"][1])

    def test_perplexity_of_a_text(self):
        text = self.write("text", "Once upon a time there was a little fox. The fox had a lantern.\n" * 4)
        result = self.json("eval", "tales", "--text", text, "--json")
        self.assertGreater(result["perplexity"], 1)
        self.assertAlmostEqual(result["perplexity"], math.exp(result["nll"]), places=3)
        self.assertIn(f"perplexity {result['perplexity']:.2f}", self.ok("eval", "tales", "--text", text))
        noise = self.write("noise", "qzx vbn kjh 9f8 wxq zzk pq xv jj qq " * 8)
        self.assertGreater(self.json("eval", "tales", "--text", noise, "--json")["perplexity"],
                           result["perplexity"])

    def test_windows_of_a_context(self):
        text = self.write("text", "The fox went home. " * 40)
        result = self.json("eval", "tales", "--text", text, "--json", "--context", 32)
        self.assertEqual(result["context"], 32)

    def test_errors(self):
        model = data("models", "llama")
        self.assertIn("token id 99999", self.fails("eval", model, "--tokens", "1,99999", "--greedy", 1))
        self.assertIn("'one'", self.fails("eval", model, "--tokens", "one", "--greedy", 1))
        self.assertIn("no token ids", self.fails("eval", model, "--tokens", "", "--greedy", 1))
        self.assertIn("context", self.fails("eval", model, "--tokens", "1,2,3", "--greedy", 1, "--context", 2))
        self.assertIn("tokenizer", self.fails("eval", model, "--text", self.write("text", "hello")))
        self.fails("eval", model, "--tokens", "1", "--logits", self.path("no such directory", "out"))
        self.assertIn("No space left", self.fails("eval", model, "--tokens", "1", "--logits", "/dev/full"))
        self.assertIn("two tokens", self.fails("eval", "tales", "--text", self.write("empty", "")))
        self.fails("eval", model, code=2)
        self.fails("eval", model, "--tokens", "1", code=2)
        self.fails("eval", model, "--greedy", "5", code=2)
        self.fails("eval", model, "--tokens", "1", "--greedy", "0", code=2)
        self.fails("eval", model, "--tokens", "1", "--greedy", "1", "--kv", "q4_0", code=2)


if __name__ == "__main__":
    harness.main()
