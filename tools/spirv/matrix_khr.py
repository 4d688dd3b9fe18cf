#!/usr/bin/env python3
"""Rewrites a SPIR-V module from SPV_NV_cooperative_matrix to SPV_KHR_cooperative_matrix: matrix_khr.py IN OUT

Debian 12's glslc writes only the NV form, while most devices know only the KHR form. The two differ in that a KHR type
says which part of a product it takes, so each NV type must take one part only: kernels give M, N and K by three
different specialization constants. Only matrices of floats are handled, and any other opcode of the vendor's is refused,
inside a specialization constant too: drivers that do not know one crash rather than return an error.
"""

import sys
from pathlib import Path

from spirv import Error, assemble, parse, string_words

BOUND = 3  # index of the header's word above every id

OP_EXTENSION, OP_CAPABILITY, OP_TYPE_INT, OP_TYPE_FLOAT = 10, 17, 21, 22
OP_CONSTANT_TRUE, OP_CONSTANT_FALSE, OP_CONSTANT, OP_SPEC_CONSTANT_OP = 41, 42, 43, 52
NV_OPCODES = range(5248, 5504)  # of the registry of SPIR-V
NV_TYPE, NV_LOAD, NV_STORE, NV_MUL_ADD, NV_LENGTH = 5358, 5359, 5360, 5361, 5362
KHR_TYPE, KHR_LOAD, KHR_STORE, KHR_MUL_ADD, KHR_LENGTH = 4456, 4457, 4458, 4459, 4460
NV_CAPABILITY, KHR_CAPABILITY = 5357, 6022
NV_EXTENSION, KHR_EXTENSION = "SPV_NV_cooperative_matrix", "SPV_KHR_cooperative_matrix"

USE_A, USE_B, USE_ACCUMULATOR = 0, 1, 2
ROW_MAJOR, COLUMN_MAJOR = 0, 1


class Module:
    """What the rewriting needs to know about a module."""

    def __init__(self, instructions):
        self.floats = {a[0] for op, a in instructions if op == OP_TYPE_FLOAT}
        self.matrices = {a[0]: a[1] for op, a in instructions if op == NV_TYPE}
        if not self.matrices:
            raise Error("there is no NV cooperative matrix in the module")
        for matrix, component in self.matrices.items():
            if component not in self.floats:
                raise Error(f"matrix type %{matrix} is not one of floats")
        self.uint = self.unsigned_before_matrices(instructions)
        self.layouts = {}
        for op, a in instructions:
            if op in (OP_CONSTANT_TRUE, OP_CONSTANT_FALSE):
                self.layouts[a[1]] = COLUMN_MAJOR if op == OP_CONSTANT_TRUE else ROW_MAJOR
        self.uses = self.find_uses(instructions)

    @staticmethod
    def unsigned_before_matrices(instructions):
        for op, a in instructions:
            if op == OP_TYPE_INT and a[1:] == [32, 0]:
                return a[0]
            if op == NV_TYPE:
                break
        raise Error("no 32-bit unsigned type is declared before the first matrix type")

    def find_uses(self, instructions):
        # An instruction that makes a matrix has the matrix type first, then the id of what it makes.
        type_of = {a[1]: a[0] for op, a in instructions if len(a) >= 2 and a[0] in self.matrices and op != NV_LENGTH}
        uses = {}
        for op, a in instructions:
            if op != NV_MUL_ADD:
                continue
            parts = [(type_of[a[2]], USE_A), (type_of[a[3]], USE_B), (type_of[a[4]], USE_ACCUMULATOR), (a[0], USE_ACCUMULATOR)]
            for matrix, use in parts:
                if uses.setdefault(matrix, use) != use:
                    raise Error(f"matrix type %{matrix} takes two parts in products: give M, N and K by distinct constants")
        for matrix in self.matrices:
            if matrix not in uses:
                raise Error(f"matrix type %{matrix} is in no product, so its part cannot be told")
        return uses

    def layout(self, constant):
        if constant not in self.layouts:
            raise Error(f"whether a matrix is column-major is %{constant}, which is not true or false")
        return self.layouts[constant]


def rewrite(data):
    """The bytes of the KHR module."""
    header, instructions = parse(data)
    module = Module(instructions)
    # The numbers 0, 1 and 2, for uses and layouts.
    number = [header[BOUND] + i for i in range(3)]
    header[BOUND] += 3
    out = []
    declared = False
    for op, a in instructions:
        if op == OP_CAPABILITY and a == [NV_CAPABILITY]:
            a = [KHR_CAPABILITY]
        elif op == OP_EXTENSION and a == string_words(NV_EXTENSION):
            a = string_words(KHR_EXTENSION)
        elif op == NV_TYPE:
            if not declared:
                out += [(OP_CONSTANT, [module.uint, number[i], i]) for i in range(3)]
                declared = True
            op, a = KHR_TYPE, [*a, number[module.uses[a[0]]]]
        elif op == NV_LOAD:
            result, made, pointer, stride, column_major, *memory = a
            op, a = KHR_LOAD, [result, made, pointer, number[module.layout(column_major)], stride, *memory]
        elif op == NV_STORE:
            pointer, matrix, stride, column_major, *memory = a
            op, a = KHR_STORE, [pointer, matrix, number[module.layout(column_major)], stride, *memory]
        elif op == NV_MUL_ADD:
            op = KHR_MUL_ADD
        elif op == NV_LENGTH:
            op = KHR_LENGTH
        elif op in NV_OPCODES:
            raise Error(f"opcode {op} is NVIDIA's, and what other devices have for it is not known")
        elif op == OP_SPEC_CONSTANT_OP and a[2] in NV_OPCODES:
            raise Error(
                f"the specialization constant %{a[1]} is computed by opcode {a[2]}, which is NVIDIA's: drivers know no"
                " such constant in any form (for the length of a matrix, compute it from its sizes)"
            )
        out.append((op, a))
    return assemble(header, out)


def main(arguments):
    if len(arguments) != 2:
        sys.exit("usage: matrix_khr.py IN OUT")
    source, target = map(Path, arguments)
    try:
        target.write_bytes(rewrite(source.read_bytes()))
    except (Error, OSError) as error:
        sys.exit(f"matrix_khr.py: {source}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
