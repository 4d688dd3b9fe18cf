#!/usr/bin/env python3
"""What each weight type costs in quality: perplexity and KL divergence against f16, the table of docs/weight-types.md.

  bench/weight_types.py                              every type that tandem quantize writes, on the embedded model
  bench/weight_types.py --types q4_k,iq4_xs --model model.f16.gguf --text book.txt

Without --text, the text is what the model tells by itself (a seed for each story), so it knows the text well and small
losses show. KL is the mean over all tokens of the sum of p log(p / q), p of the model as it is, in nats.
"""

import argparse
import array
import json
import math
import os
import re
import statistics
import subprocess
import tempfile

ANIMALS = ("fox", "owl", "cat", "dog", "hen", "cow", "bear", "mouse")
CONTEXT = 256  # tokens of a window of logits


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/tandem")
    parser.add_argument("--model", default="assets/tales-f16.gguf", help="what the types are made of (assets/tales-f16.gguf)")
    parser.add_argument("--types", help="separated by commas; all that quantize writes when it is not given")
    parser.add_argument("--text", help="a file to measure on; stories of the model itself when it is not given")
    return parser.parse_args()


class Tandem:
    def __init__(self, binary):
        self.binary = binary

    def __call__(self, *arguments):
        return subprocess.run([self.binary, *map(str, arguments)], check=True, stdout=subprocess.PIPE).stdout.decode()

    def types(self):
        """The types that quantize names in its help, without its mixes and those that p itself is of."""
        found = re.search(r"Type or mix of types: ([\w\s,]+)", self("quantize", "--help"))
        names = re.findall(r"\w+_\w+|\w*fp4", found[1])
        return [name for name in names if not re.fullmatch(r"q\d_k_[sml]|iq3_xs|iq[23]_m|mxfp4_moe", name)]


def stories(tandem, model):
    prompts = ((seed, f"Tell me a story about a {animal}.") for seed, animal in enumerate(ANIMALS))
    return "\n".join(tandem("run", model, prompt, "--seed", seed, "-n", 200, "--device", "cpu").strip()
                     for seed, prompt in prompts)


def log_probabilities(tandem, model, start, ids, folder):
    """For each token of `ids` the logarithms of what may follow it; each window of them comes after `start`."""
    file = os.path.join(folder, "logits")
    for first in range(0, len(ids), CONTEXT):
        window = start + ids[first:first + CONTEXT]
        tandem("eval", model, "--tokens", ",".join(map(str, window)), "--logits", file, "--device", "cpu")
        logits = array.array("f")
        with open(file, "rb") as content:
            logits.frombytes(content.read())
        vocab = len(logits) // len(window)
        for row in range(len(start), len(window)):
            values = logits[row * vocab:(row + 1) * vocab]
            largest = max(values)
            total = largest + math.log(sum(math.exp(value - largest) for value in values))
            yield [value - total for value in values]


def divergence(p_rows, q_rows):
    """Its mean and the standard error of that: single tokens, where a name may be any, have most of it."""
    sums = [sum(math.exp(p) * (p - q) for p, q in zip(p_row, q_row)) for p_row, q_row in zip(p_rows, q_rows)]
    return statistics.mean(sums), statistics.stdev(sums) / math.sqrt(len(sums))


def main():
    arguments = parse_arguments()
    tandem = Tandem(arguments.binary)
    with tempfile.TemporaryDirectory() as folder:
        text = arguments.text or os.path.join(folder, "text")
        if not arguments.text:
            with open(text, "w", encoding="utf-8") as file:
                file.write(stories(tandem, arguments.model))
        with open(text, encoding="utf-8") as file:
            content = file.read()
        ids = json.loads(tandem("tokenize", arguments.model, content, "--json", "--no-bos"))["ids"]
        whole = json.loads(tandem("tokenize", arguments.model, content, "--json"))["ids"]
        start = whole[:len(whole) - len(ids)]

        def perplexity(model):
            return json.loads(tandem("eval", model, "--text", text, "--json", "--device", "cpu"))["perplexity"]

        reference = list(log_probabilities(tandem, arguments.model, start, ids, folder))
        base = perplexity(arguments.model)
        print(f"{len(ids)} tokens; {arguments.model}: perplexity {base:.4f}\n")
        print("| type | bits per weight | perplexity | more | KL divergence |\n|---|---|---|---|---|")
        for name in arguments.types.split(",") if arguments.types else tandem.types():
            out = os.path.join(folder, "out.gguf")
            # The type alone, also where its name is that of a mix; q4_k and q5_k keep q6_k for the logits, as files have it.
            alone = [] if name in ("q4_k", "q5_k") else ["--tensor-type", f".={name}"]
            line = tandem("quantize", arguments.model, out, "--type", name, *alone, "--force")
            bits = re.search(r"([\d.]+) bits per weight", line)[1]
            measured = perplexity(out)
            kl, error = divergence(reference, log_probabilities(tandem, out, start, ids, folder))
            more = 100 * (measured / base - 1)
            print(f"| {name} | {bits} | {measured:.4f} | {more:+.2f} % | {kl:.5f} +- {error:.5f} |", flush=True)


if __name__ == "__main__":
    main()
