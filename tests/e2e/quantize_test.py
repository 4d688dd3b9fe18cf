"""tandem quantize: sizes, that the result is a model with the same tokenizer, and its errors."""

import os

import harness
from harness import data

TYPES = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k"]


class Quantize(harness.Case):
    def test_every_type_gives_a_model_that_runs(self):
        sizes = {}
        for name in TYPES:
            with self.subTest(type=name):
                out = self.path(name + ".gguf")
                line = self.ok("quantize", "tales-f16", out, "--type", name.upper())
                self.assertRegex(line, r"bits per weight")
                sizes[name] = os.path.getsize(out)
                self.assertIn(name, self.json("inspect", out, "--json")["totals"])
                self.assertGreater(len(self.ok("run", out, "Tell me a story.", "--greedy", "-n", 8)), 8)
        self.assertLess(sizes["q4_0"], sizes["q5_0"])
        self.assertLess(sizes["q5_0"], sizes["q8_0"])
        self.assertLess(sizes["q8_0"], sizes["f16"])
        self.assertLess(sizes["f16"], sizes["f32"])

    def test_f32_of_a_directory_gives_the_same_ids(self):
        for family in ("gemma3", "llama", "llama3-rope", "qwen3"):
            with self.subTest(family=family):
                out = self.path("model.gguf")
                done = self.tandem("quantize", data("models", family), out, "--type", "f32")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(b"no tokenizer", done.stderr)
                arguments = ["--tokens", "5 6 7 8", "--greedy", 12]
                self.assertEqual(self.ok("eval", out, *arguments), self.ok("eval", data("models", family), *arguments))

    def test_the_tokenizer_comes_along(self):
        texts = ["Once upon a time", "  two  spaces\n\n\tand 12345 more", "\u00e4\u4e2d\U0001f98a caf\u00e9 don't",
                 "<unk> </s> x"]
        for tokenizer in ("spm-bpe-gemma/tokenizer.model", "spm-unigram-llama/tokenizer.model",
                          "bpe-gpt2/tokenizer.json", "bpe-llama3/tokenizer.json"):
            model = harness.make_llama(self.path(tokenizer.split("/", maxsplit=1)[0]), 3000,
                                       data("tokenizers", *tokenizer.split("/")), "{{ messages[0].content }}")
            out = self.path("model.gguf")
            self.ok("quantize", model, out, "--type", "f16")
            for text in texts:
                with self.subTest(tokenizer=tokenizer, text=text):
                    self.assertEqual(self.json("tokenize", out, text, "--json"),
                                     self.json("tokenize", model, text, "--json"))
            arguments = ["Hello there", "--greedy", "-n", 8, "--json"]
            # Both in f16 after the first step, so that the weights are the same too.
            again = self.path("again.gguf")
            self.ok("quantize", out, again, "--type", "f16")
            self.assertEqual(self.json("run", out, *arguments)["ids"], self.json("run", again, *arguments)["ids"])
            messages = self.write("messages.json", '[{"role": "user", "content": "template"}]')
            self.assertEqual(self.ok("inspect", out, "--render", messages), "template")

    def test_errors(self):
        model = self.path("model.gguf")
        self.ok("quantize", "tales", model, "--type", "q8_0")
        before = os.path.getsize(model)
        self.assertIn("the model itself", self.fails("quantize", model, model, "--type", "q4_0"))
        os.symlink(model, self.path("link.gguf"))
        self.fails("quantize", model, self.path("link.gguf"), "--type", "q4_0")
        self.assertEqual(os.path.getsize(model), before)
        self.fails("quantize", model, self.directory, "--type", "q4_0")
        self.fails("quantize", model, self.path("no such directory", "out.gguf"), "--type", "q4_0")
        self.assertIn("q3_x", self.fails("quantize", model, self.path("out"), "--type", "q3_x", code=2))
        self.fails("quantize", model, self.path("out"), code=2)
        self.fails("quantize", model, code=2)


if __name__ == "__main__":
    harness.main()
