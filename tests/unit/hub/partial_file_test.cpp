#include "hub/partial_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "hub/digest.h"

namespace tandem::hub {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr uint64_t kPiece = 1000;

std::string content() {
    std::string text;
    for (int i = 0; text.size() < 3500; ++i) text += fmt::format("{},", i * i);
    text.resize(3500);
    return text;
}

std::string checksum(const std::string& text) {
    Digest digest(std::string(64, '0'), text.size());
    digest.add(std::as_bytes(std::span(text)));
    return digest.hex();
}

class PartialFileTest : public testing::Test {
  protected:
    void SetUp() override {
        folder_ = fs::temp_directory_path() /
                  fmt::format("tandem-partial-{}-{}", ::getpid(), testing::UnitTest::GetInstance()->random_seed());
        fs::create_directories(folder_);
    }
    void TearDown() override { fs::remove_all(folder_); }

    std::unique_ptr<PartialFile> open(const std::string& etag, const std::string& identity = "one") {
        auto file = PartialFile::open({.path = folder_ / "partial",
                                       .size_bytes = text_.size(),
                                       .identity = identity,
                                       .etag = etag,
                                       .piece_bytes = kPiece});
        EXPECT_TRUE(file);
        return std::move(*file);
    }
    Status write(PartialFile& file, size_t begin, size_t size) {
        return file.write(begin, std::as_bytes(std::span(text_).subspan(begin, size)));
    }

    fs::path folder_;
    std::string text_ = content();
};

TEST_F(PartialFileTest, GetsItsNameWhenAllPiecesAreThereAndRight) {
    const auto file = open(checksum(text_));
    EXPECT_EQ(file->pieces().size(), 4U);
    EXPECT_TRUE(write(*file, 3000, 500));
    EXPECT_TRUE(write(*file, 0, 2500));
    EXPECT_FALSE(file->is_done());
    EXPECT_TRUE(write(*file, 2500, 500));
    ASSERT_TRUE(file->is_done());
    EXPECT_FALSE(fs::exists(folder_ / "whole"));
    ASSERT_TRUE(file->finish(folder_ / "whole"));
    EXPECT_EQ(*read_text_file(folder_ / "whole"), text_);
    EXPECT_FALSE(fs::exists(folder_ / "partial"));
}

TEST_F(PartialFileTest, GoesOnWithWhatAnEarlierRunHas) {
    const std::string sum = checksum(text_);
    {
        const auto file = open(sum);
        ASSERT_TRUE(write(*file, 1000, 1000));
        ASSERT_TRUE(write(*file, 3000, 500));
    }
    const auto file = open(sum);
    EXPECT_EQ(file->done_bytes(), 1500U);
    ASSERT_TRUE(write(*file, 0, 1000));
    ASSERT_TRUE(write(*file, 2000, 1000));
    ASSERT_TRUE(file->finish(folder_ / "whole"));
    EXPECT_EQ(*read_text_file(folder_ / "whole"), text_);
}

TEST_F(PartialFileTest, ChecksAWholeFileThatWasNotRenamed) {
    ASSERT_TRUE(write_file(folder_ / "partial", text_));
    const auto file = open(checksum(text_));
    EXPECT_TRUE(file->is_done());
    EXPECT_TRUE(file->finish(folder_ / "whole"));
}

TEST_F(PartialFileTest, IsRemovedWhenTheChecksumIsWrong) {
    const auto file = open(std::string(64, 'a'));
    ASSERT_TRUE(write(*file, 0, text_.size()));
    const Status finished = file->finish(folder_ / "whole");
    ASSERT_FALSE(finished);
    EXPECT_THAT(finished.error().message, HasSubstr("should be aaaa"));
    EXPECT_FALSE(fs::exists(folder_ / "whole"));
    EXPECT_FALSE(fs::exists(folder_ / "partial"));
}

TEST_F(PartialFileTest, BeginsAnewForAnotherContent) {
    {
        const auto file = open("", "one");
        ASSERT_TRUE(write(*file, 0, 2000));
    }
    EXPECT_EQ(open("", "one")->done_bytes(), 2000U);
    EXPECT_EQ(open("", "another")->done_bytes(), 0U);
}

TEST_F(PartialFileTest, RefusesMoreThanTheWhole) {
    const auto file = open("");
    ASSERT_TRUE(write(*file, 0, text_.size()));
    const std::string more = "x";
    EXPECT_FALSE(file->write(text_.size(), std::as_bytes(std::span(more))));
}

TEST_F(PartialFileTest, DoesNotTrustABrokenJournal) {
    for (const size_t at : {text_.size(), text_.size() + 20, text_.size() + 44}) {
        fs::remove(folder_ / "partial");
        const std::string sum = checksum(text_);
        { ASSERT_TRUE(write(*open(sum), 0, 2000)); }
        std::fstream broken(folder_ / "partial", std::ios::in | std::ios::out | std::ios::binary);
        broken.seekp(static_cast<std::streamoff>(at));
        broken << "\xff\xff\xff\xff";
        broken.close();
        EXPECT_EQ(open(sum)->done_bytes(), 0U) << at;
    }
}

TEST(Digest, KnowsGitBlobs) {
    const std::string text = "hello\n";  // git hash-object
    Digest digest(std::string(40, '0'), text.size());
    digest.add(std::as_bytes(std::span(text)));
    EXPECT_EQ(digest.hex(), "ce013625030ba8dba906f756967f9e9ca394464a");
}

}  // namespace
}  // namespace tandem::hub
