#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

#include "base/byte_reader.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/float16.h"
#include "base/result.h"
#include "base/threads.h"

namespace tandem {
namespace {

Result<int> half(int value) {
    if (value % 2 != 0) return fail("{} is odd", value);
    return value / 2;
}

Result<int> quarter(int value) {
    const int once = TRY(half(value));
    return TRY(half(once));
}

TEST(Result, CarriesTheValueOrTheFirstError) {
    EXPECT_EQ(quarter(12).value(), 3);
    EXPECT_EQ(quarter(7).error().message, "7 is odd");
    EXPECT_EQ(quarter(6).error().message, "3 is odd");
}

TEST(Float16, EveryHalfSurvivesTheRoundTrip) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        const auto half_bits = static_cast<uint16_t>(bits);
        const float value = f16_to_f32(half_bits);
        if (std::isnan(value)) {
            EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value))));
        } else {
            EXPECT_EQ(f32_to_f16(value), half_bits) << value;
        }
    }
}

TEST(Float16, RoundsToNearestEvenAndSaturatesToInfinity) {
    EXPECT_EQ(f16_to_f32(f32_to_f16(1.0F + 0x1p-11F)), 1.0F);              // a tie goes to the even mantissa
    EXPECT_EQ(f16_to_f32(f32_to_f16(1.0F + 0x1.8p-10F)), 1.0F + 0x1p-9F);  // the next tie goes up
    EXPECT_EQ(f16_to_f32(f32_to_f16(65519.0F)), 65504.0F);
    EXPECT_EQ(f16_to_f32(f32_to_f16(65520.0F)), std::numeric_limits<float>::infinity());
    EXPECT_EQ(f16_to_f32(f32_to_f16(0x1p-25F)), 0.0F);
    EXPECT_EQ(f16_to_f32(f32_to_f16(0x1.8p-25F)), 0x1p-24F);
}

TEST(Bf16, RoundsToNearestEven) {
    EXPECT_EQ(bf16_to_f32(f32_to_bf16(1.0F + 0x1p-8F)), 1.0F);
    EXPECT_EQ(bf16_to_f32(f32_to_bf16(1.0F + 0x1.8p-7F)), 1.0F + 0x1p-6F);
    EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(DType, NamesAndSizesAgree) {
    for (DType dtype : kAllDTypes) EXPECT_EQ(parse_dtype(name(dtype)), dtype);
    EXPECT_EQ(parse_dtype("Q4_K"), DType::q4_k);
    EXPECT_EQ(parse_dtype("q3_k"), std::nullopt);
    EXPECT_EQ(row_bytes(DType::q6_k, 512), 420U);
    EXPECT_DOUBLE_EQ(info(DType::q4_0).bits_per_element(), 4.5);
}

TEST(ByteReader, KeepsTheFirstErrorWithItsOffset) {
    const std::byte bytes[] = {std::byte{1}, std::byte{2}, std::byte{3}};
    ByteReader reader(bytes);
    EXPECT_EQ(reader.read<uint16_t>("version"), 0x0201);
    EXPECT_EQ(reader.read<uint32_t>("count"), 0U);
    EXPECT_EQ(reader.read<uint8_t>("flag"), 0);
    EXPECT_EQ(reader.status().error().message, "count needs 4 bytes at offset 2 but only 1 are left");
}

TEST(File, WritesWholeAndReadsBack) {
    const auto path = std::filesystem::temp_directory_path() / "tandem_base_test.txt";
    ASSERT_TRUE(write_file(path, "one"));
    ASSERT_TRUE(write_file(path, "two"));
    EXPECT_EQ(read_text_file(path).value(), "two");
    EXPECT_EQ(MappedFile::open(path).value().bytes().size(), 3U);
    EXPECT_NE(read_text_file(path, 2).error().message.find("3 bytes"), std::string::npos);
    std::filesystem::remove(path);
    EXPECT_NE(MappedFile::open(path).error().message.find("cannot open"), std::string::npos);
    EXPECT_NE(MappedFile::open("/").error().message.find("directory"), std::string::npos);
    EXPECT_NE(write_file("/nowhere/at/all", "x").error().message.find("/nowhere/at/all"), std::string::npos);
}

TEST(ThreadPool, CoversEveryIndexOnce) {
    for (int threads : {1, 2, 5}) {
        ThreadPool pool(threads);
        EXPECT_EQ(pool.size(), threads);
        for (int64_t count : {0, 1, 7, 1000}) {
            std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
            pool.for_each_range(count, 3, [&](int64_t begin, int64_t end, int thread) {
                EXPECT_LT(thread, threads);
                for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
            });
            for (const auto& times : seen) EXPECT_EQ(times, 1);
        }
    }
}

}  // namespace
}  // namespace tandem
