"""Bad paths, files that are no models, too little memory, full disks: one clear line each, and an exit code."""

import os
import resource
import signal
import struct
import unittest

import harness
from harness import data


class BadModels(harness.Case):
    def everywhere(self, model):
        """Every command that opens a model says the same kind of thing; the line of `run`."""
        self.fails("inspect", model)
        self.fails("eval", model, "--tokens", "1", "--greedy", "1")
        self.fails("tokenize", model, "text")
        self.fails("quantize", model, self.path("out.gguf"), "--type", "q8_0")
        self.assertFalse(os.path.exists(self.path("out.gguf")))
        line = self.fails("run", model, "hello")
        self.assertIn(os.path.basename(model), line)
        return line

    def test_bad_path(self):
        self.assertIn("tales", self.everywhere(self.path("missing.gguf")))
        self.assertIn("missing.gguf", self.fails("run", self.path("missing.gguf")))

    def test_a_word_that_is_no_model(self):
        line = self.fails("run", "hello")
        self.assertIn("hello", line)
        self.assertIn("tales", line)

    def test_files_that_are_no_models(self):
        for name, content, said in (
                ("empty.gguf", b"", "it is empty"),
                ("text.gguf", b"Dear reader,\nthis is no model.\n" * 10, "it is a text"),
                ("noise.bin", bytes(range(256)) * 16, "not a GGUF file"),
                ("page.gguf", b"<!DOCTYPE html><html>Not found</html>", "it is a web page"),
                ("error.gguf", b'{"error": "Repository not found"}', "an error message in place of the file"),
                ("pointer.gguf", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7\n", "git lfs pull"),
                ("zeros.gguf", bytes(4096), "the download is incomplete"),
                ("cut.gguf", b"GGUF" + struct.pack("<IQQ", 3, 5, 5), "the download is incomplete"),
                ("huge.gguf", b"GGUF" + struct.pack("<IQQ", 3, 2**62, 2**62) + bytes(64), "the file is damaged")):
            with self.subTest(name=name):
                self.assertIn(said, self.everywhere(self.write(name, content)))

    def test_a_download_that_stopped(self):
        self.ok("quantize", "tales", self.path("whole.gguf"), "--type", "q4_0")
        with open(self.path("whole.gguf"), "rb") as file:
            whole = file.read()
        for size in (3, 10, 100, 100_000, len(whole) - 1):
            with self.subTest(size=size):
                part = self.write("part.gguf", whole[:size])
                self.assertIn("the download is incomplete", self.fails("run", part, "hello"))

    def test_directories_that_are_no_models(self):
        self.everywhere(self.directory)
        os.mkdir(self.path("half"))
        self.write("half/config.json", '{"model_type": "llama"}')
        self.everywhere(self.path("half"))

    def test_a_device_is_no_model(self):
        self.fails("run", "/dev/null", "hello")
        self.fails("inspect", "/dev/zero")

    def test_unknown_family(self):
        os.mkdir(self.path("new"))
        self.write("new/config.json", '{"model_type": "brandnew", "architectures": ["BrandNewForCausalLM"]}')
        header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  '
        self.write("new/model.safetensors", struct.pack("<Q", len(header)) + header + bytes(4))
        line = self.fails("run", self.path("new"), "hello")
        self.assertIn("brandnew", line)
        self.assertIn("gemma3", line)  # what is supported

    def test_model_without_tokenizer(self):
        self.assertIn("tokenizer", self.fails("run", data("models", "llama"), "hello"))


def limit_memory(size_bytes):
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (size_bytes, size_bytes))


def limit_file_size(size_bytes):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes))
    return limit


class ScarceResources(harness.Case):
    @unittest.skipIf(harness.SANITIZED, "the sanitizer itself needs the address space")
    def test_context_beyond_the_memory(self):
        self.assertIn("context", self.fails("run", "tales", "hello", "--context", "2000000000").lower())

    @unittest.skipIf(harness.SANITIZED, "the sanitizer itself needs the address space")
    def test_too_small_memory(self):
        for size in (350 << 20, 250 << 20, 200 << 20):
            with self.subTest(size=size):
                self.fails("run", "tales", "hello", "--context", "4000000", "--threads", 1, limit=limit_memory(size))

    def test_full_disk_leaves_nothing_behind(self):
        before = os.listdir(self.directory)
        line = self.fails("quantize", "tales", self.path("out.gguf"), "--type", "q4_0", limit=limit_file_size(1 << 20))
        self.assertIn("out.gguf", line)
        self.assertEqual(os.listdir(self.directory), before)
        self.fails("eval", data("models", "llama"), "--tokens", "1 2 3 4 5 6 7 8 9", "--logits", self.path("logits"),
                   limit=limit_file_size(100))
        self.assertEqual(os.listdir(self.directory), before)


if __name__ == "__main__":
    harness.main()
