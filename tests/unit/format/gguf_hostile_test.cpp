// Files that are damaged, absurd or meant to harm: each gets one clear error and no more memory than its size deserves.
#include <gtest/gtest.h>

#include "format/gguf.h"
#include "format/gguf_writer.h"
#include "unit/format/bytes.h"

namespace tandem::format {
namespace {

std::string gguf_error_of(std::span<const std::byte> bytes) {
    const auto file = GgufFile::parse(bytes, "bad.gguf");
    if (file) return "parsed";
    EXPECT_EQ(file.error().message.find('\n'), std::string::npos);
    return file.error().message;
}

std::string gguf_error_of(const Bytes& bytes) {
    return gguf_error_of(bytes.data);
}

// EXPECT_GGUF_ERROR(bytes, "part of the message")
#define EXPECT_GGUF_ERROR(bytes, part) EXPECT_PRED2(contains, gguf_error_of(bytes), part)

Bytes entry(std::string_view key, uint32_t type) {
    Bytes bytes;
    bytes.header(0, 1).string(key).put(type);
    return bytes;
}

Bytes tensor(const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset, size_t data_bytes) {
    Bytes bytes;
    bytes.header(1, 0).tensor("blk.3.ffn_up.weight", dims, type, offset).pad(32, data_bytes);
    return bytes;
}

TEST(GgufHostile, FilesThatAreNoGguf) {
    EXPECT_GGUF_ERROR(Bytes(), "bad.gguf: not a GGUF file: it is empty");
    EXPECT_GGUF_ERROR(Bytes().text("GG"), "not a GGUF file: the download is incomplete");
    EXPECT_GGUF_ERROR(Bytes().text("hello, this is a text file"), "not a GGUF file: it is a text");
    EXPECT_GGUF_ERROR(Bytes().text("{\"error\": \"Entry not found\"}"), "an error message in place of the file");
    EXPECT_GGUF_ERROR(Bytes().pad(1, 100), "not a GGUF file: it begins with nothing but zeros");
    EXPECT_GGUF_ERROR(Bytes().put(uint64_t{20}).text("{\"t\":{\"dtype\":\"F32\"}"), "it is a safetensors file");
    EXPECT_GGUF_ERROR(Bytes().text("\x1f\x8b\x08"), "compressed with gzip");
    EXPECT_GGUF_ERROR(Bytes().text("version https://git-lfs.github.com/spec/v1"), "Git LFS pointer");
    EXPECT_GGUF_ERROR(Bytes().text("<!DOCTYPE html><html>"), "web page");
    EXPECT_GGUF_ERROR(Bytes().text("\n\n <HTML><body>404</body>"), "web page");
    EXPECT_GGUF_ERROR(Bytes().text("GGUF"),
                      "version needs 4 bytes at offset 4 but only 0 are left: the download is incomplete");
}

TEST(GgufHostile, OtherVersions) {
    EXPECT_GGUF_ERROR(Bytes().header(0, 0, 1), "GGUF version 1 is not supported");
    EXPECT_GGUF_ERROR(Bytes().header(0, 0, 4), "GGUF version 4 is not supported");
    EXPECT_GGUF_ERROR(Bytes().header(0, 0, 0x03000000), "big-endian");
}

TEST(GgufHostile, CountsBeyondTheFile) {
    EXPECT_GGUF_ERROR(Bytes().header(UINT64_MAX, 0), "18446744073709551615 tensors are more than any model has");
    EXPECT_GGUF_ERROR(Bytes().header(0, UINT64_MAX), "18446744073709551615 metadata entries");
    EXPECT_GGUF_ERROR(Bytes().header(0, 10), "do not fit into the 24 B of the file: the download is incomplete");
    EXPECT_GGUF_ERROR(Bytes().header(7, 0), "do not fit into the 24 B of the file: the download is incomplete");
}

// Wherever a download stops, that is what the message says.
TEST(GgufHostile, EveryBeginningOfAFileIsIncomplete) {
    Bytes whole;
    whole.header(1, 2).string("general.architecture").put(uint32_t{8}).string("llama");
    whole.string("list").put(uint32_t{9}).put(uint32_t{8}).put(uint64_t{2}).string("one").string("two");
    whole.tensor("blk.3.ffn_up.weight", {16}, 0, 0).pad(32, 64);
    ASSERT_EQ(gguf_error_of(whole), "parsed");
    const std::span<const std::byte> bytes = whole.data;
    for (size_t size = 1; size < bytes.size(); ++size) {
        const auto cut = GgufFile::parse(bytes.first(size), "cut.gguf");
        ASSERT_FALSE(cut) << size;
        EXPECT_PRED2(contains, cut.error().message, "the download is incomplete") << size;
    }
}

TEST(GgufHostile, KeysAndValues) {
    EXPECT_GGUF_ERROR(Bytes().header(0, 1).put(UINT64_MAX).put(uint64_t{0}),
                      "metadata key needs 18446744073709551615 bytes");
    EXPECT_GGUF_ERROR(entry("", 0).put(uint64_t{0}), "metadata key at offset 24 has 0 bytes");
    EXPECT_GGUF_ERROR(entry("a\x1b[31m", 0).put(uint64_t{0}), "'a\\x1b[31m' at offset 24 is not printable ASCII");
    EXPECT_GGUF_ERROR(entry("key", 13).put(uint64_t{0}), "metadata 'key' has unknown type 13 at offset 35");
    EXPECT_GGUF_ERROR(entry("key", 8).put(uint64_t{100}),
                      "metadata 'key': metadata value needs 100 bytes at offset 47");
    EXPECT_GGUF_ERROR(entry("key", 10).put(uint32_t{1}), "metadata 'key': metadata value needs 8 bytes");
    Bytes twice;
    twice.header(0, 2).string("key").put(uint32_t{0}).put(uint8_t{1}).string("key").put(uint32_t{0}).put(uint8_t{2});
    EXPECT_GGUF_ERROR(twice, "metadata key 'key' occurs twice");
}

TEST(GgufHostile, Arrays) {
    EXPECT_GGUF_ERROR(entry("key", 9).put(uint32_t{99}).put(uint64_t{0}), "elements of unknown type 99 at offset 39");
    EXPECT_GGUF_ERROR(entry("key", 9).put(uint32_t{10}).put(UINT64_MAX / 8 + 2), "elements of type u64 at offset 39");
    EXPECT_GGUF_ERROR(entry("key", 9).put(uint32_t{8}).put(uint64_t{1} << 60),
                      "1152921504606846976 elements of type string");
    EXPECT_GGUF_ERROR(entry("key", 9).put(uint32_t{8}).put(uint64_t{1}).put(UINT64_MAX),
                      "needs 18446744073709551615 bytes");
    Bytes deep = entry("key", 9);
    for (int i = 0; i < 100000; ++i) deep.put(uint32_t{9}).put(uint64_t{1});
    EXPECT_GGUF_ERROR(deep, "nests arrays deeper than 8");
}

TEST(GgufHostile, Alignments) {
    for (uint32_t alignment : {0U, 1U, 4U, 24U, 1U << 21, 0x80000000U}) {
        EXPECT_GGUF_ERROR(entry("general.alignment", 4).put(alignment),
                          fmt::format("general.alignment is {}", alignment));
    }
    EXPECT_GGUF_ERROR(entry("general.alignment", 8).string("32"), "general.alignment is of type string");
    EXPECT_GGUF_ERROR(entry("general.alignment", 10).put(uint64_t{32}), "general.alignment is of type u64");
}

TEST(GgufHostile, TensorShapes) {
    EXPECT_GGUF_ERROR(tensor({}, 0, 0, 64), "has 0 dimensions");
    EXPECT_GGUF_ERROR(tensor({1, 1, 1, 1, 1}, 0, 0, 64), "has 5 dimensions");
    EXPECT_GGUF_ERROR(tensor({4, 0}, 0, 0, 64), "has a dimension of 0");
    EXPECT_GGUF_ERROR(tensor({UINT64_MAX}, 0, 0, 64), "has a dimension of 18446744073709551615");
    EXPECT_GGUF_ERROR(tensor({uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0, 64), "more elements than 63 bits can count");
    EXPECT_GGUF_ERROR(tensor({uint64_t{1} << 62}, 0, 0, 64), "more bytes than 63 bits can count");
    EXPECT_GGUF_ERROR(tensor({48, 2}, 2, 0, 64), "rows of 48 elements, not a multiple of the block of q4_0 (32)");
    EXPECT_GGUF_ERROR(tensor({uint64_t{1} << 40}, 0, 0, 64), "the download is incomplete");
}

TEST(GgufHostile, TensorsOfForeignTypes) {
    EXPECT_EQ(gguf_error_of(tensor({256}, 15, 0, 84)), "parsed");
    EXPECT_EQ(gguf_error_of(tensor({256}, 0xffffffff, 0, 1)), "parsed");
    EXPECT_GGUF_ERROR(tensor({256}, 15, 0, 0), "the download is incomplete");
    EXPECT_GGUF_ERROR(tensor({256}, 15, 96, 64), "the download is incomplete");
    EXPECT_GGUF_ERROR(tensor({256}, 15, UINT64_MAX - 31, 64), "absurd offset");
    EXPECT_GGUF_ERROR(tensor({uint64_t{1} << 40, uint64_t{1} << 40}, 15, 0, 64), "more elements than 63 bits");
    for (const uint32_t other : {0U, 15U}) {  // where one begins, another may not
        Bytes same;
        same.header(2, 0).tensor("a", {8}, 15, 0).tensor("b", {8}, other, 0).pad(32, 64);
        EXPECT_GGUF_ERROR(same, "overlap");
    }
    Bytes inside;
    inside.header(2, 0).tensor("a", {16}, 0, 0).tensor("b", {8}, 15, 32).pad(32, 96);
    EXPECT_GGUF_ERROR(inside, "tensors 'a' and 'b' overlap");
    Bytes twice;
    twice.header(2, 0).tensor("a", {8}, 0, 0).tensor("a", {8}, 15, 32).pad(32, 64);
    EXPECT_GGUF_ERROR(twice, "tensor 'a' occurs twice");
}

TEST(GgufHostile, TensorOffsets) {
    EXPECT_EQ(gguf_error_of(tensor({16}, 0, 0, 64)), "parsed");
    EXPECT_GGUF_ERROR(
        tensor({16}, 0, 0, 63),
        "bad.gguf: tensor 'blk.3.ffn_up.weight' ends at byte 160 but the file has 159: the download is incomplete");
    EXPECT_GGUF_ERROR(tensor({16}, 0, 32, 64), "ends at byte 192 but the file has 160");
    EXPECT_GGUF_ERROR(tensor({16}, 0, 8, 128), "starts at offset 8 of the data, not a multiple of the alignment 32");
    EXPECT_GGUF_ERROR(tensor({16}, 0, UINT64_MAX - 31, 64), "absurd offset");
    EXPECT_GGUF_ERROR(tensor({16}, 0, uint64_t{1} << 63, 64), "ends at byte");
    Bytes headless;  // the file ends before the data begins
    headless.header(1, 0).tensor("t", {1}, 0, 0);
    EXPECT_GGUF_ERROR(headless, "the download is incomplete");
}

TEST(GgufHostile, TensorsThatCollide) {
    Bytes overlap;
    overlap.header(2, 0).tensor("a", {16}, 0, 0).tensor("b", {16}, 0, 32).pad(32, 96);
    EXPECT_GGUF_ERROR(overlap, "tensors 'a' and 'b' overlap");
    Bytes same;
    same.header(2, 0).tensor("a", {8}, 0, 0).tensor("a", {8}, 0, 32).pad(32, 64);
    EXPECT_GGUF_ERROR(same, "tensor 'a' occurs twice");
}

TEST(GgufHostile, NamesOfTensors) {
    Bytes empty;
    EXPECT_GGUF_ERROR(empty.header(1, 0).tensor("", {8}, 0, 0).pad(32, 32), "tensor name at offset 24 has 0 bytes");
    Bytes lengthy;
    EXPECT_GGUF_ERROR(lengthy.header(1, 0).tensor(std::string(256, 'x'), {8}, 0, 0).pad(32, 32),
                      "has 256 bytes, 1 to 255");
}

// Every prefix of a good file is refused, and so is none of its other bytes trusted blindly.
TEST(GgufHostile, EveryPrefixAndEveryDamagedByteIsSafe) {
    GgufWriter writer;
    writer.set("general.architecture", "gemma3");
    writer.set("list", std::vector<std::string>{"a", "bc"});
    writer.set("number", uint32_t{7});
    const std::vector<std::byte> data(36);
    writer.add("first", DType::q4_0, {2, 32}, data);
    writer.add("second", DType::f32, {9}, data);
    std::vector<std::byte> good = *writer.to_bytes();
    ASSERT_EQ(gguf_error_of(good), "parsed");
    const size_t end_of_data = good.size() - 28;  // the padding after the last tensor may be missing
    for (size_t size = 0; size < end_of_data; ++size)
        EXPECT_NE(gguf_error_of(std::span(good).first(size)), "parsed") << size;
    for (size_t i = 0; i < good.size(); ++i) {
        for (int value : {0, 1, 0x7f, 0x80, 0xff}) {
            const std::byte before = std::exchange(good[i], static_cast<std::byte>(value));
            const auto file = GgufFile::parse(good, "damaged");
            if (file) {
                for (const TensorRecord& t : file->tensors()) EXPECT_LE(t.data.size(), good.size());
            }
            good[i] = before;
        }
    }
}

}  // namespace
}  // namespace tandem::format
