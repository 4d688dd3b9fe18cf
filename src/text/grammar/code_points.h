// Sets of Unicode characters, and the UTF-8 bytes that they are written with.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace tandem::text::grammar {

struct CodeRange {
    uint32_t first = 0;
    uint32_t last = 0;

    bool operator==(const CodeRange&) const = default;
};

// Of scalar values: surrogates are never in it.
class CodePoints {
  public:
    CodePoints() = default;
    CodePoints(std::initializer_list<CodeRange> ranges);
    static CodePoints all();

    void add(uint32_t first, uint32_t last);
    void add(const CodePoints& other);
    CodePoints complement() const;
    CodePoints without(const CodePoints& other) const;

    bool empty() const { return ranges().empty(); }
    bool contains(uint32_t code) const;
    // Ascending, not touching each other.
    const std::vector<CodeRange>& ranges() const;

  private:
    void normalize() const;

    mutable std::vector<CodeRange> ranges_;
    mutable bool normal_ = true;
};

struct ByteRange {
    uint8_t first = 0;
    uint8_t last = 0;
};

// Every character whose bytes lie in these ranges, one after the other.
struct ByteSequence {
    std::array<ByteRange, 4> bytes{};
    int length = 0;
};

// The UTF-8 of the set, as disjoint sequences.
std::vector<ByteSequence> to_byte_sequences(const CodePoints& points);

// Of all but control characters, the quote and the backslash: what most strings may contain without end.
const std::vector<ByteSequence>& plain_text();

}  // namespace tandem::text::grammar
