#!/usr/bin/env python3
"""Writes the header by which host code calls kernels, from their SPIR-V: contracts.py FOLDER LIST HEADER

LIST has a line for each module: its name and the macros it was compiled with, "matmul.q4_0.khr -DWEIGHT=Q4_0 -DMATRIX=KHR".
FOLDER/NAME.spv is the module as devices get it, and FOLDER/NAME.named.spv the same before it was optimized, with names.
The modules of a kernel must agree. See docs/decisions/0010-kernel-contracts.md.
"""

import itertools
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from reflect import Module, Struct
from spirv import Error

OWN_PARAMS = "Params"  # a block of this name is the kernel's own; others may be shared by kernels
FILLED_IN = {"Chain"}  # by the Recorder: nobody else has to give them
AXIS_TYPES = {"weight": "DType"}  # other macros become enums of their own

HEADER = """\
// What kernels take from their host, read from their SPIR-V by tools/spirv/contracts.py.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/dtype.h"
#include "vulkan/given.h"

namespace tandem::vulkan::kernels {

constexpr uint32_t padded(uint32_t bytes, uint32_t alignment) {
    return (bytes + alignment - 1) / alignment * alignment;
}

"""
FOOTER = "}  // namespace tandem::vulkan::kernels\n"


@contextmanager
def naming(what):
    """An Error inside says of what."""
    try:
        yield
    except Error as error:
        raise Error(f"{what}: {error}") from None


@dataclass
class Variant:
    name: str
    axes: dict  # {"weight": "q4_0", "matrix": "khr"}
    params: Struct
    constants: dict  # {id: Constant}
    module: Module

    @property
    def kernel(self):
        return self.name.split(".")[0]


def pascal(name):
    return "".join(part.capitalize() for part in name.split("_"))


def axis_type(axis):
    return AXIS_TYPES.get(axis, pascal(axis))


class Contract:
    """What the variants of a kernel have in common."""

    def __init__(self, variants):
        first = variants[0]
        for v in variants:
            if v.params != first.params or v.constants != first.constants:
                raise Error(f"{v.name}: {difference(first, v)}, unlike {first.name}")
        self.variants = variants
        self.name = first.kernel
        self.params = first.params
        self.constants = [first.constants[spec_id] for spec_id in range(len(first.constants))]
        self.workgroup_size = [v.module.workgroup_size(self.member_of) for v in variants]
        self.shared_bytes = [v.module.shared_bytes(self.member_of) for v in variants]
        values = {axis: {v.axes[axis] for v in variants} for axis in first.axes}
        self.axes = [axis for axis in values if len(values[axis]) > 1]

    def member_of(self, spec_id):
        return self.constants[spec_id].name.lower()


def difference(a, b):
    """In words, of two variants."""
    if a.params != b.params:
        return struct_difference(a.params, b.params)
    for spec_id in sorted({*a.constants, *b.constants}):
        x, y = (v.constants.get(spec_id) for v in (a, b))
        if x != y:
            return f"specialization constant {spec_id} is {y} in place of {x}"


def struct_difference(a, b):
    for x, y in itertools.zip_longest(a.members, b.members):
        if x != y:
            return f"{b.name} has {describe(y)} in place of {describe(x)}"
    return f"the push constants are called {b.name} in place of {a.name}"


def describe(member):
    if member is None:
        return "nothing"
    kind = member.type.name if isinstance(member.type, Struct) else member.type
    return f"{kind} {member.name}{f'[{member.count}]' if member.count else ''} at byte {member.offset}"


class Structs:
    """Those that several kernels may share, each once and after those that it has in it."""

    def __init__(self):
        self.found = {}  # {name: (Struct, the first kernel that has it)}

    def add(self, struct, kernel):
        for member in struct.members:
            if isinstance(member.type, Struct):
                self.add(member.type, kernel)
        if struct.name == OWN_PARAMS:
            return
        known, first = self.found.setdefault(struct.name, (struct, kernel))
        if known != struct:
            raise Error(f"{kernel}: {struct_difference(known, struct)}, unlike the struct of that name of {first}")


# Writing


def member_line(member):
    kind = member.type.name if isinstance(member.type, Struct) else member.type
    kind = f"std::array<{kind}, {member.count}>" if member.count else kind
    if not isinstance(member.type, Struct):
        kind = f"Given<{kind}>"
    filled = f" = {{{', '.join('0' for _ in member.type.members)}}}" if getattr(member.type, "name", "") in FILLED_IN else ""
    return f"{kind} {member.name}{filled};"


def struct_lines(struct):
    return [f"struct {struct.name} {{", *(f"    {member_line(m)}" for m in struct.members), "};"]


def struct_checks(struct, name):
    for member in struct.members:
        yield f"static_assert(offsetof({name}, {member.name}) == {member.offset});"
    yield f"static_assert(sizeof({name}) == {struct.size()});"


def indented(lines):
    return [f"    {line}" if line else "" for line in lines]


def enum_lines(contracts):
    values = {}
    for contract in contracts:
        for axis in contract.axes:
            if axis not in AXIS_TYPES:
                values.setdefault(axis, {}).update((v.axes[axis], None) for v in contract.variants)
    return [f"enum class {axis_type(axis)} : uint8_t {{ {', '.join(names)} }};" for axis, names in values.items()]


def where(axes, values):
    return " && ".join(f"{axis} == {axis_type(axis)}::{value}" for axis, value in zip(axes, values))


def name_lines(contract):
    if not contract.axes:
        return [f'std::string_view name() const {{ return "{contract.variants[0].name}"; }}']
    lines = ["std::string_view name() const {"]
    for v in contract.variants:
        lines.append(f'    if ({where(contract.axes, [v.axes[axis] for axis in contract.axes])}) return "{v.name}";')
    return [*lines, f'    CHECK(false, "{contract.name}: the kernel has no such variant");', "}"]


def deciding_axes(contract, formulas):
    """The fewest axes on which it depends which formula holds."""
    for count in range(len(contract.axes) + 1):
        for axes in itertools.combinations(contract.axes, count):
            by_value = {}
            for variant, formula in zip(contract.variants, formulas):
                by_value.setdefault(tuple(variant.axes[axis] for axis in axes), set()).add(formula)
            if all(len(found) == 1 for found in by_value.values()):
                return axes, {values: found.pop() for values, found in by_value.items()}
    raise Error(f"{contract.name}: two modules of the same macros")


def size_lines(contract, name, formulas):
    axes, by_value = deciding_axes(contract, formulas)
    parameters = ["const Constants& c"] if any("c." in formula for formula in formulas) else []
    parameters += [f"{axis_type(axis)} {axis}" for axis in axes]
    head = f"static constexpr uint32_t {name}({', '.join(parameters)}) {{"
    if not axes:
        return [f"{head} return {formulas[0]}; }}"]
    lines = [head]
    for formula in dict.fromkeys(formulas):
        conditions = [where(axes, values) for values, found in by_value.items() if found == formula]
        if len(axes) > 1 and len(conditions) > 1:
            conditions = [f"({condition})" for condition in conditions]
        lines.append(f"    if ({' || '.join(conditions)}) return {formula};")
    return [*lines, f'    CHECK(false, "{contract.name}: the kernel has no such variant");', "}"]


def shared_lines(contract):
    """Where variants differ: of each, and the most of any."""
    lines = size_lines(contract, "shared_bytes", contract.shared_bytes)
    formulas = list(dict.fromkeys(contract.shared_bytes))
    if len(formulas) == 1:
        return lines
    parameter = "const Constants& c" if any("c." in formula for formula in formulas) else ""
    return [*lines, f"static constexpr uint32_t shared_bytes({parameter}) {{ return std::max({{{', '.join(formulas)}}}); }}"]


def kernel_lines(contract):
    lines = []
    if contract.constants:
        lines += ["struct Constants {", *(f"    Given<{c.type}> {c.name.lower()};" for c in contract.constants), "};"]
    if contract.params.name == OWN_PARAMS:
        lines += struct_lines(contract.params)
    else:
        lines.append(f"using {OWN_PARAMS} = {contract.params.name};")
    lines += ["", *(f"Given<{axis_type(axis)}> {axis};" for axis in contract.axes)]
    lines += ["Constants constants;"] if contract.constants else []
    lines += [f"{OWN_PARAMS} params;", "", *name_lines(contract)]
    values = (f"constants.{c.name.lower()}" + (" ? 1U : 0U" if c.type == "bool" else "") for c in contract.constants)
    lines.append(f"std::vector<uint32_t> values() const {{ return {{{', '.join(values)}}}; }}")
    lines += size_lines(contract, "workgroup_size", contract.workgroup_size)
    lines += shared_lines(contract)
    kernel = pascal(contract.name)
    checks = struct_checks(contract.params, f"{kernel}::{OWN_PARAMS}") if contract.params.name == OWN_PARAMS else []
    return [f"struct {kernel} {{", *indented(lines), "};", *checks, ""]


def write_header(variants):
    """The text of the header."""
    groups = itertools.groupby(sorted(variants, key=lambda v: v.kernel), key=lambda v: v.kernel)
    contracts = [Contract(list(group)) for _, group in groups]
    structs = Structs()
    for contract in contracts:
        structs.add(contract.params, contract.name)
    for contract in contracts:
        if pascal(contract.name) in structs.found:
            raise Error(f"{contract.name}: the kernel and the struct {pascal(contract.name)} of GLSL cannot both have that name")
    lines = [*enum_lines(contracts), ""]
    for struct, _ in structs.found.values():
        lines += [*struct_lines(struct), *struct_checks(struct, struct.name), ""]
    for contract in contracts:
        lines += kernel_lines(contract)
    return HEADER + "\n".join(lines) + "\n" + FOOTER


def read_variant(folder, line):
    name, *macros = line.split()
    axes = {}
    for macro in macros:
        found = re.fullmatch(r"-D(\w+)=(\w+)", macro)
        if not found:
            raise Error(f"{name}: {macro} is no macro with a value")
        axes[found[1].lower()] = found[2].lower()
    with naming(name):
        named, module = (Module((folder / f"{name}{end}").read_bytes()) for end in (".named.spv", ".spv"))
        return Variant(name, axes, named.push_constants(), named.constants(), module)


def main(arguments):
    if len(arguments) != 3:
        sys.exit("usage: contracts.py FOLDER LIST HEADER")
    folder, names, header = map(Path, arguments)
    try:
        text = write_header([read_variant(folder, line) for line in names.read_text().splitlines()])
        if not header.exists() or header.read_text() != text:  # what includes it is not compiled again for nothing
            header.write_text(text)
    except (Error, OSError) as error:
        sys.exit(f"contracts.py: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
