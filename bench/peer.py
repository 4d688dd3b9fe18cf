#!/usr/bin/env python3
"""Tandem beside llama.cpp: the same model files on the CPU, one after the other, several rounds.

  bench/peer.py 1b-q4_0.gguf 4b-q4_k_m.gguf                     1 and 2 threads, 3 rounds
  bench/peer.py model.gguf --rounds 1 --what decode --threads 8
  bench/peer.py model.gguf --llama-bench 'ssh host llama-bench' any command that takes llama-bench's arguments

Measured are decode of one sequence with each number of threads, and with the most of them decode of 8 and of 32
sequences and a prompt of 512 tokens. A figure is the best of the rounds, in tokens/s, since anything else that runs only
slows one down; the read rate that its share is of is the one that `tandem bench` measured in the same run.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys

PROMPT = 512
CONTEXT = 128  # of batches: positions that sequences have behind them; those decoded by llama-bench have none
STEPS = 24  # of a decode measurement
BATCH_STEPS = 8  # the same of several sequences, which take longer
BATCHES = (8, 32)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="GGUF files")
    parser.add_argument("--binary", default="build/tandem")
    parser.add_argument("--llama-bench", default="llama-bench", help="command (llama-bench)")
    parser.add_argument("--llama-batched-bench", default="llama-batched-bench", help="command (llama-batched-bench)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (1,2)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--what", default="decode,batch,prompt", help="of these three, those to measure (all)")
    parser.add_argument("--json", action="store_true", help="print every figure of every round as well")
    arguments = parser.parse_args()
    arguments.threads = sorted(int(n) for n in arguments.threads.split(","))
    arguments.what = arguments.what.split(",")
    unknown = set(arguments.what) - {"decode", "batch", "prompt"}
    if unknown:
        parser.error(f"--what {','.join(sorted(unknown))}: choose of decode, batch, prompt")
    return arguments


def run(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise SystemExit(f"{command[0]} cannot be started: {error.strerror}")
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def peer_decode(arguments, model, threads):
    command = shlex.split(arguments.llama_bench) + ["-m", model, "-t", str(threads), "-p", "0", "-n", str(STEPS), "-r", "1", "-o", "json"]
    return json.loads(run(command))[0]["avg_ts"]


def peer_prompt(arguments, model, threads):
    command = shlex.split(arguments.llama_bench) + ["-m", model, "-t", str(threads), "-p", str(PROMPT), "-n", "0", "-r", "1", "-o", "json"]
    return json.loads(run(command))[0]["avg_ts"]


def peer_batch(arguments, model, threads, sequences):
    command = shlex.split(arguments.llama_batched_bench) + [
        "-m", model, "-t", str(threads), "-tb", str(threads), "-npp", str(CONTEXT), "-ntg", str(BATCH_STEPS), "-npl", str(sequences),
        "-pps", "-c", str(CONTEXT + sequences * (BATCH_STEPS + 8)), "--output-format", "jsonl"]
    lines = [line for line in run(command).splitlines() if line.startswith("{")]
    return json.loads(lines[-1])["speed_tg"]


def tandem(arguments, model, threads, *measurement):
    """Tokens/s and the share of the read rate."""
    report = json.loads(run([arguments.binary, "bench", model, "--device", "cpu", "--threads", str(threads), "--json", *measurement]))
    row = report["rows"][0]
    return row["tokens_per_s"], row["read_share"]


def measurements(arguments):
    """Each as (name, the peer's tokens/s of a model, ours and the share)."""
    most = arguments.threads[-1]
    if "decode" in arguments.what:
        for threads in arguments.threads:
            yield (f"1 sequence, {threads} thread{'s' if threads > 1 else ''}",
                   lambda model, threads=threads: peer_decode(arguments, model, threads),
                   lambda model, threads=threads: tandem(arguments, model, threads, "--decode", "1", "--context", "0",
                                                         "--prompt", "0", "--repeat", str(STEPS)))
    if "batch" in arguments.what:
        for sequences in BATCHES:
            yield (f"{sequences} sequences",
                   lambda model, sequences=sequences: peer_batch(arguments, model, most, sequences),
                   lambda model, sequences=sequences: tandem(arguments, model, most, "--decode", str(sequences), "--context",
                                                             str(CONTEXT), "--prompt", "0", "--repeat", str(BATCH_STEPS)))
    if "prompt" in arguments.what:
        yield (f"prompt of {PROMPT}", lambda model: peer_prompt(arguments, model, most),
               lambda model: tandem(arguments, model, most, "--decode", "0", "--prompt", str(PROMPT), "--repeat", "2"))


def main():
    arguments = parse_arguments()
    rows = []
    for model in arguments.models:
        if not os.path.exists(model):
            raise SystemExit(f"{model}: no such file")
        for name, peer, ours in measurements(arguments):
            theirs, speeds, shares = [], [], []
            for _ in range(arguments.rounds):
                theirs.append(peer(model))
                speed, share = ours(model)
                speeds.append(speed)
                shares.append(share)
            rows.append((os.path.basename(model), name, theirs, speeds, shares))
            print(f"{rows[-1][0]}, {name}: {max(theirs):.1f} and {max(speeds):.1f}", file=sys.stderr)
    print("| | | llama.cpp | Tandem | ratio | of the read rate |\n|---|---|---|---|---|---|")
    for model, name, theirs, speeds, shares in rows:
        share = shares[speeds.index(max(speeds))] if name.startswith("1 sequence") else None
        print(f"| {model} | {name} | {max(theirs):.1f} | {max(speeds):.1f} | {max(speeds) / max(theirs):.2f} | "
              f"{'' if share is None else f'{100 * share:.0f} %'} |")
    if arguments.json:
        print(json.dumps([{"model": model, "what": name, "peer": theirs, "tandem": speeds, "read_share": shares}
                          for model, name, theirs, speeds, shares in rows], indent=1))


if __name__ == "__main__":
    main()
