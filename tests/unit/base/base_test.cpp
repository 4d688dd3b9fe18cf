#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/byte_reader.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/float16.h"
#include "base/result.h"
#include "base/statistics.h"
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
    EXPECT_EQ(parse_dtype("q9_k"), std::nullopt);
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
    EXPECT_NE(read_text_file(path, 2).error().message.find("3 B, more than the 2 B"), std::string::npos);
    std::filesystem::remove(path);
    EXPECT_NE(MappedFile::open(path).error().message.find("cannot open"), std::string::npos);
    EXPECT_NE(MappedFile::open("/").error().message.find("directory"), std::string::npos);
    EXPECT_NE(write_file("/nowhere/at/all", "x").error().message.find("/nowhere/at/all"), std::string::npos);
}

// With and without a temporary name, whichever the file system has.
TEST(File, IsWrittenWholeOrNotAtAll) {
    for (const bool unnamed : {true, false}) {
        const std::filesystem::path directory = std::filesystem::path(::testing::TempDir()) / "tandem_atomic";
        std::filesystem::remove_all(directory);
        std::filesystem::create_directory(directory);
        const auto files = [&] {
            std::vector<std::string> names;
            for (const auto& entry : std::filesystem::directory_iterator(directory))
                names.push_back(entry.path().filename());
            return names;
        };
        const auto begin = [&](std::string_view text) {
            auto file = AtomicFile::create(directory / "out", unnamed);
            EXPECT_TRUE(file && file->write(std::as_bytes(std::span(text))));
            return std::move(*file);
        };
        static_cast<void>(begin("given up"));
        EXPECT_TRUE(files().empty());
        ASSERT_TRUE(begin("one").commit());
        static_cast<void>(begin("given up"));
        EXPECT_EQ(*read_text_file(directory / "out"), "one");
        ASSERT_TRUE(begin("two").commit());
        EXPECT_EQ(*read_text_file(directory / "out"), "two");
        EXPECT_EQ(files(), std::vector<std::string>{"out"});
        const auto permissions = std::filesystem::status(directory / "out").permissions();
        EXPECT_EQ(permissions, std::filesystem::perms(0644));
        std::filesystem::remove_all(directory);
    }
}

TEST(File, IsWrittenInAnyOrderIntoRoomThatWasReserved) {
    const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "tandem_any_order";
    const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
    AtomicFile file = AtomicFile::create(path).value();
    EXPECT_FALSE(file.is_in_order());
    ASSERT_TRUE(file.reserve(8));
    ASSERT_TRUE(file.write_at(5, bytes("ef")));
    ASSERT_TRUE(file.write_at(0, bytes("ab")));
    ASSERT_TRUE(file.commit());
    EXPECT_EQ(*read_text_file(path), std::string("ab\0\0\0ef\0", 8));
    std::filesystem::remove(path);
}

TEST(File, TellsThatADiskIsTooSmallBeforeAnythingIsWritten) {
    const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "tandem_too_large";
    AtomicFile file = AtomicFile::create(path).value();
    const uint64_t capacity = std::filesystem::space(path.parent_path()).capacity;
    const Status reserved = file.reserve(capacity + capacity / 2);
    ASSERT_FALSE(reserved);
    EXPECT_NE(reserved.error().message.find("tandem_too_large: needs "), std::string::npos) << reserved.error().message;
    EXPECT_NE(reserved.error().message.find(" free: make room"), std::string::npos) << reserved.error().message;
}

TEST(Statistics, SetsAsideWhatWasDisturbed) {
    std::vector<double> samples;
    for (int i = 0; i < 13; ++i) samples.push_back(1.15 + 0.001 * (i % 3));
    for (int i = 0; i < 7; ++i) samples.push_back(5.0 + i);  // more than a quarter, so that no quartile is safe
    const Summary summary = summarize(samples);
    EXPECT_NEAR(summary.median, 1.152, 1e-3);
    EXPECT_EQ(summary.samples, 13);
    EXPECT_EQ(summary.outliers, 7);
    EXPECT_NEAR(summary.mean, 1.151, 1e-3);
    EXPECT_LT(summary.deviation, 2e-3);
    EXPECT_NEAR(summary.ci95, 1.96 * summary.deviation / std::sqrt(13.0), 1e-12);
}

TEST(Statistics, KeepsWhatOnlySpreads) {
    std::vector<double> samples;
    for (int i = 0; i < 80; ++i) samples.push_back(1.0 + 0.01 * (i % 20));
    EXPECT_EQ(summarize(samples).outliers, 0);
    samples.assign(79, 1.0);
    samples.push_back(1.009);  // others are alike to the last bit
    EXPECT_EQ(summarize(samples).outliers, 0);
    EXPECT_EQ(summarize({2.0}).samples, 1);
    EXPECT_EQ(summarize({2.0}).ci95, 0.0);
    EXPECT_EQ(summarize({1.0, 3.0}).mean, 2.0);
}

TEST(File, AMappingWhoseFileGetsShorterCanBeFilled) {
    struct sigaction handler {};
    struct sigaction before {};
    handler.sa_flags = SA_SIGINFO;
    handler.sa_sigaction = [](int, siginfo_t* info, void*) {
        if (!fill_lost_mapping(info->si_addr)) std::abort();
    };
    ASSERT_EQ(sigaction(SIGBUS, &handler, &before), 0);
    const auto folder = std::filesystem::path(testing::TempDir());
    ASSERT_TRUE(write_file(folder / "lost", std::string(100'000, 'x')));
    ASSERT_TRUE(write_file(folder / "kept", std::string(100'000, 'x')));
    {
        const MappedFile lost = MappedFile::open(folder / "lost").value();
        const MappedFile kept = MappedFile::open(folder / "kept").value();
        const uint64_t lost_before = lost_mappings();
        EXPECT_FALSE(is_lost(lost.bytes().subspan(50'000)));
        std::filesystem::resize_file(folder / "lost", 10);
        const std::byte read = *static_cast<const volatile std::byte*>(&lost.bytes()[90'000]);
        EXPECT_EQ(read, std::byte{0});
        EXPECT_EQ(lost_mappings(), lost_before + 1);
        EXPECT_TRUE(is_lost(lost.bytes().subspan(50'000)));
        EXPECT_FALSE(is_lost(kept.bytes()));
        EXPECT_EQ(kept.bytes()[90'000], std::byte{'x'});
        EXPECT_FALSE(fill_lost_mapping(&folder)) << "no file";
    }
    const MappedFile again = MappedFile::open(folder / "kept").value();
    EXPECT_FALSE(is_lost(again.bytes())) << "a place that was used before";
    sigaction(SIGBUS, &before, nullptr);
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

// Loops one after the other, while workers stay awake and after they went to sleep.
TEST(ThreadPool, LoopsOfManyKindsFollowEachOther) {
    ThreadPool pool(3);
    std::atomic<int64_t> sum = 0;
    const auto loop = [&](int64_t count) {
        pool.for_each_range(count, 1, [&](int64_t begin, int64_t end, int /*thread*/) { sum += end - begin; });
    };
    int64_t expected = 0;
    for (int round = 0; round < 200; ++round) {
        const ThreadPool::Awake awake(pool);
        for (int64_t count : {5, 1, 17}) {
            loop(count);
            expected += count;
            EXPECT_EQ(sum, expected);
        }
    }
    for (int round = 0; round < 200; ++round) {
        std::vector<double> work(static_cast<size_t>(round) * 100, 1.0);  // the caller is away for a while
        loop(1 + static_cast<int64_t>(work.size() % 7));
        expected += 1 + static_cast<int64_t>(work.size() % 7);
        EXPECT_EQ(sum, expected);
    }
}

}  // namespace
}  // namespace tandem
