"""tandem quantize: types and mixes, importance matrices, that the result is a model with the same tokenizer, its errors."""

import os
import resource
import signal
import struct

import harness
from harness import data

TYPES = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl",
         "iq4_xs", "mxfp4", "nvfp4", "iq3_s", "iq3_xxs", "iq2_s", "iq2_xs", "iq2_xxs", "iq1_s", "iq1_m", "tq1_0", "tq2_0", "q2_0", "q1_0"]
TEXT = "Once upon a time there was a fox who lived in a small house near the forest. " * 20


def sparse_gguf(path, cols, rows):
    """A GGUF file with one f32 matrix of zeros that takes no room on the disk."""
    name = b"a.weight"
    head = struct.pack("<4sIQQ", b"GGUF", 3, 1, 0) + struct.pack("<Q", len(name)) + name
    head += struct.pack("<IQQIQ", 2, cols, rows, 0, 0)
    head += bytes(-len(head) % 32)
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + 4 * cols * rows)
    return path


def has_unnamed_files(directory):
    try:
        os.close(os.open(directory, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        return False
    return True


class Quantize(harness.Case):
    def test_every_type_gives_a_model_that_runs(self):
        sizes = {}
        for name in TYPES:
            with self.subTest(type=name):
                out = self.path(name + ".gguf")
                # the type alone, also where its name is that of a mix; those of code books take long: one layer of them
                where = "blk.0." if name.startswith(("iq1", "iq2", "iq3")) else "."
                line = self.ok("quantize", harness.TALES_F16, out, "--type", name.upper() if where == "." else "q8_0",
                               "--tensor-type", f"{where}={name}")
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
                out = self.path(family + ".gguf")
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
            self.ok("quantize", model, out, "--type", "f16", "--force")
            for text in texts:
                with self.subTest(tokenizer=tokenizer, text=text):
                    self.assertEqual(self.json("tokenize", out, text, "--json"),
                                     self.json("tokenize", model, text, "--json"))
            arguments = ["Hello there", "--greedy", "-n", 8, "--json"]
            # Both in f16 after the first step, so that the weights are the same too.
            again = self.path("again.gguf")
            self.ok("quantize", out, again, "--type", "f16", "--force")
            self.assertEqual(self.json("run", out, *arguments)["ids"], self.json("run", again, *arguments)["ids"])
            messages = self.write("messages.json", '[{"role": "user", "content": "template"}]')
            self.assertEqual(self.ok("inspect", out, "--render", messages), "template")

    def begin(self, model):
        """Quantizing at a terminal, in the middle of it."""
        terminal = harness.Terminal(["quantize", model, self.path("out.gguf"), "--type", "q6_k"], self.environment())
        self.addCleanup(terminal.kill)
        terminal.expect(r"quantize \[#*\.*\] +[1-9][0-9]?%")
        return terminal

    def test_an_interrupted_run_leaves_nothing_and_says_so(self):
        model = sparse_gguf(self.path("large.gguf"), 4096, 1 << 15)
        for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=ending.name):
                terminal = self.begin(model)
                os.kill(terminal.pid, ending)
                terminal.expect(r"interrupted: [^\n]*out\.gguf was not written\n")
                self.assertEqual(terminal.end(), 128 + ending)
                self.assertEqual(os.listdir(self.directory), ["large.gguf"])

    def test_an_input_that_gets_shorter_leaves_nothing(self):
        if not has_unnamed_files(self.directory):
            self.skipTest("a file system without unnamed files")
        model = sparse_gguf(self.path("large.gguf"), 4096, 1 << 15)
        terminal = self.begin(model)
        os.truncate(model, 4096)
        terminal.expect(r"large\.gguf: the file got shorter")
        self.assertEqual(terminal.end(), 1)
        self.assertEqual(os.listdir(self.directory), ["large.gguf"])

    def test_rows_that_do_not_suit_get_the_next_larger_type(self):
        model = sparse_gguf(self.path("narrow.gguf"), 1152, 64)  # as wide as Gemma 3 1B
        for asked, stored, bits in (("q4_k", "q5_0", 5.5), ("q5_k", "q5_1", 6), ("q6_k", "q8_0", 8.5)):
            with self.subTest(asked=asked):
                out = self.path(asked + ".gguf")
                done = self.tandem("quantize", model, out, "--type", asked)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr.decode(),
                                 rf"1 matrix of 1152 columns as {stored} \(no multiple of 256, .*{bits:.2f} bits")
                self.assertIn(f"{bits:.2f} bits per weight", done.stdout.decode())
                self.assertEqual(list(self.json("inspect", out, "--json")["totals"]), [stored])
        self.assertEqual(self.tandem("quantize", model, self.path("q4_0.gguf"), "--type", "q4_0").stderr, b"")

    def types(self, path):
        return {tensor["name"]: tensor["type"] for tensor in self.json("inspect", path, "--json")["tensors"]}

    def test_a_mix_is_named_in_the_file(self):
        out = self.path("out.gguf")
        for mix, number in (("q4_k_m", 15), ("Q5_K_S", 16), ("q4_0", 2)):
            self.ok("quantize", harness.TALES_F16, out, "--type", mix, "--force")
            report = self.json("inspect", out, "--json")
            self.assertEqual(report["quantization"], mix.lower())
            self.assertEqual(report["metadata"]["general.file_type"], number)
            self.assertEqual(report["metadata"]["general.quantization_version"], 2)
        self.assertIn("quantization", self.ok("inspect", out))

    def test_a_dry_run_tells_what_would_be_written(self):
        arguments = ["--type", "q4_k_m", "--output-type", "q8_0", "--tensor-type", r"blk\.0\.ffn_down=f16",
                     "--tensor-type", "ffn_down=Q5_1"]
        table = self.ok("quantize", harness.TALES_F16, *arguments, "--dry-run")
        self.assertEqual(os.listdir(self.directory), [])
        out = self.path("out.gguf")
        line = self.ok("quantize", harness.TALES_F16, out, *arguments)
        types = self.types(out)
        self.assertEqual(types["blk.0.ffn_down.weight"], "f16")
        self.assertEqual(types["blk.1.ffn_down.weight"], "q5_1")
        self.assertEqual(types["output.weight" if "output.weight" in types else "token_embd.weight"], "q8_0")
        for tensor, kind in types.items():
            self.assertRegex(table, rf"(?m)^{tensor} .* {kind} +[0-9.]+ [KM]?i?B$")
        for kind, total in self.json("inspect", out, "--json")["totals"].items():
            self.assertRegex(table, rf"(?m)^{kind} +{total['tensors']} ")
        bits = table.split()[-4]
        self.assertRegex(table, r"\n[0-9.]+ bits per weight\n$")
        self.assertIn(f"{bits} bits per weight", line)

    def test_the_embedding_has_its_own_type(self):
        out = self.path("out.gguf")
        self.ok("quantize", harness.TALES_F16, out, "--type", "q4_0", "--embedding-type", "q5_0", "--output-type", "q8_0")
        types = self.types(out)
        self.assertEqual(types["token_embd.weight"], "q5_0")
        self.assertEqual(types.get("output.weight", "q8_0"), "q8_0")

    def imatrix(self):
        text = self.write("text.txt", TEXT)
        out = self.path("m.imatrix.gguf")
        self.assertIn("perplexity", self.ok("eval", harness.TALES_F16, "--text", text, "--imatrix", out, "--context", 64))
        return out

    def test_an_importance_matrix_of_our_own(self):
        imatrix = self.imatrix()
        report = self.json("inspect", imatrix, "--json")
        self.assertEqual(report["metadata"]["general.type"], "imatrix")
        self.assertEqual(report["metadata"]["imatrix.datasets"], ["text.txt"])
        self.assertEqual(report["metadata"]["imatrix.chunk_size"], 64)
        self.assertGreater(report["metadata"]["imatrix.chunk_count"], 1)
        shapes = {tensor["name"]: tensor["shape"] for tensor in report["tensors"]}
        matrices = [t for t in self.json("inspect", harness.TALES_F16, "--json")["tensors"]
                    if t["name"].startswith("blk.") and len(t["shape"]) == 2]
        self.assertGreater(len(matrices), 0)
        for matrix in matrices:
            self.assertEqual(shapes[matrix["name"] + ".in_sum2"], [1, matrix["shape"][1]])
            self.assertEqual(shapes[matrix["name"] + ".counts"], [1, 1])
        plain, weighted = self.path("plain.gguf"), self.path("weighted.gguf")
        self.ok("quantize", harness.TALES_F16, plain, "--type", "q4_k_m")
        done = self.tandem("quantize", harness.TALES_F16, weighted, "--type", "q4_k_m", "--imatrix", imatrix)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(b"has nothing on", done.stderr)
        with open(plain, "rb") as a, open(weighted, "rb") as b:
            self.assertNotEqual(a.read()[-100000:], b.read()[-100000:])
        metadata = self.json("inspect", weighted, "--json")["metadata"]
        self.assertEqual(metadata["quantize.imatrix.file"], "m.imatrix.gguf")
        self.assertEqual(metadata["quantize.imatrix.dataset"], "text.txt")
        self.assertIn("measures on the CPU", self.fails("eval", harness.TALES_F16, "--text", self.path("text.txt"),
                                                        "--imatrix", self.path("x"), "--device", "vulkan"))
        self.fails("eval", harness.TALES_F16, "--tokens", "1,2", "--imatrix", self.path("x"), "--greedy", 1, code=2)

    def test_an_importance_matrix_of_the_older_format(self):
        cols = next(t["shape"][1] for t in self.json("inspect", harness.TALES_F16, "--json")["tensors"]
                    if t["name"] == "blk.0.ffn_up.weight")

        def entry(name, values):
            return struct.pack("<i", len(name)) + name + struct.pack("<ii", 1, len(values)) + struct.pack(
                f"<{len(values)}f", *values)

        def write(name, *entries):
            path = self.path(name)
            with open(path, "wb") as file:
                file.write(struct.pack("<i", len(entries)) + b"".join(entries))
            return path

        good = write("good.dat", entry(b"blk.0.ffn_up.weight", [1.0 + i % 7 for i in range(cols)]))
        out = self.path("out.gguf")
        done = self.tandem("quantize", harness.TALES_F16, out, "--type", "q4_0", "--imatrix", good)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, rb"has nothing on \d+ matrices, such as ")
        os.remove(out)
        other = write("other.dat", entry(b"blk.0.ffn_up.weight", [1.0] * 7))
        foreign = write("foreign.dat", entry(b"somewhere.weight", [1.0] * 7))
        for path, message in ((other, "has 7 columns for tensor 'blk.0.ffn_up.weight'"), (foreign, "of another one"),
                              (self.write("no.dat", "a text"), "is no importance matrix"),
                              (self.path("nowhere"), "cannot open")):
            with self.subTest(message=message):
                self.assertIn(message, self.fails("quantize", harness.TALES_F16, out, "--type", "q4_0", "--imatrix", path))
        model = self.path("model.gguf")
        self.ok("quantize", "tales", model, "--type", "q8_0")
        self.assertIn("no importance matrix",
                      self.fails("quantize", harness.TALES_F16, out, "--type", "q4_0", "--imatrix", model))
        self.assertFalse(os.path.exists(out))

    def test_a_file_that_cannot_be_written_is_told_before_the_work(self):
        model = sparse_gguf(self.path("large.gguf"), 4096, 1 << 15)

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

        error = self.fails("quantize", model, self.path("out.gguf"), "--type", "q4_0", limit=limit)
        self.assertRegex(error, r"out\.gguf: cannot write 72\.0 MiB: File too large")
        self.assertEqual(os.listdir(self.directory), ["large.gguf"])
        self.assertIn("No space left", self.fails("quantize", "tales", "/dev/full", "--type", "q4_0"))

    def test_a_killed_run_leaves_nothing(self):
        if not has_unnamed_files(self.directory):
            self.skipTest("a file system without unnamed files")
        model = sparse_gguf(self.path("large.gguf"), 4096, 1 << 15)
        terminal = self.begin(model)
        os.kill(terminal.pid, signal.SIGKILL)
        terminal.end()
        self.assertEqual(os.listdir(self.directory), ["large.gguf"])

    def test_what_exists_is_replaced_only_by_force(self):
        out = self.write("out.gguf", "precious")
        self.assertIn("--force", self.fails("quantize", "tales", out, "--type", "q4_0"))
        with open(out, "rb") as file:
            self.assertEqual(file.read(), b"precious")
        self.ok("quantize", "tales", out, "--type", "q4_0", "--force")
        self.assertIn("q4_0", self.json("inspect", out, "--json")["totals"])

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
        self.fails("quantize", model, "--type", "q4_0", code=2)
        out = self.path("out")
        self.assertIn("PATTERN=TYPE", self.fails("quantize", model, out, "--type", "q4_0", "--tensor-type", "x", code=2))
        self.assertIn("no type", self.fails("quantize", model, out, "--type", "q4_0", "--tensor-type", "x=q", code=2))
        self.fails("quantize", model, out, "--type", "q4_0", "--embedding-type", "q4_k_m", code=2)


if __name__ == "__main__":
    harness.main()
