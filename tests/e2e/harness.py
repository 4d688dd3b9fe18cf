"""Runs the tandem program as a user would: with arguments and pipes, or at a terminal."""

import errno
import fcntl
import json
import os
import pty
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

BINARY = os.environ.get("TANDEM_BINARY", "build/tandem")
SANITIZED = bool(os.environ.get("TANDEM_SANITIZED"))  # limits on the address space do not go with ASan
VULKAN = bool(os.environ.get("TANDEM_VULKAN"))  # the program has that backend
DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")
TALES_F16 = os.path.join(os.path.dirname(os.path.dirname(DATA)), "assets", "tales-f16.gguf")  # as it was trained
TIMEOUT_S = 300


def data(*parts):
    return os.path.join(DATA, *parts)


class Case(unittest.TestCase):
    """A test with a directory of its own, which is also the home of the programs it starts."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="tandem-e2e-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def environment(self, **changes):
        environment = dict(os.environ, HOME=self.directory, TERM="xterm", LC_ALL="C.UTF-8")
        for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            environment.pop(name, None)
        environment.update(changes)
        return environment

    def tandem(self, *args, stdin=b"", limit=None):
        """The finished process, its output as bytes. `limit` runs in the child before the program starts."""
        return subprocess.run([BINARY, *map(str, args)], input=stdin, capture_output=True, timeout=TIMEOUT_S,
                              env=self.environment(), preexec_fn=limit, check=False)

    def ok(self, *args, **options):
        """Standard output of a run that succeeds, as text."""
        done = self.tandem(*args, **options)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return done.stdout.decode()

    def json(self, *args, **options):
        return json.loads(self.ok(*args, **options))

    def fails(self, *args, code=1, **options):
        """The one line on standard error of a run that fails, with nothing on standard output."""
        done = self.tandem(*args, **options)
        error = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, code, error)
        self.assertRegex(error, r"\Atandem: [^\n]+\n\Z")
        self.assertEqual(done.stdout, b"")
        return error


class Terminal:
    """A program at a pseudo-terminal; what it shows is read until an expected text appears."""

    def __init__(self, args, environment, cwd=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # libedit keeps the names of functions that are bound to keys when it is ended: wcsdup() in el_wset()
            environment = {**environment, "LSAN_OPTIONS": "suppressions=" + data("lsan.supp")}
            if cwd:
                os.chdir(cwd)
            os.execve(BINARY, [BINARY, *args], environment)
        self.raw = b""  # with the movements and colours of the line editor
        self.shown = ""
        self.mark = 0

    def _read(self, deadline):
        ready, _, _ = select.select([self.fd], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise AssertionError("timed out; shown so far:\n" + self.shown)
        try:
            piece = os.read(self.fd, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            piece = b""
        self.raw += piece
        self.shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r", "", piece.decode(errors="replace"))
        return piece != b""

    def expect(self, pattern):
        """Reads until the regular expression appears after what was expected before; the match."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            found = re.compile(pattern).search(self.shown, self.mark)
            if found:
                self.mark = found.end()
                return found
            if not self._read(deadline):
                raise AssertionError(f"ended without {pattern!r}; shown:\n" + self.shown)

    def type(self, text):
        os.write(self.fd, text.encode())

    def line(self, text):
        self.type(text + "\r")

    def paste(self, text):
        """As a terminal sends what is pasted when it was asked to mark it."""
        self.type("\x1b[200~" + text.replace("\n", "\r") + "\x1b[201~")

    def interrupt(self):
        self.type("\x03")

    def resize(self, columns, rows=24):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def is_cooked(self):
        """Whether the terminal echoes what is typed and gives it to programs line by line."""
        modes = termios.tcgetattr(self.fd)[3]
        return bool(modes & termios.ICANON) and bool(modes & termios.ECHO)

    def marks_pastes(self):
        """Whether the last thing the terminal was told about pasted text is to mark it."""
        return self.raw.rfind(b"\x1b[?2004h") > self.raw.rfind(b"\x1b[?2004l")

    def end(self, look=None):
        """The exit code of a program that is about to end; `look` is called while the terminal is still there."""
        deadline = time.monotonic() + TIMEOUT_S
        while self._read(deadline):
            pass
        if look:
            look()
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def kill(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self.fd)
            self.pid = 0


def make_llama(directory, vocab, tokenizer=None, chat_template=None, seed=1):
    """A one-layer Llama with random weights in the Hugging Face layout, with the tokenizer file `tokenizer`."""
    dim, heads, kv_heads, ffn = 64, 4, 2, 96
    head_dim = dim // heads
    os.makedirs(directory, exist_ok=True)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocab, "hidden_size": dim,
              "intermediate_size": ffn, "num_hidden_layers": 1, "num_attention_heads": heads,
              "num_key_value_heads": kv_heads, "head_dim": head_dim, "hidden_act": "silu", "rms_norm_eps": 1e-5,
              "rope_theta": 10000.0, "max_position_embeddings": 256, "tie_word_embeddings": True,
              "attention_bias": False, "bos_token_id": 1, "eos_token_id": 2}
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    layer = "model.layers.0."
    shapes = {"model.embed_tokens.weight": [vocab, dim], "model.norm.weight": [dim],
              layer + "input_layernorm.weight": [dim], layer + "post_attention_layernorm.weight": [dim],
              layer + "self_attn.q_proj.weight": [heads * head_dim, dim],
              layer + "self_attn.k_proj.weight": [kv_heads * head_dim, dim],
              layer + "self_attn.v_proj.weight": [kv_heads * head_dim, dim],
              layer + "self_attn.o_proj.weight": [dim, heads * head_dim],
              layer + "mlp.gate_proj.weight": [ffn, dim], layer + "mlp.up_proj.weight": [ffn, dim],
              layer + "mlp.down_proj.weight": [dim, ffn]}
    generator = random.Random(seed)
    header, blob = {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = [generator.gauss(1.0 if len(shape) == 1 else 0.0, 0.1) for _ in range(count)]
        piece = struct.pack(f"<{count}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(blob), len(blob) + len(piece)]}
        blob += piece
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    with open(os.path.join(directory, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded + blob)
    if tokenizer:
        shutil.copy(tokenizer, directory)
    if chat_template:
        with open(os.path.join(directory, "tokenizer_config.json"), "w", encoding="utf-8") as file:
            json.dump({"chat_template": chat_template}, file)
    return directory


def main():
    """`python3 tests/e2e/NAME_test.py --binary build/tandem [unittest arguments]`"""
    global BINARY
    arguments = sys.argv[1:]
    if len(arguments) >= 2 and arguments[0] == "--binary":
        BINARY = os.path.abspath(arguments[1])
        arguments = arguments[2:]
    unittest.main(module="__main__", argv=[sys.argv[0], *arguments])
