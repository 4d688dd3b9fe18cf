#include "npu/mlir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "npu/access.h"
#include "npu/check.h"
#include "npu/designs/library.h"
#include "npu/host_schedule.h"
#include "unit/npu/sample_design.h"

namespace tandem::npu {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Mlir, SaysWhatTheDesignSays) {
    const std::string text = to_mlir(sample_design());
    for (
        const char* part : {
            R"("aie.device"() <{device = 4 : i32, sym_name = "main"}>)",
            R"(function_type = (memref<1024xi8>, memref<1024xi8>, memref<1024xi32>, i32) -> (), sym_name = "matmul_i8")",
            R"({link_with = "matmul_i8.o"})",
            R"(%tile_0_3 = "aie.tile"() <{col = 0 : i32, row = 3 : i32}> : () -> index)",
            "[<size = 4, stride = 256>, <size = 8, stride = 8>, <size = 4, stride = 64>, <size = 8, stride = 1>]",
            R"(fifoIns = [@in], fifoOuts = [@tiled])",
            R"(%total_0_2 = "aie.buffer"(%tile_0_2))",
            R"("aie.objectfifo.acquire"() <{objFifo_name = @tiled, port = 1 : i32, size = 2 : i32}>)",
            R"("aie.objectfifo.release"() <{objFifo_name = @sums, port = 0 : i32, size = 1 : i32}>)",
            R"(static_sizes = array<i64: 1, 1, 1, 8192>, static_strides = array<i64: 0, 0, 0, 1>)",
            R"("aiex.npu.dma_wait"() <{symbol = @out}>)",
        })
        EXPECT_THAT(text, HasSubstr(part));
    EXPECT_THAT(text, Not(HasSubstr("symbol = @in")));
}

TEST(Mlir, GivesAKernelThatTakesLessTheFrontOfAnObject) {
    EXPECT_THAT(to_mlir(sample_design()), HasSubstr("static_sizes = array<i64: 512>"));
}

TEST(Mlir, AcquiresCountAllThatIsHeld) {
    Design design = sample_design();
    auto& body = std::get<Loop>(design.workers[0].body[0]).body;
    // One object more, then the first of two is released: the second is still reached by the view of both.
    body = {Acquire{"sums"},
            Acquire{"tiled"},
            Acquire{"tiled"},
            Release{"tiled"},
            Call{"matmul_i8", {ObjectArgument{"tiled"}, ObjectArgument{"tiled"}, BufferArgument{"total"}, 16}},
            Release{"tiled"},
            Release{"sums"}};
    ASSERT_TRUE(check(design));
    const std::string text = to_mlir(design);
    EXPECT_THAT(text, HasSubstr("objFifo_name = @tiled, port = 1 : i32, size = 2 : i32"));
    // What was released is counted by the compiler: the oldest that is left is number 0 again.
    EXPECT_THAT(text, HasSubstr("<{index = 0 : i32}>"));
    EXPECT_THAT(text, Not(HasSubstr("<{index = 1 : i32}>")));
}

TEST(Mlir, ALoopCountsByWhatTheDataSay) {
    const std::string text = to_mlir(*make_design("gemm_i8_64x256x256", "npu1"));
    EXPECT_THAT(text, HasSubstr("dynamic_objfifo_lowering = true, stack_size = 2048 : i32"));
    EXPECT_THAT(text, HasSubstr("\"memref.load\"(%block_0_2, "));
    EXPECT_THAT(text, HasSubstr("\"arith.index_cast\""));
    EXPECT_THAT(to_mlir(sample_design()), Not(HasSubstr("dynamic_objfifo_lowering")));
}

// The verifier of the dialect allows an access at a join to walk over one part.
TEST(Mlir, AnAccessAtAJoinIsOfOnePart) {
    EXPECT_THAT(
        to_mlir(*make_design("gemm_i8_64x256x256", "npu1")),
        HasSubstr(
            "[<size = 16, stride = 256>, <size = 4, stride = 8>, <size = 8, stride = 32>, <size = 8, stride = 1>]"));
}

TEST(Mlir, NamesJoinsAndSplitsByTheirOffsets) {
    Design design = sample_design();
    design.links = {{.from = {"a", "b"}, .to = {"out"}, .offsets = {0, 512}}};
    EXPECT_THAT(to_mlir(design),
                HasSubstr("dst_offsets = [], fifoIns = [@a, @b], fifoOuts = [@out], src_offsets = [0, 512]"));
    design.links = {{.from = {"in"}, .to = {"a", "b"}, .offsets = {0, 512}}};
    EXPECT_THAT(to_mlir(design),
                HasSubstr("dst_offsets = [0, 512], fifoIns = [@in], fifoOuts = [@a, @b], src_offsets = []"));
}

TEST(Access, DropsWhatDescriptorsDoNotNeed) {
    EXPECT_EQ(compact({{4, 256}, {1, 7}, {256, 1}}), Access{});
    EXPECT_EQ(compact({{4, 256}, {1, 7}, {128, 1}}), (Access{{4, 256}, {128, 1}}));
    const HostAccess repeated = host_access({{8, 0}, {4, 256}, {256, 1}});
    EXPECT_EQ(repeated.repeat, (AccessDim{8, 0}));
    EXPECT_EQ(repeated.inner, (Access{{1024, 1}}));
    const HostAccess strided = host_access({{8, 4096}, {4, 512}, {2, 256}, {32, 1}});
    EXPECT_EQ(strided.repeat, (AccessDim{8, 4096}));
    EXPECT_EQ(strided.inner, (Access{{4, 512}, {2, 256}, {32, 1}}));
}

TEST(HostSchedule, QueuesFourTransfersOfAFifoAndReusesTheirDescriptors) {
    Design design = sample_design();
    const Transfer fill{.fifo = "in", .argument = 0, .access = {{1024, 1}}};
    const Transfer drain{.fifo = "out", .argument = 1, .access = {{1024, 1}}};
    design.sequence.transfers = {drain, drain, drain, drain};
    for (int i = 0; i < 8; ++i) design.sequence.transfers.push_back(fill);
    ASSERT_TRUE(check(design));
    const std::vector<HostStep> steps = host_schedule(design, *find_array("npu1"));
    std::set<int> descriptors;
    std::set<size_t> tokens;
    std::vector<size_t> waited;
    for (const HostStep& step : steps) {
        if (step.kind == HostStep::Kind::wait) waited.push_back(step.transfer);
        if (step.kind == HostStep::Kind::issue) descriptors.insert(step.descriptor);
        if (step.token) tokens.insert(step.transfer);
    }
    // The fifth to eighth fill wait for the first to fourth, the end for every drain: each gives a token.
    EXPECT_EQ(waited, (std::vector<size_t>{4, 5, 6, 7, 0, 1, 2, 3}));
    EXPECT_EQ(tokens, (std::set<size_t>{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(descriptors.size(), 8U);
}

// Of every design of the library: as many waits as tokens, and one for each transfer to the host.
TEST(HostSchedule, EveryDrainOfTheLibraryHasAWaitOfItsOwn) {
    for (const char* name : {"gemm_i8_1024x5376x21504", "attention_i8_512x32x16x128x2048"}) {
        const Design design = *make_design(name, "npu1");
        std::multiset<size_t> issued, waited;
        for (const HostStep& step : host_schedule(design, *find_array("npu1"))) {
            if (step.kind == HostStep::Kind::wait) waited.insert(step.transfer);
            if (step.kind == HostStep::Kind::issue && step.token) issued.insert(step.transfer);
        }
        EXPECT_EQ(waited, issued);
        for (size_t i = 0; i < design.sequence.transfers.size(); ++i) {
            const size_t waits = goes_to_host(design, design.sequence.transfers[i]) ? 1 : waited.count(i);
            EXPECT_EQ(waited.count(i), waits) << name << ", " << i;
        }
    }
}

}  // namespace
}  // namespace tandem::npu
