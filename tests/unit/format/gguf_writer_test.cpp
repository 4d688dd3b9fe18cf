#include "format/gguf_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <numeric>
#include <thread>

#include "format/gguf.h"
#include "unit/format/bytes.h"

namespace tandem::format {
namespace {

TEST(GgufWriter, WritesWhatTheFormatSays) {
    GgufWriter writer;
    writer.set("k", uint32_t{5});
    const std::vector<float> values = {1.0F, 2.0F, 3.0F};
    writer.add("a", DType::f32, {1, 3}, std::as_bytes(std::span(values)));
    writer.add("b", DType::f32, {3}, std::as_bytes(std::span(values)));
    Bytes expected;
    expected.header(2, 1).string("k").put(uint32_t{4}).put(uint32_t{5});
    expected.tensor("a", {3, 1}, 0, 0).tensor("b", {3}, 0, 32).pad(32);
    expected.raw(std::as_bytes(std::span(values))).pad(32).raw(std::as_bytes(std::span(values))).pad(32);
    EXPECT_EQ(*writer.to_bytes(), expected.data);
}

TEST(GgufWriter, EveryTypeOfTensorComesBack) {
    GgufWriter writer;
    std::vector<std::vector<std::byte>> contents;
    contents.reserve(std::size(kAllDTypes));
    for (DType dtype : kAllDTypes) {
        auto& content = contents.emplace_back(3 * row_bytes(dtype, 256));
        for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<std::byte>(i * 7 + contents.size());
        writer.add(std::string(name(dtype)), dtype, {3, 256}, content);
    }
    writer.set("general.alignment", uint32_t{64});
    const auto bytes = writer.to_bytes();
    ASSERT_TRUE(bytes);
    const auto file = GgufFile::parse(*bytes, "test");
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_EQ(file->tensors().size(), contents.size());
    for (size_t i = 0; i < contents.size(); ++i) {
        const TensorRecord& tensor = file->tensors()[i];
        EXPECT_EQ(tensor.dtype, kAllDTypes[i]);
        EXPECT_EQ(tensor.shape, (std::vector<int64_t>{3, 256}));
        EXPECT_TRUE(std::equal(tensor.data.begin(), tensor.data.end(), contents[i].begin(), contents[i].end()));
        EXPECT_EQ((tensor.data.data() - bytes->data()) % 64, 0);
    }
}

TEST(GgufWriter, ReplacesAValueInItsPlace) {
    GgufWriter writer;
    writer.set("first", uint32_t{1});
    writer.set("second", uint32_t{2});
    writer.set("third", uint32_t{3});
    writer.set("first", "text now");
    writer.remove("second");
    writer.remove("unknown");
    writer.set("third", uint32_t{4});
    const auto bytes = writer.to_bytes();
    const auto file = GgufFile::parse(*bytes, "test");
    ASSERT_EQ(file->metadata().size(), 2U);
    EXPECT_EQ(file->metadata()[0].key, "first");
    EXPECT_EQ(file->get_string("first"), "text now");
    EXPECT_EQ(file->metadata()[1].key, "third");
    EXPECT_EQ(file->get_int("third"), 4);
}

TEST(GgufWriter, CopiesTheMetadataOfAnotherFile) {
    Bytes original;  // an array of arrays among them
    original.header(0, 2).string("nested").put(uint32_t{9}).put(uint32_t{9}).put(uint64_t{1});
    original.put(uint32_t{8}).put(uint64_t{2}).string("a").string("b");
    original.string("name").put(uint32_t{8}).string("model");
    const auto file = GgufFile::parse(original.data, "test");
    ASSERT_TRUE(file) << file.error().message;
    GgufWriter writer;
    for (const GgufEntry& entry : file->metadata()) writer.set(entry.key, entry.value);
    EXPECT_EQ(*writer.to_bytes(), original.pad(32).data);
}

// Numbers 0, 1, 2, ... in rows that a piece holds no whole number of.
GgufWriter counting_writer(int64_t rows, int64_t cols) {
    GgufWriter writer;
    const auto unit = static_cast<uint64_t>(cols) * sizeof(int32_t);
    writer.add({.name = "counted",
                .dtype = DType::i32,
                .shape = {rows, cols},
                .fill = [unit](uint64_t first, std::span<std::byte> out) -> Status {
                    if (first % unit != 0 || out.size() % unit != 0) return fail("no whole rows");
                    std::vector<int32_t> numbers(out.size() / sizeof(int32_t));
                    std::iota(numbers.begin(), numbers.end(), static_cast<int32_t>(first / sizeof(int32_t)));
                    std::memcpy(out.data(), numbers.data(), out.size());
                    return Ok{};
                },
                .unit_bytes = unit});
    return writer;
}

TEST(GgufWriter, MakesATensorPieceByPieceFromAllThreads) {
    const TempFolder folder;
    constexpr int64_t kRows = 1000;
    constexpr int64_t kCols = 1003;
    const GgufWriter writer = counting_writer(kRows, kCols);
    ThreadPool threads(3);
    uint64_t last = 0;
    const auto progress = [&](uint64_t done, uint64_t total) -> Status {
        EXPECT_GT(done, last);
        EXPECT_EQ(total, kRows * kCols * sizeof(int32_t));
        last = done;
        return Ok{};
    };
    const Status written = writer.write(folder.path / "out.gguf", {.threads = &threads, .progress = progress});
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_EQ(last, kRows * kCols * sizeof(int32_t));
    const auto file = GgufFile::open(folder.path / "out.gguf");
    ASSERT_TRUE(file) << file.error().message;
    for (int32_t i = 0; i < kRows * kCols; ++i) {
        int32_t number = 0;
        std::memcpy(&number, file->tensors()[0].data.data() + size_t{4} * static_cast<size_t>(i), 4);
        ASSERT_EQ(number, i);
    }
    const auto bytes = writer.to_bytes();
    ASSERT_TRUE(bytes);
    EXPECT_EQ(bytes->size(), std::filesystem::file_size(folder.path / "out.gguf"));
}

// What goes into a pipe cannot be put anywhere later: it is the same bytes, in their order.
TEST(GgufWriter, WritesToAPipeInOrder) {
    const TempFolder folder;
    const auto pipe = folder.path / "pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    const GgufWriter writer = counting_writer(700, 999);
    ThreadPool threads(3);
    std::string read;
    std::thread reader([&] {
        std::ifstream in(pipe, std::ios::binary);
        read.assign(std::istreambuf_iterator<char>(in), {});
    });
    const Status written = writer.write(pipe, {.threads = &threads});
    reader.join();
    ASSERT_TRUE(written) << written.error().message;
    const auto expected = writer.to_bytes().value();
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(read)), expected));
}

std::string error_of(const GgufWriter& writer) {
    const auto bytes = writer.to_bytes();
    return bytes ? "written" : bytes.error().message;
}

TEST(GgufWriter, RefusesWhatCouldNotBeRead) {
    const std::vector<std::byte> data(64);
    const auto error_with = [&](std::string name, DType dtype, std::vector<int64_t> shape) {
        GgufWriter writer;
        writer.add("there", DType::f32, {16}, data);
        writer.add(std::move(name), dtype, std::move(shape), data);
        return error_of(writer);
    };
    EXPECT_EQ(error_with("fine", DType::f32, {16}), "written");
    EXPECT_NE(error_with("there", DType::f32, {16}).find("'there' was added twice"), std::string::npos);
    EXPECT_NE(error_with("", DType::f32, {16}).find("name of 0 bytes"), std::string::npos);
    EXPECT_NE(error_with(std::string(64, 'n'), DType::f32, {16}).find("name of 64 bytes"), std::string::npos);
    EXPECT_NE(error_with("t", DType::f32, {}).find("its shape () must have 1 to 4"), std::string::npos);
    EXPECT_NE(error_with("t", DType::f32, {4, -4}).find("its shape (4, -4)"), std::string::npos);
    EXPECT_NE(error_with("t", DType::q4_0, {16}).find("not a multiple of the block"), std::string::npos);
    EXPECT_NE(error_with("t", DType::f32, {17}).find("64 bytes were given, 68 expected"), std::string::npos);
    EXPECT_NE(error_with("t", DType::f32, {15}).find("64 bytes were given, 60 expected"), std::string::npos);
    GgufWriter writer;
    writer.set("general.alignment", uint32_t{48});
    EXPECT_NE(error_of(writer).find("general.alignment is 48"), std::string::npos);
    GgufWriter unprintable;
    unprintable.set("a\nb", uint8_t{1});
    EXPECT_NE(error_of(unprintable).find("metadata key 'a\\x0ab' must be"), std::string::npos);
}

TEST(GgufWriter, LeavesTheOldFileWhenTheSourceFails) {
    const TempFolder folder;
    const auto path = folder.write("out.gguf", "old");
    GgufWriter writer;
    writer.add({.name = "t", .dtype = DType::f32, .shape = {4}, .fill = [](uint64_t, std::span<std::byte>) {
                    return Status(fail("the source is gone"));
                }});
    const Status written = writer.write(path);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().message, "the source is gone");
    EXPECT_EQ(*read_text_file(path), "old");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path), {}), 1);
}

// A limit on the size of files stands in for a full disk: there is no room for the file.
TEST(GgufWriter, ReportsAFullDisk) {
    const TempFolder folder;
    GgufWriter writer;
    const std::vector<std::byte> data(1 << 20);
    writer.add("t", DType::f32, {1 << 18}, data);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1 << 16, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const Status written = writer.write(folder.path / "out.gguf");
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, old_handler);
    ASSERT_FALSE(written);
    EXPECT_NE(written.error().message.find("out.gguf: cannot write 1.00 MiB: File too large"), std::string::npos)
        << written.error().message;
    EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

TEST(GgufWriter, NamesAPathItCannotWrite) {
    const Status written = GgufWriter().write("/nowhere/at/all.gguf");
    ASSERT_FALSE(written);
    EXPECT_NE(written.error().message.find("/nowhere/at/all.gguf: cannot write"), std::string::npos);
}

}  // namespace
}  // namespace tandem::format
