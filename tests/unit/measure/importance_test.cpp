// What is summed up of the inputs of matrices, by hand and on a model.
#include "measure/importance.h"

#include <gmock/gmock.h>

#include "graph/ops.h"
#include "measure/scorer.h"
#include "unit/engine/engine_fixture.h"

namespace tandem::measure {
namespace {

TEST(Importance, SumsSquaresByColumn) {
    Importance importance;
    const std::vector<float> first = {1, 2, 3, 4};
    const std::vector<float> second = {-1, 0};
    importance.add({"a", first, 2});
    importance.add({"a", second, 2});
    importance.add({"b", second, 1});
    importance.add({.matrix = "c", .rows = second, .cols = 2, .expert = 1, .experts = 3});
    const format::Imatrix imatrix = importance.imatrix();
    EXPECT_THAT(imatrix.find("a")->sums, testing::ElementsAre(11, 20));
    EXPECT_THAT(imatrix.find("a")->counts, testing::ElementsAre(3));
    EXPECT_THAT(imatrix.find("b")->sums, testing::ElementsAre(1));
    EXPECT_THAT(imatrix.find("b")->counts, testing::ElementsAre(2));
    EXPECT_THAT(imatrix.find("c")->sums, testing::ElementsAre(0, 0, 1, 0, 0, 0)) << "expert after expert";
    EXPECT_THAT(imatrix.find("c")->counts, testing::ElementsAre(0, 1, 0));
}

class ImportanceOfAModel : public engine::EngineTest {};

TEST_F(ImportanceOfAModel, IsOfEveryMatrixAndEveryToken) {
    Importance importance;
    const auto backend =
        cpu::make_backend({.threads = 1,
                           .observer =
                               [&](const cpu::LinearInput& in) {
                                   importance.add({in.weight, in.rows, in.cols, in.expert, in.experts});
                               }})
            .value();
    const auto scorer = Scorer::open(bundle().model, *backend, {.context = 64}).value();
    const std::vector<text::TokenId> tokens = bundle().tokenizer.encode("Once upon a time there was a fox.");
    ASSERT_TRUE(scorer->score(tokens, [](int, std::span<const float>) -> Status { return Ok{}; }));
    const format::Imatrix imatrix = importance.imatrix();
    for (const graph::Node& node : bundle().model.program.nodes) {
        if (node.op.as<op::Linear>() == nullptr) continue;
        const graph::Value& weight = bundle().model.program.value(node.inputs[0]);
        const format::Imatrix::Entry* const entry = imatrix.find(weight.name);
        ASSERT_NE(entry, nullptr) << weight.name;
        EXPECT_THAT(entry->counts, testing::ElementsAre(static_cast<float>(tokens.size()))) << weight.name;
        EXPECT_EQ(static_cast<int64_t>(entry->sums.size()), bundle().model.weights.find(weight.name)->shape[1]);
    }
    // Queries, keys and values are made of the same rows, as gate and up are.
    const auto sums = [&](std::string_view matrix) { return imatrix.find(matrix)->sums; };
    EXPECT_EQ(sums("blk.1.attn_q.weight"), sums("blk.1.attn_v.weight"));
    EXPECT_EQ(sums("blk.1.ffn_gate.weight"), sums("blk.1.ffn_up.weight"));
    EXPECT_NE(sums("blk.1.attn_q.weight"), sums("blk.0.attn_q.weight"));
}

}  // namespace
}  // namespace tandem::measure
