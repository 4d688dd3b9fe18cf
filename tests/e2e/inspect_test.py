"""tandem inspect: summaries, tensors, the graph, JSON and rendered prompts."""

import json
import os
import struct

import harness
from harness import data

GEMMA_LIKE = ("{{ bos_token }}{% for message in messages %}<start_of_turn>{{ message['role'] }}\n"
              "{{ message['content'] | trim }}<end_of_turn>\n{% endfor %}"
              "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}")


def gguf(metadata=(), tensors=()):
    """A GGUF file of strings and one-dimensional f32 tensors."""
    def text(value):
        return struct.pack("<Q", len(value)) + value

    out = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata))
    for key, value in metadata:
        out += text(key) + struct.pack("<I", 8) + text(value)
    offset, blob = 0, b""
    for name, count in tensors:
        out += text(name) + struct.pack("<IQIQ", 1, count, 0, offset)
        size = (4 * count + 31) // 32 * 32
        blob += bytes(size)
        offset += size
    return out + bytes(-len(out) % 32) + blob


class Inspect(harness.Case):
    def test_directory(self):
        out = self.ok("inspect", data("models", "gemma3"))
        self.assertRegex(out, r"family +gemma3_text\n")
        self.assertRegex(out, r"layers +7\n")
        self.assertRegex(out, r"vocabulary +320\n")
        self.assertRegex(out, r"model\.embed_tokens\.weight +f32 +\[320, 64\] +80\.0 KiB\n")
        self.assertRegex(out, r"bits per weight +32\.00\n")

    def test_json_is_complete(self):
        model = data("models", "qwen3")
        result = self.json("inspect", model, "--json")
        with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
            self.assertEqual(result["metadata"], json.load(file))
        self.assertEqual(sum(t["size_bytes"] for t in result["tensors"]), result["totals"]["f32"]["size_bytes"])
        self.assertEqual(result["format"], "Hugging Face")

    def test_embedded_model(self):
        result = self.json("inspect", "tales", "--json")
        self.assertEqual(result["family"], "gemma3")
        self.assertGreaterEqual(result["layers"], 6)
        self.assertEqual(len(result["metadata"]["tokenizer.ggml.tokens"]), result["vocabulary"])
        self.assertIn("tokenizer.ggml.tokens", self.ok("inspect", "tales", "--metadata"))
        self.assertNotIn("KEY", self.ok("inspect", "tales", "--tensors"))

    def test_graph(self):
        for family in ("gemma3", "llama", "mistral", "qwen2", "qwen3"):
            out = self.ok("inspect", data("models", family), "--graph")
            self.assertIn("attention(", out)
            self.assertIn("token_embd.weight", out)
        self.assertEqual(self.json("inspect", data("models", "qwen3"), "--graph", "--json")["graph"], out)

    def test_unknown_family_can_be_inspected_but_not_run(self):
        model = self.write("odd.gguf", gguf([(b"general.architecture", b"mamba9000")], [(b"a.weight", 5)]))
        self.assertIn("mamba9000", self.ok("inspect", model))
        self.assertIn("mamba9000", self.fails("inspect", model, "--graph"))
        self.assertIn("mamba9000", self.fails("run", model, "hello"))
        self.assertIn("mamba9000", self.fails("eval", model, "--tokens", "1", "--greedy", "1"))

    def test_foreign_tensor_types_are_shown_but_not_run(self):
        with open(os.path.join(data(), "..", "..", "assets", "tales-q8_0.gguf"), "rb") as file:
            content = bytearray(file.read())
        name = b"blk.0.attn_q.weight"
        at = content.index(name) + len(name) + 4 + 2 * 8  # behind the dimensions
        self.assertEqual(struct.unpack_from("<I", content, at), (8,))
        for number, shown in ((15, "q8_k"), (77, "type 77")):
            with self.subTest(type=shown):
                struct.pack_into("<I", content, at, number)
                model = self.write("odd.gguf", bytes(content))
                self.assertRegex(self.ok("inspect", model), rf"blk\.0\.attn_q\.weight +{shown} ")
                known = self.json("inspect", "tales", "--json")
                result = self.json("inspect", model, "--json")
                self.assertEqual(result["parameters"], known["parameters"])
                self.assertEqual(len(result["tensors"]), len(known["tensors"]))
                self.assertEqual(result["totals"][shown]["tensors"], 1)
                self.ok("tokenize", model, "hello")
                for command in (["run", model, "hello"], ["inspect", model, "--graph"],
                                ["quantize", model, self.path("out.gguf"), "--type", "q4_0"]):
                    line = self.fails(*command)
                    self.assertIn("'blk.0.attn_q.weight' is stored as " + shown, line)

    def test_names_in_a_file_do_not_reach_the_terminal_as_they_are(self):
        model = self.write("odd.gguf", gguf([(b"general.name", b"\x1b[31mred\nline")], [(b"t", 5)]))
        out = self.ok("inspect", model)
        self.assertNotIn("\x1b", out)
        self.assertIn("\\x1b[31mred\\nline", out)
        line = self.fails("inspect", self.write("odd.gguf", gguf([], [(b"t\x1b[0m", 5)])))
        self.assertNotIn("\x1b", line)

    def test_render_with_a_template_file(self):
        template = self.write("template.jinja", GEMMA_LIKE)
        messages = [{"role": "user", "content": " Hi "}, {"role": "model", "content": "Hello"}]
        file = self.write("messages.json", json.dumps(messages))
        turns = "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n"
        self.assertEqual(self.ok("inspect", "--render", file, "--template", template),
                         turns + "<start_of_turn>model\n")
        self.assertEqual(self.ok("inspect", "--render", file, "--template", template, "--no-generation-prompt"),
                         turns)
        wrapped = json.dumps({"messages": messages, "bos_token": "<B>", "add_generation_prompt": False}).encode()
        self.assertEqual(self.ok("inspect", "--render", "-", "--template", template, stdin=wrapped), "<B>" + turns)

    def test_render_passes_tools_and_variables_in_order(self):
        template = self.write("template.jinja", "{{ tools | tojson }} {{ mood }}")
        value = {"messages": [], "tools": [{"z": 1, "a": [True, None]}], "mood": "good"}
        file = self.write("messages.json", json.dumps(value))
        self.assertEqual(self.ok("inspect", "--render", file, "--template", template),
                         '[{"z": 1, "a": [true, null]}] good')

    def test_render_with_the_embedded_template(self):
        file = self.write("messages.json", '[{"role": "user", "content": "Hi"}]')
        self.assertEqual(self.ok("inspect", "tales", "--render", file),
                         "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n")

    def test_render_errors(self):
        template = self.write("template.jinja", "{{ raise_exception('no such role') }}")
        good = self.write("messages.json", "[]")
        self.assertIn("no such role", self.fails("inspect", "--render", good, "--template", template))
        self.fails("inspect", "--render", good, "--template", self.write("bad.jinja", "{% if %}"))
        self.fails("inspect", "--render", good, "--template", self.path("missing"))
        self.fails("inspect", "--render", self.write("bad.json", "{"), "--template", template)
        self.fails("inspect", "--render", self.write("number.json", "3"), "--template", template)
        self.assertIn("no chat template", self.fails("inspect", data("models", "llama"), "--render", good))
        self.fails("inspect", "--render", good, code=2)
        self.fails("inspect", "tales", "--template", template, code=2)
        self.fails("inspect", code=2)


if __name__ == "__main__":
    harness.main()
