#!/usr/bin/env python3
"""That report.py finds what it is for: spills, scratch memory, crashes, errors and changes."""

import json
import unittest

import report

NUMBERS = {"VGPRs": 64, "LDS size": 512, "Subgroups per SIMD": 16, "Instructions": 100, "VALU": 50}


def line(kernel="gemv", **numbers):
    begun = {"kernel": kernel, "constants": [1, 2], "model": "tiny"}
    done = begun | {"subgroup": 64, "memory": 3, "shared": 4, "matrices": 5, "dots": 6, "numbers": NUMBERS | numbers}
    return begun, done


def output(*lines):
    return "\n".join(json.dumps(each) for each in lines)


class ReportTest(unittest.TestCase):
    def test_finds_nothing_wrong_with_a_sound_kernel(self):
        child = report.Child(output(*line()), 0, "")
        self.assertIsNone(child.failure)
        self.assertEqual([pipeline.finding() for pipeline in child.pipelines], [None])

    def test_finds_spills_and_scratch_memory(self):
        spilled, scratch = line(**{"Spilled VGPRs": 7})[1], line(**{"Scratch size": 2048})[1]
        findings = [pipeline.finding() for pipeline in report.Child(output(spilled, scratch), 0, "").pipelines]
        self.assertEqual(findings[0], "gemv [1, 2] of tiny: 7 spills, 0 bytes of scratch memory")
        self.assertEqual(findings[1], "gemv [1, 2] of tiny: 0 spills, 2048 bytes of scratch memory")

    def test_judges_kernels_whose_instructions_are_not_counted(self):
        done = line(**{"Spilled SGPRs": 1})[1]
        for count in ("memory", "shared", "matrices", "dots"):
            del done[count]
        (pipeline,) = report.Child(output(done), 0, "").pipelines
        self.assertEqual(pipeline.finding(), "gemv [1, 2] of tiny: 1 spills, 0 bytes of scratch memory")
        self.assertEqual(report.summary([pipeline])["gemv"]["registers"], 64)

    def test_names_the_kernel_that_a_driver_crashes_over(self):
        begun, done = line("matmul")
        child = report.Child(output(*line(), begun), -11, "")
        self.assertEqual(child.failure, "compiling matmul [1, 2] of tiny: was ended by signal 11")
        self.assertEqual(report.Child(output(begun), 1, "out of memory\n").failure,
                         "compiling matmul [1, 2] of tiny: out of memory")
        self.assertIsNotNone(report.Child("", -6, "").failure)

    def test_keeps_the_worst_and_reads_what_it_writes(self):
        few, many = line()[1], line(VGPRs=96, **{"Subgroups per SIMD": 10})[1]
        rows = report.summary(report.Child(output(few, many), 0, "").pipelines)
        self.assertEqual((rows["gemv"]["registers"], rows["gemv"]["waves"], rows["gemv"]["pipelines"]), (96, 10, 2))
        tables = {"phoenix": rows}
        self.assertEqual(report.read_table(report.write_table(tables)), tables)
        before = {"phoenix": {"gemv": rows["gemv"] | {"registers": 64}, "old": rows["gemv"]}}
        self.assertEqual(list(report.changes(before, tables)), ["phoenix gemv: registers 64 -> 96", "phoenix old: gone"])


if __name__ == "__main__":
    unittest.main()
