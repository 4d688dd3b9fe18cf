#include "format/safetensors.h"

#include <gtest/gtest.h>

#include "unit/format/bytes.h"

namespace tandem::format {
namespace {

Bytes file(std::string_view header, size_t data_bytes) {
    Bytes bytes;
    bytes.string(header);  // a length of 64 bits and the text, as in GGUF
    for (size_t i = 0; i < data_bytes; ++i) bytes.put(static_cast<uint8_t>(i));
    return bytes;
}

std::string header_error_of(const Bytes& bytes) {
    const auto parsed = SafetensorsFile::parse(bytes.data, "bad.safetensors");
    return parsed ? "parsed" : parsed.error().message;
}

std::string header_error_of(std::string_view header, size_t data_bytes) {
    return header_error_of(file(header, data_bytes));
}

#define EXPECT_HEADER_ERROR(header, data_bytes, part) EXPECT_PRED2(contains, header_error_of(header, data_bytes), part)

TEST(Safetensors, ReadsTensorsAndMetadata) {
    const Bytes bytes = file(
        R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},"__metadata__":{"format":"pt","by":"me"},)"
        R"("a":{"shape":[2],"data_offsets":[0,4],"dtype":"BF16"},"scalar":{"dtype":"F16","shape":[],"data_offsets":[28,30]},)"
        R"("none":{"dtype":"I32","shape":[0,4],"data_offsets":[28,28]}}   )",
        30);
    const auto parsed = SafetensorsFile::parse(bytes.data, "test");
    ASSERT_TRUE(parsed) << parsed.error().message;
    ASSERT_EQ(parsed->tensors().size(), 4U);
    EXPECT_EQ(parsed->tensors()[0].name, "a");
    EXPECT_EQ(parsed->tensors()[0].dtype, DType::bf16);
    const TensorRecord* b = parsed->find_tensor("b");
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(b->dtype, DType::f32);
    EXPECT_EQ(b->shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(b->data.size(), 24U);
    EXPECT_EQ(b->data[0], std::byte{4});
    EXPECT_EQ(parsed->find_tensor("scalar")->elements(), 1);
    EXPECT_EQ(parsed->find_tensor("none")->elements(), 0);
    EXPECT_EQ(parsed->find_tensor("missing"), nullptr);
    ASSERT_EQ(parsed->metadata().size(), 2U);
    EXPECT_EQ(parsed->metadata()[1].first, "format");
    EXPECT_EQ(parsed->metadata()[1].second, "pt");
}

TEST(Safetensors, KeepsWhatTheHeaderSaysOfForeignTensors) {
    const Bytes bytes = file(R"({"b":{"dtype":"F8_E4M3","shape":[2,3],"data_offsets":[4,10]},)"
                             R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("c":{"dtype":"\u001b[0m","shape":[2],"data_offsets":[10,12]}})",
                             12);
    const auto parsed = SafetensorsFile::parse(bytes.data, "test");
    ASSERT_TRUE(parsed) << parsed.error().message;
    ASSERT_EQ(parsed->tensors().size(), 1U);
    EXPECT_EQ(parsed->find_tensor("b"), nullptr);
    EXPECT_TRUE(parsed->contains("b"));
    EXPECT_FALSE(parsed->contains("d"));
    ASSERT_EQ(parsed->foreign_tensors().size(), 2U);
    EXPECT_EQ(parsed->foreign_tensors()[0].type, "f8_e4m3");
    EXPECT_EQ(parsed->foreign_tensors()[0].elements(), 6);
    EXPECT_EQ(parsed->foreign_tensors()[0].data.size(), 6U);
    EXPECT_EQ(parsed->foreign_tensors()[1].type, "type '\\x1b[0m'");
    EXPECT_HEADER_ERROR(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,5]}})", 4, "download is incomplete");
    EXPECT_HEADER_ERROR(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4, "the end first");
    EXPECT_HEADER_ERROR(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
                        "more elements");
}

TEST(Safetensors, AnEmptyFileOfTensorsIsFine) {
    EXPECT_EQ(header_error_of("{}", 0), "parsed");
}

TEST(Safetensors, HeadersThatAreNone) {
    EXPECT_PRED2(contains, header_error_of(Bytes()), "bad.safetensors: not a safetensors file: it is empty");
    EXPECT_PRED2(contains, header_error_of(Bytes().text("abc")), "not a safetensors file");
    EXPECT_PRED2(contains, header_error_of(Bytes().text("version https://git-lfs.github.com/spec/v1")),
                 "Git LFS pointer");
    EXPECT_PRED2(contains, header_error_of(Bytes().put(UINT64_MAX).text("{}")),
                 "a header of 18446744073709551615 bytes");
    EXPECT_PRED2(contains, header_error_of(Bytes().put(uint64_t{3}).text("{}")), "a header of 3 bytes in a file of 10");
    EXPECT_HEADER_ERROR("", 0, "not valid JSON at its byte");
    EXPECT_HEADER_ERROR("{", 0, "not valid JSON");
    EXPECT_HEADER_ERROR("{}x", 0, "not valid JSON at its byte 3");
    EXPECT_HEADER_ERROR("{\"\xff\":1}", 0, "not valid JSON");
    EXPECT_HEADER_ERROR("[]", 0, "an array in a wrong place");
    EXPECT_HEADER_ERROR("7", 0, "a number in a wrong place");
    EXPECT_HEADER_ERROR(R"({"a":null})", 0, "null in a wrong place of the header, near tensor 'a'");
    EXPECT_HEADER_ERROR(R"({"__metadata__":{"a":1}})", 0, "a number in a wrong place");
    EXPECT_HEADER_ERROR(R"({"__metadata__":{"a":{}}})", 0, "an object in a wrong place");
}

TEST(Safetensors, NestingBombsEndAtOnce) {
    EXPECT_HEADER_ERROR(std::string(1000000, '['), 0, "an array in a wrong place");
    std::string objects;
    for (int i = 0; i < 100000; ++i) objects += R"({"a":)";
    EXPECT_HEADER_ERROR(objects, 0, "unknown field 'a'");
    std::string arrays = R"({"a":{"shape":)" + std::string(1000000, '[');
    EXPECT_HEADER_ERROR(arrays, 0, "an array in a wrong place");
}

TEST(Safetensors, FieldsOfATensor) {
    EXPECT_HEADER_ERROR(R"({"a":{"dtype":"F32","shape":[1]}})", 4, "tensor 'a' lacks");
    EXPECT_HEADER_ERROR(R"({"a":{"dtype":"F32","dtype":"F32"}})", 4, "tensor 'a' has dtype twice");
    EXPECT_HEADER_ERROR(R"({"a":{"shape":[1],"shape":[1]}})", 4, "tensor 'a' has shape twice");
    EXPECT_HEADER_ERROR(R"({"a":{"more":1}})", 4, "tensor 'a' has an unknown field 'more'");
    EXPECT_HEADER_ERROR(R"({"a":{"dtype":7}})", 4, "a number in a wrong place");
    EXPECT_HEADER_ERROR(R"({"a":{"shape":[-1]}})", 4, "a negative number");
    EXPECT_HEADER_ERROR(R"({"a":{"shape":[1.5]}})", 4, "a fraction");
    EXPECT_HEADER_ERROR(R"({"a":{"shape":["1"]}})", 4, "a string in a wrong place");
    EXPECT_HEADER_ERROR(R"({"a":{"shape":[1,1,1,1,1,1,1,1,1]}})", 4, "more than 8 numbers");
    EXPECT_HEADER_ERROR(R"({"a":{"shape":[18446744073709551615]}})", 4, "has 18446744073709551615 in shape");
    EXPECT_HEADER_ERROR(R"({"a":{"shape":[99999999999999999999]}})", 4, "a fraction");
    EXPECT_HEADER_ERROR(R"({"a":{"data_offsets":[1]}})", 4, "data_offsets must be [begin, end]");
    EXPECT_HEADER_ERROR(R"({"a":{"data_offsets":[1,2,3]}})", 4, "more than 2 numbers");
}

TEST(Safetensors, Offsets) {
    EXPECT_EQ(header_error_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8), "parsed");
    EXPECT_HEADER_ERROR(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7,
                        "tensor 'a' ends at byte 8 of the data but there are 7: the download is incomplete");
    EXPECT_HEADER_ERROR(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 8,
                        "[0, 4] but its shape takes 8 bytes");
    EXPECT_HEADER_ERROR(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "[8, 0], the end first");
    EXPECT_HEADER_ERROR(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9,
                        "1 bytes after the last tensor");
    EXPECT_HEADER_ERROR(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})", 9,
                        "begins at byte 1 of the data, 0 was");
    EXPECT_HEADER_ERROR(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
                        "more elements than 63 bits");
    EXPECT_HEADER_ERROR(R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0,
                        "more bytes than 63 bits");
}

TEST(Safetensors, TensorsThatCollide) {
    EXPECT_HEADER_ERROR(
        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
        12, "tensor 'b' begins at byte 4 of the data, 8 was expected");
    EXPECT_HEADER_ERROR(
        R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
        8, "tensor 'a' occurs twice");
    EXPECT_HEADER_ERROR(R"({"__metadata__":{"k":"1","k":"2"}})", 0, "metadata key 'k' occurs twice");
    EXPECT_HEADER_ERROR(R"({"__metadata__":{},"__metadata__":{}})", 0, "__metadata__ occurs twice");
}

}  // namespace
}  // namespace tandem::format
