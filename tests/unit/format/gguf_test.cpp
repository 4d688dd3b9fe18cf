#include "format/gguf.h"

#include <gtest/gtest.h>

#include "format/gguf_writer.h"
#include "unit/format/bytes.h"

namespace tandem::format {
namespace {

std::vector<std::byte> every_type() {
    GgufWriter writer;
    writer.set("u8", uint8_t{200});
    writer.set("i8", int8_t{-100});
    writer.set("u16", uint16_t{60000});
    writer.set("i16", int16_t{-30000});
    writer.set("u32", uint32_t{4000000000});
    writer.set("i32", int32_t{-2000000000});
    writer.set("f32", 0.5F);
    writer.set("bool", true);
    writer.set("string", "hello");
    writer.set("u64", uint64_t{1} << 40);
    writer.set("i64", -(int64_t{1} << 40));
    writer.set("f64", 0.1);
    writer.set("ints", std::vector<int32_t>{3, -4, 5});
    writer.set("floats", std::vector<float>{1.5F, -2.5F});
    writer.set("strings", std::vector<std::string>{"one", "", "three"});
    writer.set("huge", UINT64_MAX);
    return *writer.to_bytes();
}

TEST(Gguf, ReadsEveryKindOfMetadata) {
    const auto bytes = every_type();
    const auto file = GgufFile::parse(bytes, "test");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->version(), 3U);
    EXPECT_EQ(file->get_int("u8"), 200);
    EXPECT_EQ(file->get_int("i8"), -100);
    EXPECT_EQ(file->get_int("u16"), 60000);
    EXPECT_EQ(file->get_int("i16"), -30000);
    EXPECT_EQ(file->get_int("u32"), 4000000000);
    EXPECT_EQ(file->get_int("i32"), -2000000000);
    EXPECT_EQ(file->get_int("u64"), int64_t{1} << 40);
    EXPECT_EQ(file->get_int("i64"), -(int64_t{1} << 40));
    EXPECT_EQ(file->get_float("f32"), 0.5);
    EXPECT_EQ(file->get_float("f64"), 0.1);
    EXPECT_EQ(file->get_bool("bool"), true);
    EXPECT_EQ(file->get_string("string"), "hello");
    EXPECT_EQ(file->get_ints("ints"), (std::vector<int64_t>{3, -4, 5}));
    EXPECT_EQ(file->get_floats("floats"), (std::vector<float>{1.5F, -2.5F}));
    EXPECT_EQ(file->get_strings("strings"), (std::vector<std::string_view>{"one", "", "three"}));
}

TEST(Gguf, KeepsTheOrderOfTheMetadata) {
    const auto bytes = every_type();
    const auto file = GgufFile::parse(bytes, "test");
    ASSERT_EQ(file->metadata().size(), 16U);
    EXPECT_EQ(file->metadata()[0].key, "u8");
    EXPECT_EQ(file->metadata()[8].key, "string");
    EXPECT_EQ(file->metadata()[15].key, "huge");
}

TEST(Gguf, GivesNothingForAMissingKeyOrAnotherKind) {
    const auto bytes = every_type();
    const auto file = GgufFile::parse(bytes, "test");
    EXPECT_EQ(file->find("nothing"), nullptr);
    EXPECT_FALSE(file->get_int("nothing"));
    EXPECT_FALSE(file->get_int("string"));
    EXPECT_FALSE(file->get_int("bool"));
    EXPECT_FALSE(file->get_int("f32"));
    EXPECT_FALSE(file->get_int("huge"));  // does not fit
    EXPECT_FALSE(file->get_string("u8"));
    EXPECT_FALSE(file->get_bool("u8"));
    EXPECT_FALSE(file->get_ints("strings"));
    EXPECT_FALSE(file->get_ints("u8"));
    EXPECT_FALSE(file->get_strings("ints"));
    EXPECT_EQ(file->get_float("u8"), 200.0);  // an integer is a number
    EXPECT_EQ(file->get_float("huge"), 18446744073709551616.0);
}

TEST(Gguf, WalksArraysOfArrays) {
    Bytes bytes;
    bytes.header(0, 1).string("nested").put(uint32_t{9}).put(uint32_t{9}).put(uint64_t{2});
    bytes.put(uint32_t{4}).put(uint64_t{2}).put(uint32_t{7}).put(uint32_t{8});
    bytes.put(uint32_t{8}).put(uint64_t{1}).string("deep");
    const auto file = GgufFile::parse(bytes.data, "test");
    ASSERT_TRUE(file) << file.error().message;
    const auto outer = file->find("nested")->as_array();
    ASSERT_TRUE(outer);
    ASSERT_EQ(outer->count, 2U);
    std::vector<int64_t> numbers;
    std::vector<std::string_view> words;
    for (const GgufValue& inner : *outer) {
        const auto array = inner.as_array();
        for (const GgufValue& value : *array) {
            if (value.as_int()) numbers.push_back(*value.as_int());
            if (value.as_string()) words.push_back(*value.as_string());
        }
    }
    EXPECT_EQ(numbers, (std::vector<int64_t>{7, 8}));
    EXPECT_EQ(words, (std::vector<std::string_view>{"deep"}));
}

TEST(Gguf, TurnsTheOrderOfDimensionsAround) {
    Bytes bytes;  // version 2, with bytes between the tensors
    bytes.header(2, 0, 2).tensor("a", {3, 2}, 0, 0).tensor("b", {64, 5}, 8, 64).pad(32, 64 + 5 * 2 * 34);
    bytes.data[bytes.data.size() - 1] = std::byte{42};
    const auto file = GgufFile::parse(bytes.data, "test");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->version(), 2U);
    ASSERT_EQ(file->tensors().size(), 2U);
    const TensorRecord* a = file->find_tensor("a");
    ASSERT_NE(a, nullptr);
    EXPECT_EQ(a->shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(a->cols(), 3);
    EXPECT_EQ(a->elements(), 6);
    EXPECT_EQ(a->data.size(), 24U);
    const TensorRecord* b = file->find_tensor("b");
    EXPECT_EQ(b->dtype, DType::q8_0);
    EXPECT_EQ(b->shape, (std::vector<int64_t>{5, 64}));
    EXPECT_EQ(b->data.back(), std::byte{42});
    EXPECT_EQ(file->find_tensor("c"), nullptr);
}

TEST(Gguf, KeepsWhatTheHeaderSaysOfForeignTensors) {
    Bytes bytes;  // a type that has a name, one of this engine, and one that nobody knows
    bytes.header(3, 0).tensor("a", {256, 2}, 15, 0).tensor("b", {8}, 0, 192).tensor("c", {5}, 77, 224).pad(32, 240);
    const auto file = GgufFile::parse(bytes.data, "test");
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_EQ(file->tensors().size(), 1U);
    EXPECT_EQ(file->find_tensor("b"), &file->tensors()[0]);
    EXPECT_EQ(file->find_tensor("a"), nullptr);
    ASSERT_EQ(file->foreign_tensors().size(), 2U);
    const ForeignTensor& a = file->foreign_tensors()[0];
    EXPECT_EQ(a.name, "a");
    EXPECT_EQ(a.type, "q8_k");
    EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 256}));
    EXPECT_EQ(a.elements(), 512);
    EXPECT_EQ(a.data.size(), 192U);  // up to the next
    const ForeignTensor& c = file->foreign_tensors()[1];
    EXPECT_EQ(c.type, "type 77");
    EXPECT_EQ(c.data.size(), 16U);  // up to the end
    EXPECT_EQ(c.data.data() + c.data.size(), bytes.data.data() + bytes.data.size());
}

TEST(Gguf, HonoursTheAlignment) {
    Bytes bytes;
    bytes.header(1, 1).string("general.alignment").put(uint32_t{4}).put(uint32_t{256});
    bytes.tensor("a", {1}, 0, 0).pad(256, 4);
    const auto file = GgufFile::parse(bytes.data, "test");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->alignment(), 256U);
    EXPECT_EQ(file->tensors()[0].data.data(), bytes.data.data() + 256);
}

TEST(Gguf, StaysValidWhenMoved) {
    const TempFolder folder;
    GgufWriter writer;
    writer.set("general.name", "a name that is longer than a small string holds");
    const std::vector<float> values(8, 2.0F);
    writer.add("weights", DType::f32, {2, 4}, std::as_bytes(std::span(values)));
    ASSERT_TRUE(writer.write(folder.path / "model.gguf"));
    auto opened = GgufFile::open(folder.path / "model.gguf");
    ASSERT_TRUE(opened);
    const GgufFile moved = std::move(*opened);
    EXPECT_EQ(moved.get_string("general.name"), "a name that is longer than a small string holds");
    EXPECT_EQ(moved.find_tensor("weights")->data.size(), 32U);
    EXPECT_EQ(moved.find_tensor("weights")->data[3], std::byte{0x40});
}

// Writes part `number` (from 1) of `count` with one tensor of its own.
void write_part(const TempFolder& folder, int number, int count, int total_tensors, std::string_view tensor) {
    GgufWriter writer;
    writer.set("split.no", static_cast<uint16_t>(number - 1));
    writer.set("split.count", static_cast<uint16_t>(count));
    writer.set("split.tensors.count", static_cast<int32_t>(total_tensors));
    if (number == 1) writer.set("general.architecture", "gemma3");
    const std::vector<float> values(4, static_cast<float>(number));
    writer.add(std::string(tensor), DType::f32, {4}, std::as_bytes(std::span(values)));
    const auto path = folder.path / fmt::format("m-{:05}-of-{:05}.gguf", number, count);
    ASSERT_TRUE(writer.write(path));
}

TEST(GgufSplit, AnyPartOpensAllOfThem) {
    const TempFolder folder;
    for (int i = 1; i <= 3; ++i) write_part(folder, i, 3, 3, fmt::format("t{}", i));
    for (int i = 1; i <= 3; ++i) {
        const auto file = GgufFile::open(folder.path / fmt::format("m-{:05}-of-00003.gguf", i));
        ASSERT_TRUE(file) << file.error().message;
        EXPECT_EQ(file->parts(), 3U);
        EXPECT_EQ(file->tensors().size(), 3U);
        EXPECT_EQ(file->get_string("general.architecture"), "gemma3");
        float third = 0;
        std::memcpy(&third, file->find_tensor("t3")->data.data(), sizeof(third));
        EXPECT_EQ(third, 3.0F);
    }
}

std::string split_error(const TempFolder& folder) {
    const auto file = GgufFile::open(folder.path / "m-00001-of-00002.gguf");
    return file ? "" : file.error().message;
}

TEST(GgufSplit, NamesAMissingPart) {
    const TempFolder folder;
    write_part(folder, 1, 2, 2, "a");
    EXPECT_NE(split_error(folder).find("m-00002-of-00002.gguf: cannot open"), std::string::npos);
    EXPECT_NE(split_error(folder).find("all 2 parts must be in one folder"), std::string::npos);
}

TEST(GgufSplit, RefusesATensorInTwoParts) {
    const TempFolder folder;
    write_part(folder, 1, 2, 2, "same");
    write_part(folder, 2, 2, 2, "same");
    EXPECT_NE(split_error(folder).find("tensor 'same' occurs twice in its 2 parts"), std::string::npos);
}

TEST(GgufSplit, RefusesPartsOfDifferentModels) {
    const TempFolder folder;
    write_part(folder, 1, 2, 5, "a");
    write_part(folder, 2, 2, 2, "b");
    EXPECT_NE(split_error(folder).find("split.tensors.count is 5 but the 2 parts have 2"), std::string::npos);
}

TEST(GgufSplit, RefusesAPartUnderAWrongName) {
    const TempFolder folder;
    write_part(folder, 1, 2, 2, "a");
    std::filesystem::copy(folder.path / "m-00001-of-00002.gguf", folder.path / "m-00002-of-00002.gguf");
    EXPECT_NE(split_error(folder).find("says part 1 of 2 (split.no, split.count), its name part 2 of 2"),
              std::string::npos);
    std::filesystem::copy(folder.path / "m-00001-of-00002.gguf", folder.path / "renamed.gguf");
    const auto renamed = GgufFile::open(folder.path / "renamed.gguf");
    ASSERT_FALSE(renamed);
    EXPECT_NE(renamed.error().message.find("one of 2 parts"), std::string::npos);
}

// The shape of a 27B model, as a sparse file: opening must not read what is not asked for.
TEST(Gguf, OpensALargeModel) {
    const TempFolder folder;
    constexpr uint64_t kTensors = 800;
    constexpr uint64_t kTokens = 262144;
    constexpr uint64_t kTensorBytes = uint64_t{21504} * 5376 / 32 * 18;
    Bytes bytes;
    bytes.header(kTensors, 1).string("tokenizer.ggml.tokens").put(uint32_t{9}).put(uint32_t{8}).put(kTokens);
    for (uint64_t i = 0; i < kTokens; ++i) bytes.string(fmt::format("token{}", i));
    for (uint64_t i = 0; i < kTensors; ++i)
        bytes.tensor(fmt::format("blk.{}.weight", i), {5376, 21504}, 2, i * kTensorBytes);
    const auto path = folder.write("large.gguf", bytes.pad(32).view());
    std::error_code error;
    std::filesystem::resize_file(path, bytes.data.size() + kTensors * kTensorBytes, error);
    if (error) GTEST_SKIP() << "no sparse files here: " << error.message();

    const auto file = GgufFile::open(path);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->tensors().size(), kTensors);
    EXPECT_EQ(file->find("tokenizer.ggml.tokens")->as_array()->count, kTokens);
    EXPECT_EQ(file->find_tensor("blk.799.weight")->data.size(), kTensorBytes);
    EXPECT_EQ(file->get_strings("tokenizer.ggml.tokens")->back(), "token262143");

    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
    const auto truncated = GgufFile::open(path);
    ASSERT_FALSE(truncated);
    EXPECT_NE(truncated.error().message.find("tensor 'blk.799.weight' ends at byte"), std::string::npos);
}

}  // namespace
}  // namespace tandem::format
