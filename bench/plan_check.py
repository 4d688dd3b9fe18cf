#!/usr/bin/env python3
"""Compares what `tandem plan` says of models on this machine with what `tandem bench` measures, as a table.

plan_check.py [--binary build/tandem] [--device cpu] [--repeat 5] [--fresh] [SHAPE[:TYPE] ...]

--fresh measures the devices anew first (`tandem doctor`); else what was kept is used, or measured when it is missing.
Nothing else may run meanwhile. Each line of the table is forecast, measured, and forecast / measured.
"""

import argparse
import json
import subprocess
import sys

SHAPES = ["gemma3-1b", "gemma3-4b"]


def run(binary, *args):
    done = subprocess.run([binary, *map(str, args)], stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, args))} failed")
    return json.loads(done.stdout) if "--json" in args else None


def key(row):
    return row["kind"], row["sequences"], row.get("context", row.get("prompt"))


def label(work):
    kind, sequences, length = work
    return f"prompt of {length}" if kind == "prompt" else f"decode, {sequences}, context {length}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=SHAPES)
    parser.add_argument("--binary", default="build/tandem")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--decode", default="1,8,32")
    parser.add_argument("--context", default="512")
    parser.add_argument("--prompt", default="512")
    parser.add_argument("--repeat", default="5")
    parser.add_argument("--fresh", action="store_true")
    options = parser.parse_args()
    if options.fresh:
        subprocess.run([options.binary, "doctor"], stdout=subprocess.DEVNULL, check=False)
    print("| model | work | forecast | measured | ratio |\n|---|---|---|---|---|")
    worst = 1.0
    for name in options.shapes:
        shape, _, dtype = name.partition(":")
        typed = ["--type", dtype] if dtype else []
        planned = run(options.binary, "plan", shape, *typed, "--device", options.device, "--batch", options.decode,
                      "--context", options.context, "--prompt", options.prompt, "--json")
        measured = run(options.binary, "bench", shape, *typed, "--device", options.device, "--decode", options.decode,
                       "--context", options.context, "--prompt", options.prompt, "--repeat", options.repeat, "--json")
        forecasts = {key(row): row["tokens_per_s"] for row in planned["forecasts"]}
        for row in measured["rows"]:
            work = key(row)
            ratio = forecasts[work] / row["tokens_per_s"]
            worst = max(worst, ratio, 1 / ratio)
            print(f"| {name} | {label(work)} | {forecasts[work]:.1f} | {row['tokens_per_s']:.1f} | {ratio:.2f} |",
                  flush=True)
    print(f"\nfurthest off: {100 * (worst - 1):.0f} %")


if __name__ == "__main__":
    main()
