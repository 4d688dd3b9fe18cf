#include "npu/design.h"

#include <gtest/gtest.h>

namespace tandem::npu {
namespace {

TEST(Design, KnowsTheSizesOfItsObjects) {
    EXPECT_EQ((ObjectType{Element::i8, 12}).size_bytes(), 12);
    EXPECT_EQ((ObjectType{Element::bf16, 12}).size_bytes(), 24);
    EXPECT_EQ((ObjectType{Element::f32, 12}).size_bytes(), 48);
    EXPECT_EQ(elements({{4, 64}, {8, 1}}), 32);
    EXPECT_EQ(elements({}), 1);
}

TEST(Design, HoldsLoopsWithinLoopsAndIsCopiedWhole) {
    const Loop inner{.count = 3, .body = {Acquire{"a"}, Call{"f", {ObjectArgument{"a"}, 5}}, Release{"a"}}};
    const Worker worker{.tile = {0, 2}, .body = {Loop{.count = 2, .body = {inner, inner}}}};
    const Worker copy = worker;
    const auto& outer = std::get<Loop>(copy.body.front());
    ASSERT_EQ(outer.body.size(), 2U);
    const auto& call = std::get<Call>(std::get<Loop>(outer.body[1]).body[1]);
    EXPECT_EQ(std::get<int32_t>(call.arguments[1]), 5);
}

TEST(Design, FindsItsPartsByName) {
    Design design{.name = "d", .array = "npu1", .fifos = {}, .kernels = {}, .workers = {}, .sequence = {}};
    design.fifos.push_back({.name = "in", .producer = {0, 0}, .consumers = {{0, 2}}, .object = {Element::i8, 4}});
    design.kernels.push_back({.symbol = "f", .source = "f.cc", .arguments = {}});
    const Worker worker{.tile = {0, 2}, .buffers = {{"acc", {Element::i32, 8}}}, .body = {}};
    EXPECT_EQ(find_fifo(design, "in"), &design.fifos[0]);
    EXPECT_EQ(find_fifo(design, "out"), nullptr);
    EXPECT_EQ(find_kernel_use(design, "f"), &design.kernels[0]);
    EXPECT_EQ(find_buffer(worker, "acc"), &worker.buffers[0]);
}

}  // namespace
}  // namespace tandem::npu
