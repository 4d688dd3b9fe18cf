"""Kernels and host code that do not fit together must not compile. Needs glslc, spirv-opt and a C++ compiler:
contracts_test.py --compiler g++ --kernels build/src/vulkan/kernels"""

import argparse
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import contracts

SOURCES = Path(__file__).resolve().parents[2] / "src"
COMPILER, KERNELS = "g++", Path()  # by the command line

KERNEL = """
#version 460
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Floats { float at[]; };
struct Rows {
    uint64_t x;
    uint stride;
    uint first;
};
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 64;
layout(constant_id = 1) const bool TWICE = false;
layout(constant_id = 2) const uint ROW_QUADS = 2;
const uint ROOM = TWICE ? 2u * LANES : LANES;
shared vec4 quads[ROOM][ROW_QUADS];
shared float most;
layout(push_constant, scalar) uniform Params {
    Rows rows;
    uint count;
    float scale;
    uint64_t sums[2];
} p;
void main() {
    const uint lane = gl_LocalInvocationIndex;
    if (lane == 0u) most = p.scale;
    quads[lane][lane % ROW_QUADS] = vec4(Floats(p.rows.x).at[p.rows.first + lane * p.rows.stride]);
    barrier();
    if (lane < p.count) Floats(p.sums[lane % 2u]).at[lane] = most * quads[lane][0].x;
}
"""

HOST = """
#include "vulkan/kernels/contracts.h"
namespace tandem::vulkan {
constexpr kernels::Scale kCall{.constants = {.lanes = 64, .twice = true, .row_quads = 3},
                               .params = {.rows = {.x = 4096, .stride = 8, .first = 0},
                                          .count = 5,
                                          .scale = 0.5F,
                                          .sums = std::array<uint64_t, 2>{1, 2}}};
static_assert(kernels::Scale::workgroup_size(kCall.constants) == 64);
static_assert(kernels::Scale::shared_bytes(kCall.constants) == 128 * 3 * 16 + 16);
static_assert(sizeof(kCall.params) == 40);
}
"""


def build(folder, modules):
    """The header of {"name -DMACRO=VALUE": source}."""
    for line, source in modules.items():
        name, *macros = line.split()
        kernel, named, module = (folder / f"{name}{end}" for end in (".comp", ".named.spv", ".spv"))
        kernel.write_text(source)
        include = f"-I{SOURCES}/vulkan/kernels"
        subprocess.run(["glslc", "--target-env=vulkan1.3", include, *macros, kernel, "-o", named], check=True)
        optimize = ["spirv-opt", "--target-env=vulkan1.3", "--scalar-block-layout", "--strip-debug", "-O"]
        subprocess.run([*optimize, named, "-o", module], check=True)
    (folder / "list.txt").write_text("".join(f"{line}\n" for line in modules))
    header = folder / "vulkan/kernels/contracts.h"
    header.parent.mkdir(parents=True, exist_ok=True)
    contracts.main([str(folder), str(folder / "list.txt"), str(header)])
    return header


def compile_host(folder, source):
    """What the compiler says; nothing where it accepts the source."""
    flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Wno-sign-conversion", "-Werror"]
    ran = subprocess.run([COMPILER, *flags, f"-I{folder}", f"-I{SOURCES}", source], capture_output=True, text=True)
    return ran.stderr if ran.returncode else ""


class Contracts(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def refused(self, words, modules):
        with self.assertRaisesRegex(SystemExit, words):
            build(self.folder, modules)

    def said_of(self, kernel, host=HOST):
        """What the compiler says of host code with the contract of the kernel."""
        build(self.folder, {"scale": kernel})
        source = self.folder / "host.cpp"
        source.write_text(host)
        return compile_host(self.folder, source)

    def changed(self, old, new, text=KERNEL):
        self.assertIn(old, text)
        return text.replace(old, new)


class HostCode(Contracts):
    """The same host code, against kernels that were changed. Messages are g++'s or clang's."""

    MISSING = "Given|default constructor"

    def test_what_fits_compiles_and_sizes_are_the_modules_own(self):
        self.assertEqual(self.said_of(KERNEL), "")

    def test_a_renamed_parameter(self):
        renamed = self.changed("uint count", "uint size").replace("p.count", "p.size")
        self.assertRegex(self.said_of(renamed), "member named .count|designator .count")

    def test_swapped_parameters(self):
        swapped = self.changed("    uint count;\n    float scale;\n", "    float scale;\n    uint count;\n")
        self.assertRegex(self.said_of(swapped), "designator order|-Wreorder-init-list")

    def test_a_parameter_more(self):
        more = self.changed("    float scale;\n", "    float scale;\n    float cap;\n")
        self.assertRegex(self.said_of(more), self.MISSING)

    def test_a_parameter_of_another_type(self):
        other = self.changed("float scale;", "uint scale;").replace("most = p.scale", "most = float(p.scale)")
        self.assertRegex(self.said_of(other), "may change value|implicit conversion turns|constant expression")

    def test_a_renamed_constant(self):
        self.assertRegex(self.said_of(self.changed("LANES", "WIDTH")), "member named .lanes|designator .lanes")

    def test_a_truth_value_that_became_a_number(self):
        number = self.changed("const bool TWICE = false", "const uint TWICE = 0").replace("TWICE ?", "TWICE != 0u ?")
        self.assertRegex(self.said_of(number), "could not convert|no viable conversion|conversion from .bool")

    def test_host_code_that_leaves_a_constant_out(self):
        self.assertRegex(self.said_of(KERNEL, self.changed(", .row_quads = 3", "", HOST)), self.MISSING)

    def test_shared_memory_that_grew(self):
        self.assertRegex(self.said_of(self.changed("2u * LANES", "4u * LANES")), "static.assert")


class RealKernel(Contracts):
    """rms_norm.cpp as it is, against rms_norm.comp as it is and changed."""

    def host_of(self, change):
        for module in KERNELS.glob("*.spv"):
            os.symlink(module.resolve(), self.folder / module.name)
        for made in ("rms_norm.spv", "rms_norm.named.spv"):
            (self.folder / made).unlink()
        kernels = SOURCES / "vulkan/kernels"
        build(self.folder, {"rms_norm": change((kernels / "rms_norm.comp").read_text())})
        header = self.folder / "vulkan/kernels/contracts.h"
        contracts.main([str(self.folder), str(KERNELS / "kernels.txt"), str(header)])
        return compile_host(self.folder, kernels / "rms_norm.cpp")

    def test_it_compiles(self):
        self.assertEqual(self.host_of(lambda text: text), "")

    def test_it_does_not_with_members_swapped(self):
        swap = ("    uint width;\n    float eps;\n", "    float eps;\n    uint width;\n")
        self.assertRegex(self.host_of(lambda text: self.changed(*swap, text)), "designator order|-Wreorder-init-list")


class Header(Contracts):
    def test_it_is_left_alone_when_nothing_changed(self):
        header = build(self.folder, {"scale": KERNEL})
        os.utime(header, (1, 1))
        build(self.folder, {"scale": KERNEL})
        self.assertEqual(header.stat().st_mtime, 1)
        build(self.folder, {"scale": self.changed("uint count", "uint size").replace("p.count", "p.size")})
        self.assertNotEqual(header.stat().st_mtime, 1)

    def test_variants_may_differ_in_size(self):
        source = self.changed("shared vec4 quads[ROOM]", "#if MATRIX == KHR\n#define ROOM 7u\n#endif\nshared vec4 quads[ROOM]")
        source = source.replace("#version 460\n", "#version 460\n#define KHR 1\n#define SCALAR 0\n")
        build(self.folder, {"scale.khr -DMATRIX=KHR": source, "scale.scalar -DMATRIX=SCALAR": source})
        constants = "{.lanes = 1, .twice = true, .row_quads = 5}"
        host = self.folder / "host.cpp"
        host.write_text(f"""
#include "vulkan/kernels/contracts.h"
using namespace tandem::vulkan::kernels;
static_assert(Scale::shared_bytes({constants}, Matrix::khr) == 7 * 5 * 16 + 16);
static_assert(Scale::shared_bytes({constants}, Matrix::scalar) == 2 * 5 * 16 + 16);
static_assert(Scale::shared_bytes({constants}) == 7 * 5 * 16 + 16, "the most of any");
""")
        self.assertEqual(compile_host(self.folder, host), "")

    def test_variants_may_differ_in_size_by_two_macros(self):
        source = self.changed("shared vec4 quads[ROOM]", "#define ROOM (uint(WEIGHT > MATRIX) + 1u)\nshared vec4 quads[ROOM]")
        source = source.replace("#version 460\n", "#version 460\n#define F16 1\n#define F32 0\n#define KHR 1\n#define SCALAR 0\n")
        macros = [(weight, matrix) for weight in ("f16", "f32") for matrix in ("khr", "scalar")]
        build(self.folder, {f"scale.{w}.{m} -DWEIGHT={w.upper()} -DMATRIX={m.upper()}": source for w, m in macros})
        host = self.folder / "host.cpp"
        lines = ['#include "vulkan/kernels/contracts.h"', "using namespace tandem;", "using namespace vulkan::kernels;"]
        for weight, matrix in macros:
            size = 2 * 16 if (weight, matrix) == ("f16", "scalar") else 16
            variant = f"DType::{weight}, Matrix::{matrix}"
            lines.append(f"static_assert(Scale::shared_bytes({{.lanes = 1, .twice = true, .row_quads = 1}}, {variant}) == {size} + 16);")
        host.write_text("\n".join(lines) + "\n")
        self.assertEqual(compile_host(self.folder, host), "")

    def test_variants_of_other_parameters_are_refused(self):
        other = self.changed("float scale;", "float factor;").replace("p.scale", "p.factor")
        self.refused(
            "scale.b: Params has float factor at byte 20 in place of float scale at byte 20, unlike scale.a",
            {"scale.a -DKIND=A": KERNEL, "scale.b -DKIND=B": other},
        )

    def test_variants_of_other_constants_are_refused(self):
        self.refused(
            "scale.b: specialization constant 2 is uint32_t QUADS in place of uint32_t ROW_QUADS, unlike scale.a",
            {"scale.a -DKIND=A": KERNEL, "scale.b -DKIND=B": self.changed("ROW_QUADS", "QUADS")},
        )

    def test_kernels_that_disagree_about_a_struct_are_refused(self):
        other = self.changed("    uint stride;\n    uint first;\n", "    uint first;\n    uint stride;\n")
        self.refused(
            "scale: Rows has uint32_t first at byte 8 in place of uint32_t stride at byte 8, unlike the struct .* of other",
            {"other": KERNEL, "scale": other},
        )

    def test_a_gap_in_the_ids_is_refused(self):
        gap = self.changed("constant_id = 2", "constant_id = 3")
        self.refused("scale: there is no specialization constant 2", {"scale": gap})

    def test_a_size_without_a_name_is_refused(self):
        nameless = self.changed("local_size_x_id = 0", "local_size_x_id = 3")
        self.refused("scale: there is no specialization constant 3", {"scale": nameless})

    def test_a_kernel_named_as_a_struct_is_refused(self):
        self.refused("rows: the kernel and the struct Rows", {"rows": KERNEL})

    def test_types_that_have_no_twin_are_refused(self):
        vector = self.changed("uint count", "uvec2 count").replace("p.count", "p.count.x")
        self.refused("Params.count is of a type", {"scale": vector})
        signed = self.changed("const uint ROW_QUADS", "const int ROW_QUADS")
        self.refused(r"specialization constant 2 \(ROW_QUADS\) is neither uint nor bool", {"scale": signed})

    def test_a_place_that_a_cpp_struct_cannot_have_is_refused(self):
        short = self.changed("    uint first;\n", "").replace("p.rows.first + ", "")
        self.refused("Params.count lies at byte 12 and in C.. at 16", {"scale": short})

    def test_a_module_without_names_is_refused(self):
        build(self.folder, {"scale": KERNEL})
        (self.folder / "scale.named.spv").write_bytes((self.folder / "scale.spv").read_bytes())
        with self.assertRaisesRegex(SystemExit, "scale: the push constants have no names"):
            contracts.main([str(self.folder), str(self.folder / "list.txt"), str(self.folder / "out.h")])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--kernels", required=True, type=Path)
    options, rest = parser.parse_known_args()
    COMPILER, KERNELS = options.compiler, options.kernels
    unittest.main(argv=[sys.argv[0], *rest])
