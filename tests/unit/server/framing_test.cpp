#include "server/framing.h"

#include <gtest/gtest.h>

#include <variant>

namespace tandem::server {
namespace {

// The framing, or the status of the refusal.
std::variant<Framing, int> framing(const Headers& headers, bool is_http_1_0 = false) {
    const Reply<Framing> found = framing_of({.method = "POST", .target = "/", .headers = headers}, is_http_1_0);
    if (found) return *found;
    return found.error().status;
}

constexpr const char* kCoding = "transfer-encoding";
constexpr const char* kLength = "content-length";

using Told = std::variant<Framing, int>;

TEST(Framing, IsALengthOrChunksOrNothing) {
    EXPECT_EQ(framing({}), Told(Framing::no_body));
    EXPECT_EQ(framing({{kLength, "0"}}), Told(Framing::no_body));
    EXPECT_EQ(framing({{kLength, "00"}}), Told(Framing::no_body));
    EXPECT_EQ(framing({{kLength, "5"}}), Told(Framing::length));
    EXPECT_EQ(framing({{kLength, "005"}}), Told(Framing::length));
    EXPECT_EQ(framing({{kCoding, "chunked"}}), Told(Framing::chunks));
    EXPECT_EQ(framing({{kCoding, " ChunKed\t"}}), Told(Framing::chunks));
}

TEST(Framing, RefusesLengthsThatCanBeReadTwoWays) {
    for (const char* const length : {"", "+5", "-5", "5, 5", "5,5", "5,6", "0x5", "5 5", "5.0", "5a", "١"}) {
        EXPECT_EQ(framing({{kLength, length}}), Told(400)) << length;
    }
    EXPECT_EQ(framing({{kLength, "5"}, {kLength, "5"}}), Told(400));
    EXPECT_EQ(framing({{kLength, "5"}, {kLength, "6"}}), Told(400));
    EXPECT_EQ(framing({{kLength, "5"}, {kCoding, "chunked"}}), Told(400));
    EXPECT_EQ(framing({{kLength, "5"}, {kCoding, "identity"}}), Told(400));
    EXPECT_EQ(framing({{kLength, "0"}, {kCoding, ""}}), Told(400));
}

TEST(Framing, RefusesCodingsThatDoNotEndInChunks) {
    for (const char* const coding :
         {"", "identity", "xchunked", "chunkedx", "chunked, identity", "chunked, chunked", "chunked,", ",chunked",
          "gzip,, chunked", "gzip", "chunked;q=1", "\"chunked\"", "chunked gzip",
          "\x0b"
          "chunked"}) {
        EXPECT_EQ(framing({{kCoding, coding}}), Told(400)) << coding;
    }
    EXPECT_EQ(framing({{kCoding, "chunked"}, {kCoding, "identity"}}), Told(400));
    EXPECT_EQ(framing({{kCoding, "chunked"}, {kCoding, "chunked"}}), Told(400));
    EXPECT_EQ(framing({{kCoding, "chunked"}}, true), Told(400)) << "HTTP/1.0 has none";
}

TEST(Framing, KnowsNoCodingButChunks) {
    EXPECT_EQ(framing({{kCoding, "gzip, chunked"}}), Told(501));
    EXPECT_EQ(framing({{kCoding, "gzip"}, {kCoding, "chunked"}}), Told(501));
    EXPECT_EQ(framing({{kCoding, "identity, chunked"}}), Told(501));
}

}  // namespace
}  // namespace tandem::server
