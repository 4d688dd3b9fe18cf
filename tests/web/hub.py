"""A hub of models for the tests of the page: prints its address, then keeps the file half-way until a line comes in."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))

from hub_server import Fault, Hub, Repository  # noqa: E402

with open(os.path.join(HERE, "..", "..", "assets", "tales-q8_0.gguf"), "rb") as file:
    MODEL = file.read()

with Hub({"ggml-org/gemma-3-1b-it-GGUF": Repository({"gemma-3-1b-it-Q4_K_M.gguf": MODEL})}) as hub:
    hub.faults = [Fault("/blob/", hang_after=len(MODEL) // 2, times=9)]
    print(hub.url, flush=True)
    sys.stdin.readline()
    hub.faults = []
    hub.release.set()
    sys.stdin.read()
