#include "ranks/wire.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tandem::ranks {
namespace {

using device::Batch;

TEST(Wire, RowsInHalfAreWithinARoundingWhateverTheirSize) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    const int64_t cols = 37;
    for (const float size : {1e-3F, 1.0F, 6e4F, 1e6F, 3e30F}) {
        std::vector<float> rows(3 * cols);
        for (float& value : rows) value = size * normal(random);
        Writer writer;
        write_rows(writer, rows, cols, false);
        EXPECT_EQ(writer.bytes().size(), 3 * (4 + 2 * cols));
        std::vector<float> back(rows.size());
        ByteReader reader(writer.bytes());
        read_rows(reader, back, cols, false);
        EXPECT_TRUE(reader.ok());
        EXPECT_EQ(reader.remaining(), 0U);
        for (size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(back[i], rows[i], 4 * size * std::ldexp(1.0F, -11));
    }
}

TEST(Wire, ExactRowsKeepEveryBit) {
    const std::vector<float> rows = {1.0F, -0.0F, 3.4e38F, 1e-40F};
    Writer writer;
    write_rows(writer, rows, 2, true);
    std::vector<float> back(4);
    ByteReader reader(writer.bytes());
    read_rows(reader, back, 2, true);
    EXPECT_EQ(back, rows);
}

// A batch of one sequence with this table, which draws with a penalty on this history.
struct Step {
    std::vector<int32_t> table, history;
    device::SamplingParams params{
        .temperature = 0.5F, .repetition_penalty = 1.1F, .seed = 9, .logit_bias = {{3, 0.5F}}};
    std::vector<uint32_t> mask;

    Batch batch() const {
        Batch batch;
        batch.tokens = {5, 6};
        batch.positions = {10, 11};
        batch.sequences = {{.first_row = 0, .rows = 2, .past = 10, .blocks = {table}}};
        batch.output_rows = {1};
        batch.sampling = {{.params = &params, .history = history, .draw = 4, .allowed = mask}};
        return batch;
    }
};

TEST(Wire, BatchesArriveAsTheyWere) {
    Step step{.table = {7, 8}, .history = {1, 2, 3}, .mask = {0xf0U, 1U}};
    BatchWriter to_last;
    BatchWriter to_middle;
    BatchReader last;
    BatchReader middle;
    size_t first_bytes = 0;
    for (int round = 0; round < 3; ++round) {
        const Batch sent = step.batch();
        Writer writer;
        to_last.write(writer, sent, true);
        ByteReader reader(writer.bytes());
        ASSERT_TRUE(last.read(reader));
        const Batch& got = last.batch();
        EXPECT_EQ(got.positions, sent.positions);
        EXPECT_EQ(got.tokens.size(), sent.tokens.size());
        EXPECT_EQ(got.output_rows, sent.output_rows);
        ASSERT_EQ(got.sequences.size(), 1U);
        EXPECT_EQ(got.sequences[0].past, 10);
        EXPECT_TRUE(std::ranges::equal(got.sequences[0].blocks[0], step.table));
        ASSERT_EQ(got.sampling.size(), 1U);
        EXPECT_TRUE(std::ranges::equal(got.sampling[0].history, step.history));
        EXPECT_EQ(got.sampling[0].draw, 4U);
        EXPECT_EQ(got.sampling[0].params->logit_bias, step.params.logit_bias);
        EXPECT_EQ(got.sampling[0].params->seed, 9U);
        ASSERT_TRUE(last.wants_masks());
        Writer masks;
        write_masks(masks, sent);
        ASSERT_TRUE(last.set_masks(masks.bytes()));
        EXPECT_TRUE(std::ranges::equal(got.sampling[0].allowed, step.mask));
        if (round == 0) first_bytes = writer.bytes().size();
        if (round == 1) {  // only what is new of lists
            EXPECT_EQ(writer.bytes().size(), first_bytes - 4 * 5 + 4 * 2);
        }

        Writer less;
        to_middle.write(less, sent, false);
        ByteReader less_reader(less.bytes());
        ASSERT_TRUE(middle.read(less_reader));
        EXPECT_TRUE(middle.batch().sampling.empty());
        step.table.push_back(20 + round);
        step.history.push_back(30 + round);
        if (round == 1) step.table = {1};  // another sequence
    }
}

TEST(Wire, WhatIsCutOffIsRefused) {
    const Step step{.table = {7, 8}, .history = {1, 2, 3}, .mask = {1U}};
    Writer writer;
    BatchWriter().write(writer, step.batch(), true);
    for (size_t bytes = 0; bytes < writer.bytes().size(); ++bytes) {
        BatchReader batches;
        ByteReader reader(writer.bytes().first(bytes));
        EXPECT_FALSE(batches.read(reader)) << bytes;
    }
}

}  // namespace
}  // namespace tandem::ranks
