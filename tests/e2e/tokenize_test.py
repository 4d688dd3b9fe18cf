"""tandem tokenize: golden vectors both ways, every kind of input, and its errors."""

import json

import harness
from harness import data

GOLDEN = {"bpe-gpt2": "tokenizer.json", "bpe-llama3": "tokenizer.json", "spm-bpe-gemma": "tokenizer.model",
          "spm-unigram-llama": "tokenizer.model"}


class Tokenize(harness.Case):
    def test_golden_vectors_both_ways(self):
        for name, file in GOLDEN.items():
            with open(data("tokenizers", name, "expected.json"), encoding="utf-8") as expected:
                cases = json.load(expected)
            tokenizer = data("tokenizers", name, file)
            for case in cases[:: 6]:  # unit tests have them all; here it is the way in and out that matters
                with self.subTest(tokenizer=name, text=case["text"]):
                    stdin = case["text"].encode("utf-8", "surrogatepass")
                    ids = self.json("tokenize", tokenizer, "--stdin", "--no-bos", "--json", stdin=stdin)
                    self.assertEqual(ids, {"ids": case["ids"]})
                    listed = ",".join(map(str, case["ids"]))
                    back = self.json("tokenize", tokenizer, "--decode", listed, "--json")
                    self.assertEqual(back, {"text": case["decoded"]})

    def test_text_as_argument_and_as_standard_input_agree(self):
        tokenizer = data("tokenizers", "spm-bpe-gemma", "tokenizer.model")
        text = "Once upon a time,\n  there was \u00e4 fox \U0001f98a\n"
        by_argument = self.json("tokenize", tokenizer, text, "--json")
        by_stdin = self.json("tokenize", tokenizer, "--stdin", "--json", stdin=text.encode())
        self.assertEqual(by_argument, by_stdin)

    def test_table_lists_ids_and_pieces(self):
        tokenizer = data("tokenizers", "bpe-gpt2", "tokenizer.json")
        ids = self.json("tokenize", tokenizer, "hello world", "--json")["ids"]
        lines = self.ok("tokenize", tokenizer, "hello world").splitlines()
        self.assertEqual(lines[0].split(), ["ID", "PIECE"])
        self.assertEqual([int(line.split()[0]) for line in lines[1:]], ids)

    def test_decode_takes_spaces_commas_and_files(self):
        tokenizer = data("tokenizers", "bpe-gpt2", "tokenizer.json")
        ids = self.json("tokenize", tokenizer, "hello world", "--json")["ids"]
        file = self.write("ids", "\n".join(map(str, ids)))
        for form in (" ".join(map(str, ids)), ", ".join(map(str, ids)), "@" + file):
            self.assertEqual(self.ok("tokenize", tokenizer, "--decode", form), "hello world\n")

    def test_empty_text(self):
        tokenizer = data("tokenizers", "bpe-gpt2", "tokenizer.json")
        self.assertEqual(self.json("tokenize", tokenizer, "", "--json"), {"ids": []})
        self.assertEqual(self.json("tokenize", tokenizer, "--stdin", "--json"), {"ids": []})
        self.assertEqual(self.json("tokenize", tokenizer, "--decode", "", "--json"), {"text": ""})

    def test_bytes_that_are_no_utf8(self):
        tokenizer = data("tokenizers", "bpe-gpt2", "tokenizer.json")
        ids = self.json("tokenize", tokenizer, "--stdin", "--json", stdin=b"a\xff\x00b")["ids"]
        self.assertEqual(self.json("tokenize", tokenizer, "--decode", " ".join(map(str, ids)), "--json"),
                         {"text": "a\ufffd\x00b"})

    def test_embedded_model(self):
        ids = self.json("tokenize", "tales", "Once upon a time", "--json")["ids"]
        plain = self.json("tokenize", "tales", "Once upon a time", "--no-bos", "--json")["ids"]
        self.assertEqual(ids[1:], plain)
        self.assertEqual(self.ok("tokenize", "tales", "--decode", " ".join(map(str, plain))), "Once upon a time\n")

    def test_special_tokens_in_the_text(self):
        text = "<start_of_turn>user"
        parsed = self.json("tokenize", "tales", text, "--no-bos", "--json")["ids"]
        as_text = self.json("tokenize", "tales", text, "--no-bos", "--no-special", "--json")["ids"]
        self.assertLess(len(parsed), len(as_text))
        listed = " ".join(map(str, parsed))
        self.assertEqual(self.ok("tokenize", "tales", "--decode", listed), "user\n")
        self.assertEqual(self.ok("tokenize", "tales", "--decode", listed, "--special"), text + "\n")

    def test_errors(self):
        tokenizer = data("tokenizers", "bpe-gpt2", "tokenizer.json")
        self.assertIn("token id 99999999", self.fails("tokenize", tokenizer, "--decode", "1,99999999"))
        self.assertIn("'x'", self.fails("tokenize", tokenizer, "--decode", "1,x"))
        self.assertIn("nothing.json", self.fails("tokenize", self.path("nothing.json"), "text"))
        self.fails("tokenize", tokenizer, code=2)
        self.fails("tokenize", tokenizer, "text", "--stdin", code=2)
        self.fails("tokenize", code=2)
        self.fails("tokenize", self.write("bad.json", "{\"model\": 3}"), "text")
        self.fails("tokenize", self.write("bad.model", b"\xff" * 100), "text")
        self.fails("tokenize", data("models", "gemma3"), "text")


if __name__ == "__main__":
    harness.main()
