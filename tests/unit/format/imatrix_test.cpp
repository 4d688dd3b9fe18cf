#include "format/imatrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "format/gguf_writer.h"
#include "unit/format/bytes.h"

namespace tandem::format {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The older format: entries, then the number of chunks and the name of the text.
Bytes dat_entry(std::string_view name, int32_t calls, std::vector<float> sums) {
    Bytes bytes;
    bytes.put(static_cast<int32_t>(name.size())).text(name).put(calls).put(static_cast<int32_t>(sums.size()));
    for (const float sum : sums) bytes.put(sum);
    return bytes;
}

Bytes dat_file(const std::vector<Bytes>& entries) {
    Bytes bytes;
    bytes.put(static_cast<int32_t>(entries.size()));
    for (const Bytes& entry : entries) bytes.raw(entry.data);
    return bytes;
}

std::string dat_error(const Bytes& bytes) {
    const auto read = Imatrix::parse(bytes.data, "m.dat");
    return read ? "read" : read.error().message;
}

TEST(Imatrix, IsReadAsItWasWritten) {
    const TempFolder folder;
    Imatrix written;
    written.entries["blk.0.attn_q.weight"] = {.sums = {2, 4, 0}, .counts = {4}};
    written.entries["blk.0.ffn_up_exps.weight"] = {.sums = {1, 2, 3, 4, 5, 6}, .counts = {2, 0, 3}};
    written.datasets = {"book.txt"};
    written.chunks = 7;
    written.chunk_tokens = 512;
    ASSERT_TRUE(written.write(folder.path / "m.gguf"));
    const auto read = Imatrix::open(folder.path / "m.gguf");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->name, "m.gguf");
    EXPECT_THAT(read->datasets, ElementsAre("book.txt"));
    EXPECT_EQ(read->chunks, 7U);
    EXPECT_EQ(read->chunk_tokens, 512U);
    ASSERT_EQ(read->entries.size(), 2U);
    EXPECT_THAT(read->find("blk.0.attn_q.weight")->means(), ElementsAre(0.5F, 1.0F, 0.0F));
    // an expert that was never asked matters as any other
    EXPECT_THAT(read->find("blk.0.ffn_up_exps.weight")->means(), ElementsAre(0.5F, 1.0F, 1.0F, 1.0F, 5.0F / 3, 2.0F));
    EXPECT_EQ(read->find("blk.1.attn_q.weight"), nullptr);
}

TEST(Imatrix, ReadsTheOlderFormat) {
    Bytes bytes = dat_file({dat_entry("a.weight", 2, {1, 2}), dat_entry("b.weight", 0, {3})});
    const auto bare = Imatrix::parse(bytes.data, "m.dat");
    ASSERT_TRUE(bare) << bare.error().message;
    EXPECT_THAT(bare->find("a.weight")->means(), ElementsAre(0.5F, 1.0F));
    EXPECT_THAT(bare->find("b.weight")->means(), ElementsAre(3.0F));
    bytes.put(int32_t{9}).put(int32_t{3}).text("txt");
    const auto full = Imatrix::parse(bytes.data, "m.dat");
    ASSERT_TRUE(full) << full.error().message;
    EXPECT_EQ(full->chunks, 9U);
    EXPECT_THAT(full->datasets, ElementsAre("txt"));
}

TEST(Imatrix, RefusesWhatIsNone) {
    EXPECT_THAT(dat_error({}), HasSubstr("m.dat: is no importance matrix"));
    EXPECT_THAT(dat_error(Bytes().put(int32_t{-1})), HasSubstr("is no importance matrix"));
    EXPECT_THAT(dat_error(Bytes().put(int32_t{3})), HasSubstr("not whole"));
    EXPECT_THAT(dat_error(Bytes().put(int32_t{1}).put(int32_t{-5})), HasSubstr("-5 characters"));
    EXPECT_THAT(dat_error(dat_file({dat_entry("", 1, {1})})), HasSubstr("no name"));
    EXPECT_THAT(dat_error(dat_file({dat_entry("a", 1, {})})), HasSubstr("an entry of 0 values"));
    EXPECT_THAT(dat_error(dat_file({dat_entry("a", 1, {-1})})), HasSubstr("'a' has a sum or count that is negative"));
    EXPECT_THAT(dat_error(dat_file({dat_entry("a", 1, {std::numeric_limits<float>::quiet_NaN()})})),
                HasSubstr("not finite"));
    Bytes huge;
    huge.put(int32_t{1}).put(int32_t{1}).put('a').put(int32_t{1}).put(std::numeric_limits<int32_t>::max());
    EXPECT_THAT(dat_error(huge), HasSubstr("not whole"));
}

TEST(Imatrix, RefusesGgufFilesThatAreNone) {
    const std::vector<float> values = {1, 2, 3};
    const auto error_of = [&](std::string_view type, const std::vector<std::pair<std::string, int64_t>>& tensors) {
        GgufWriter writer;
        writer.set("general.type", type);
        for (const auto& [name, size] : tensors)
            writer.add(name, DType::f32, {size}, std::as_bytes(std::span(values).first(static_cast<size_t>(size))));
        const auto read = Imatrix::parse(writer.to_bytes().value(), "m.gguf");
        return read ? "read" : read.error().message;
    };
    EXPECT_EQ(error_of("imatrix", {{"a.in_sum2", 3}, {"a.counts", 1}}), "read");
    EXPECT_THAT(error_of("model", {{"a.in_sum2", 3}, {"a.counts", 1}}), HasSubstr("no importance matrix"));
    EXPECT_THAT(error_of("imatrix", {}), HasSubstr("m.gguf: has no entries"));
    EXPECT_THAT(error_of("imatrix", {{"a.in_sum2", 3}}), HasSubstr("'a' has sums but no counts"));
    EXPECT_THAT(error_of("imatrix", {{"a.counts", 3}}), HasSubstr("'a' has counts but no sums"));
    EXPECT_THAT(error_of("imatrix", {{"a.in_sum2", 3}, {"a.counts", 2}}), HasSubstr("no multiple of its 2 counts"));
}

}  // namespace
}  // namespace tandem::format
