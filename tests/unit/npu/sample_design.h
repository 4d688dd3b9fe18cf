// A small design that every limit allows, for tests to break.
#pragma once

#include "npu/design.h"

namespace tandem::npu {

// The host sends 8 objects of 1024 bytes by a mem tile, which re-tiles them, to a core; the core adds them up in pairs
// into a local buffer and hands a copy of it to its neighbour, which sends it back.
inline Design sample_design() {
    const ObjectType bytes{Element::i8, 1024};
    const ObjectType sums{Element::i32, 1024};
    const Tile shim{0, 0};
    const Tile mem{0, 1};
    const Tile first{0, 2};
    const Tile second{0, 3};
    return Design{
        .name = "sample",
        .array = "npu1",
        .fifos = {{.name = "in", .producer = shim, .consumers = {mem}, .object = bytes},
                  {.name = "tiled",
                   .producer = mem,
                   .consumers = {first},
                   .object = bytes,
                   .to_stream = {{4, 256}, {8, 8}, {4, 64}, {8, 1}}},
                  {.name = "sums", .producer = first, .consumers = {second}, .object = sums},
                  {.name = "out", .producer = second, .consumers = {shim}, .object = sums}},
        .links = {{.from = {"in"}, .to = {"tiled"}}},
        .kernels = {{.symbol = "matmul_i8",
                     .source = "matmul_i8.cc",
                     .arguments = {{.buffer = bytes}, {.buffer = bytes}, {.buffer = sums}, {.number = true}},
                     .mmul = "4x8x8 i8"},
                    {.symbol = "add_f32",
                     .source = "add_f32.cc",
                     .arguments = {{.buffer = sums}, {.buffer = {Element::i32, 512}}, {.number = true}}}},
        .workers = {{.tile = first,
                     .buffers = {{"total", sums}},
                     .body = {Loop{.count = 4,
                                   .body = {Acquire{"tiled", 2}, Acquire{"sums"},
                                            Call{"matmul_i8",
                                                 {ObjectArgument{"tiled", 0}, ObjectArgument{"tiled", 1},
                                                  BufferArgument{"total"}, 16}},
                                            Call{"add_f32", {BufferArgument{"total"}, ObjectArgument{"sums", 0}, 1024}},
                                            Release{"tiled", 2}, Release{"sums"}}}}},
                    {.tile = second,
                     .body = {Loop{.count = 4,
                                   .body = {Acquire{"sums"}, Acquire{"out"},
                                            Call{"add_f32", {ObjectArgument{"sums"}, ObjectArgument{"out"}, 1024}},
                                            Release{"sums"}, Release{"out"}}}}}},
        .sequence = {.arguments = {{"x", {Element::i8, 8192}}, {"y", {Element::i32, 4096}}},
                     .transfers = {{.fifo = "in", .argument = 0, .access = {{8, 1024}, {1024, 1}}},
                                   {.fifo = "out", .argument = 1, .access = {{4096, 1}}, .wait = true}}},
    };
}

}  // namespace tandem::npu
