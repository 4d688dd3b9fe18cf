"""Rewrites a real kernel and small modules that are wrong on purpose. The first needs glslc."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import matrix_khr as m
import spirv

KERNELS = Path(__file__).resolve().parents[2] / "src/vulkan/kernels"

# Ids of the small module.
FLOAT, HALF, UINT, INT, BOOL, YES, NO, SIZE, OTHER, A, B, C, WEIGHT, X, SUM, MADE = range(1, 17)
HEADER = [spirv.MAGIC, 0x00010600, 0, MADE + 1, 0]


def small_module(change=None):
    """A load of each part, a product and a store; `change` gets the list of instructions."""
    instructions = [
        (m.OP_CAPABILITY, [m.NV_CAPABILITY]),
        (m.OP_EXTENSION, m.string_words(m.NV_EXTENSION)),
        (m.OP_TYPE_FLOAT, [FLOAT, 32]),
        (m.OP_TYPE_FLOAT, [HALF, 16]),
        (m.OP_TYPE_INT, [UINT, 32, 0]),
        (m.OP_TYPE_INT, [INT, 32, 1]),
        (m.OP_CONSTANT_TRUE, [BOOL, YES]),
        (m.OP_CONSTANT_FALSE, [BOOL, NO]),
        (m.OP_CONSTANT, [UINT, SIZE, 16]),
        (m.NV_TYPE, [A, HALF, 3, SIZE, SIZE]),
        (m.NV_TYPE, [B, HALF, 3, SIZE, SIZE]),
        (m.NV_TYPE, [C, FLOAT, 3, SIZE, SIZE]),
        (m.NV_LOAD, [A, WEIGHT, 90, 91, NO, 2]),
        (m.NV_LOAD, [B, X, 90, 91, YES]),
        (m.NV_LOAD, [C, SUM, 90, 91, YES]),
        (m.NV_MUL_ADD, [C, MADE, WEIGHT, X, SUM]),
        (m.NV_LENGTH, [UINT, 92, C]),
        (m.NV_STORE, [90, MADE, 91, YES, 2]),
    ]
    if change:
        change(instructions)
    return m.assemble(HEADER, instructions)


def index_of(instructions, opcode):
    return [op for op, _ in instructions].index(opcode)


class Rewrite(unittest.TestCase):
    def test_each_instruction_becomes_its_khr_form(self):
        header, out = m.parse(m.rewrite(small_module()))
        zero, one, two = range(MADE + 1, MADE + 4)
        self.assertEqual(header[m.BOUND], MADE + 4)
        self.assertEqual(out[0], (m.OP_CAPABILITY, [m.KHR_CAPABILITY]))
        self.assertEqual(out[1], (m.OP_EXTENSION, m.string_words("SPV_KHR_cooperative_matrix")))
        first_type = index_of(out, m.KHR_TYPE)
        self.assertEqual(out[first_type - 3 : first_type], [(m.OP_CONSTANT, [UINT, zero + i, i]) for i in range(3)])
        self.assertEqual(
            out[first_type:],
            [
                (m.KHR_TYPE, [A, HALF, 3, SIZE, SIZE, zero]),
                (m.KHR_TYPE, [B, HALF, 3, SIZE, SIZE, one]),
                (m.KHR_TYPE, [C, FLOAT, 3, SIZE, SIZE, two]),
                (m.KHR_LOAD, [A, WEIGHT, 90, zero, 91, 2]),
                (m.KHR_LOAD, [B, X, 90, one, 91]),
                (m.KHR_LOAD, [C, SUM, 90, one, 91]),
                (m.KHR_MUL_ADD, [C, MADE, WEIGHT, X, SUM]),
                (m.KHR_LENGTH, [UINT, 92, C]),
                (m.KHR_STORE, [90, MADE, one, 91, 2]),
            ],
        )

    def test_a_real_kernel_keeps_everything_else(self):
        with tempfile.TemporaryDirectory() as folder:
            nv, khr = Path(folder, "nv.spv"), Path(folder, "khr.spv")
            flags = ["--target-env=vulkan1.3", "-O", "-DMATRIX=KHR", "-I", str(KERNELS)]
            subprocess.run(["glslc", *flags, str(KERNELS / "attention_prefill.comp"), "-o", str(nv)], check=True)
            m.main([str(nv), str(khr)])
            before, after = m.parse(nv.read_bytes())[1], m.parse(khr.read_bytes())[1]
        changed = {m.NV_TYPE, m.NV_LOAD, m.NV_STORE, m.NV_MUL_ADD, m.NV_LENGTH}
        made = {m.KHR_TYPE, m.KHR_LOAD, m.KHR_STORE, m.KHR_MUL_ADD, m.KHR_LENGTH}
        self.assertTrue(changed & {op for op, _ in before})
        self.assertFalse(changed & {op for op, _ in after})
        first = index_of(after, m.KHR_TYPE)
        del after[first - 3 : first]
        self.assertEqual(len(before), len(after))
        for (op, a), (new_op, new_a) in zip(before, after):
            if op in changed:
                self.assertIn(new_op, made)
            elif op not in (m.OP_CAPABILITY, m.OP_EXTENSION):
                self.assertEqual((op, a), (new_op, new_a))

    def refused(self, words, data):
        with self.assertRaisesRegex(m.Error, words):
            m.rewrite(data)

    def test_what_is_not_spirv_is_refused(self):
        self.refused("not SPIR-V: 3 bytes", b"abc")
        self.refused("begins with", b"abcd" * 5)

    def test_an_instruction_past_the_end_is_refused(self):
        self.refused("does not fit", small_module()[:-4])
        self.refused("an instruction of 0 words", small_module() + bytes(4))

    def test_a_module_without_matrices_is_refused(self):
        self.refused("no NV cooperative matrix", small_module(lambda i: i.__delitem__(slice(2, None))))

    def test_matrices_of_integers_are_refused(self):
        self.refused(f"%{A} is not one of floats", small_module(lambda i: i.__setitem__(9, (m.NV_TYPE, [A, INT, 3, 8, 8]))))

    def test_a_type_in_two_parts_is_refused(self):
        self.refused(f"%{A} takes two parts", small_module(lambda i: i.__setitem__(13, (m.NV_LOAD, [A, X, 90, 91, YES]))))

    def test_a_type_in_no_product_is_refused(self):
        unused = (m.NV_TYPE, [OTHER, HALF, 3, SIZE, SIZE])
        self.refused(f"%{OTHER} is in no product", small_module(lambda i: i.insert(12, unused)))

    def test_a_layout_that_is_no_constant_is_refused(self):
        self.refused("%77, which is not", small_module(lambda i: i.__setitem__(12, (m.NV_LOAD, [A, WEIGHT, 90, 91, 77]))))

    def test_other_opcodes_of_the_vendor_are_refused(self):
        self.refused("opcode 5363 is NVIDIA's", small_module(lambda i: i.append((5363, [C, 93]))))

    def test_the_length_of_a_matrix_as_a_constant_is_refused(self):
        length = (m.OP_SPEC_CONSTANT_OP, [UINT, 93, m.NV_LENGTH, C])
        self.refused("%93 is computed by opcode 5362", small_module(lambda i: i.insert(12, length)))
        other = (m.OP_SPEC_CONSTANT_OP, [UINT, 93, 132, SIZE, SIZE])
        m.rewrite(small_module(lambda i: i.insert(12, other)))

    def test_a_module_without_unsigned_numbers_is_refused(self):
        self.refused("no 32-bit unsigned type", small_module(lambda i: i.pop(4)))

    def test_the_program_names_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(SystemExit, "missing.spv: .*No such file"):
                m.main([f"{folder}/missing.spv", f"{folder}/out.spv"])


if __name__ == "__main__":
    unittest.main()
