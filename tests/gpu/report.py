#!/usr/bin/env python3
"""What the compiler of AMD's GPUs makes of the kernels, for chips that are not here.

report.py --program gpu_report --driver FOLDER [--table FILE] [--write]

Compiles every pipeline that the golden families and the shapes of `tandem bench` need (report.cpp) for each chip, with the
RADV that tools/radv.sh unpacks, in child processes, since a driver may crash over a bad module. Fails when one of them does,
or when a kernel spills registers or needs scratch memory. With --table the summary is printed, with its change against the
committed one; --write puts the new one in its place.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CHIPS = {
    "phoenix": "Radeon 780M (RDNA3)",
    "gfx1150": "Radeon 890M (RDNA3.5)",
    "gfx1151": "Radeon 8060S (RDNA3.5)",
    "navi31": "Radeon RX 7900 (RDNA3)",
    "navi21": "Radeon RX 6800 (RDNA2)",
    "renoir": "Radeon of a Ryzen 4000 (Vega)",
}
LEFT_OUT = 77  # what ctest takes for a test that was left out
COLUMNS = ["pipelines", "wave", "registers", "shared", "waves", "instructions", "vector", "memory", "lds", "wmma", "dot"]


class Pipeline:
    """A line of report.cpp."""

    def __init__(self, line):
        numbers = line["numbers"]
        self.name = line["kernel"]
        self.about = f"{line['kernel']} {line['constants']} of {line['model']}"
        self.spills = int(numbers.get("Spilled VGPRs", 0) + numbers.get("Spilled SGPRs", 0))
        self.scratch_bytes = int(numbers.get("Scratch size", 0))
        counts = {"memory": "memory", "lds": "shared", "wmma": "matrices", "dot": "dots"}
        self.columns = {
            "wave": line["subgroup"],
            "registers": int(numbers["VGPRs"]),
            "shared": int(numbers["LDS size"]),
            "waves": int(numbers["Subgroups per SIMD"]),
            "instructions": int(numbers["Instructions"]),
            "vector": int(numbers["VALU"]),
        } | {column: line[name] for column, name in counts.items() if name in line}

    def finding(self):
        if not self.spills and not self.scratch_bytes:
            return None
        return f"{self.about}: {self.spills} spills, {self.scratch_bytes} bytes of scratch memory"


class Child:
    """What a process that compiled a part of a chip's pipelines has said."""

    def __init__(self, output, exit_code, errors):
        lines = [json.loads(line) for line in output.splitlines()]
        self.pipelines = [Pipeline(line) for line in lines if "numbers" in line]
        self.failure = None
        if exit_code != 0:
            last = lines[-1] if lines else {"kernel": "no kernel", "constants": "", "model": "any model"}
            how = f"was ended by signal {-exit_code}" if exit_code < 0 else errors.strip().splitlines()[-1]
            self.failure = f"compiling {last['kernel']} {last['constants']} of {last['model']}: {how}"


def compile_part(program, driver, chip, part, parts, detail):
    libraries = driver / "usr/lib/x86_64-linux-gnu"
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(libraries),
        "VK_ICD_FILENAMES": str(driver / "radeon.json"),
        "VK_DRIVER_FILES": str(driver / "radeon.json"),
        "RADV_FORCE_FAMILY": chip,
        "MESA_SHADER_CACHE_DISABLE": "true",
    }
    command = [program, str(part), str(parts), detail]
    child = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return Child(child.stdout, child.returncode, child.stderr)


def summary(pipelines):
    """{kernel: columns}: of the pipelines of a kernel the worst of what is to be small or, for waves, large; counts of the
    instructions are those of the largest."""
    by_kernel = collections.defaultdict(list)
    for pipeline in pipelines:
        by_kernel[pipeline.name].append(pipeline.columns)
    rows = {}
    for kernel, all_columns in sorted(by_kernel.items()):
        largest = max(all_columns, key=lambda columns: columns["instructions"])
        row = dict(largest, pipelines=len(all_columns))
        row["registers"] = max(columns["registers"] for columns in all_columns)
        row["shared"] = max(columns["shared"] for columns in all_columns)
        row["waves"] = min(columns["waves"] for columns in all_columns)
        rows[kernel] = row
    return rows


def write_table(tables):
    lines = [
        "# What RADV makes of the kernels",
        "",
        "Written by `make gpu-report WRITE=1`; `make gpu-report` prints it with what has changed, `make test` fails on a spill,",
        "on scratch memory and on a crash. Compiled code only: none of these chips was there. Of all pipelines of a kernel that",
        "the golden families and the shapes of `tandem bench` need: the most registers and bytes of shared memory, the fewest",
        "waves that fit on a SIMD, and the instructions (all, vector, memory, shared memory, matrix and packed dot products) of",
        "the longest. The last four are counted before registers are dealt out.",
    ]
    for chip, rows in tables.items():
        lines += ["", f"## {chip}: {CHIPS[chip]}", "", f"| kernel | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
        lines += [f"| {kernel} | {' | '.join(str(row[c]) for c in COLUMNS)} |" for kernel, row in rows.items()]
    return "\n".join(lines) + "\n"


def read_table(text):
    tables, chip = {}, None
    for line in text.splitlines():
        if heading := re.match(r"## (\w+):", line):
            chip = tables.setdefault(heading[1], {})
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if chip is not None and len(cells) == len(COLUMNS) + 1 and cells[1].isdigit():
            chip[cells[0]] = dict(zip(COLUMNS, map(int, cells[1:])))
    return tables


def changes(before, after):
    for chip in CHIPS:
        old, new = before.get(chip, {}), after.get(chip, {})
        for kernel in sorted(old.keys() | new.keys()):
            if kernel not in old or kernel not in new:
                yield f"{chip} {kernel}: {'new' if kernel in new else 'gone'}"
                continue
            parts = [f"{c} {old[kernel][c]} -> {new[kernel][c]}" for c in COLUMNS if old[kernel][c] != new[kernel][c]]
            if parts:
                yield f"{chip} {kernel}: {', '.join(parts)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--driver", required=True, type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()

    unpacked = subprocess.run([Path(__file__).parents[2] / "tools/radv.sh", options.driver], check=False).returncode
    if unpacked != 0:
        left_out = unpacked == LEFT_OUT and not os.environ.get("CI")
        print("left out: kernels are not compiled for AMD's GPUs" if left_out else "the driver could not be unpacked")
        return LEFT_OUT if left_out else 1

    cores = len(os.sched_getaffinity(0))
    parts = -(-cores // len(CHIPS))
    jobs = [(chip, part) for chip in CHIPS for part in range(parts)]
    detail = "counts" if options.table else "numbers"  # what they cost: a third of the time
    driver = options.driver.resolve()
    with ThreadPoolExecutor(cores) as pool:
        started = [pool.submit(compile_part, options.program, driver, chip, part, parts, detail) for chip, part in jobs]
        children = [(job, child.result()) for job, child in zip(jobs, started)]
    findings, tables = [], {}
    for chip in CHIPS:
        of_chip = [child for (of, _), child in children if of == chip]
        pipelines = [pipeline for child in of_chip for pipeline in child.pipelines]
        found = [child.failure for child in of_chip] + [pipeline.finding() for pipeline in pipelines]
        findings += [f"{chip}: {finding}" for finding in found if finding]
        tables[chip] = summary(pipelines)
        print(f"{chip}: {len(pipelines)} pipelines of {len(tables[chip])} kernels", file=sys.stderr)
    if options.table:
        print(write_table(tables), end="")
        print("\n".join(changes(read_table(options.table.read_text()) if options.table.exists() else {}, tables)))
    if options.write:
        options.table.write_text(write_table(tables))
    print("\n".join(findings))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
