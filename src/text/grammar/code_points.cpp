#include "text/grammar/code_points.h"

#include <algorithm>

namespace tandem::text::grammar {

namespace {

constexpr uint32_t kLast = 0x10FFFF;
constexpr CodeRange kSurrogates = {0xD800, 0xDFFF};

int encode(uint32_t code, std::array<uint8_t, 4>& bytes) {
    if (code < 0x80) {
        bytes = {static_cast<uint8_t>(code)};
        return 1;
    }
    if (code < 0x800) {
        bytes = {static_cast<uint8_t>(0xC0 | (code >> 6)), static_cast<uint8_t>(0x80 | (code & 0x3F))};
        return 2;
    }
    if (code < 0x10000) {
        bytes = {static_cast<uint8_t>(0xE0 | (code >> 12)), static_cast<uint8_t>(0x80 | ((code >> 6) & 0x3F)),
                 static_cast<uint8_t>(0x80 | (code & 0x3F))};
        return 3;
    }
    bytes = {static_cast<uint8_t>(0xF0 | (code >> 18)), static_cast<uint8_t>(0x80 | ((code >> 12) & 0x3F)),
             static_cast<uint8_t>(0x80 | ((code >> 6) & 0x3F)), static_cast<uint8_t>(0x80 | (code & 0x3F))};
    return 4;
}

// Splits until the bytes of the range are the product of one range for each byte.
void split(uint32_t first, uint32_t last, std::vector<ByteSequence>& out) {
    for (const uint32_t end : {0x7FU, 0x7FFU, 0xFFFFU}) {
        if (first <= end && end < last) {
            split(first, end, out);
            return split(end + 1, last, out);
        }
    }
    const int continuation_bytes = first < 0x80 ? 0 : first < 0x800 ? 1 : first < 0x10000 ? 2 : 3;
    for (int i = 1; i <= continuation_bytes; ++i) {
        const uint32_t low_bits = (1U << (6 * i)) - 1;  // what i continuation bytes hold
        if ((first & ~low_bits) == (last & ~low_bits)) continue;
        if ((first & low_bits) != 0) {
            split(first, first | low_bits, out);
            return split((first | low_bits) + 1, last, out);
        }
        if ((last & low_bits) != low_bits) {
            split(first, (last & ~low_bits) - 1, out);
            return split(last & ~low_bits, last, out);
        }
    }
    std::array<uint8_t, 4> low{};
    std::array<uint8_t, 4> high{};
    ByteSequence sequence;
    sequence.length = encode(first, low);
    encode(last, high);
    for (size_t i = 0; i < 4; ++i) sequence.bytes[i] = {low[i], high[i]};
    out.push_back(sequence);
}

}  // namespace

CodePoints::CodePoints(std::initializer_list<CodeRange> ranges) {
    for (const CodeRange& range : ranges) add(range.first, range.last);
}

CodePoints CodePoints::all() {
    return {{0, kLast}};
}

void CodePoints::add(uint32_t first, uint32_t last) {
    last = std::min(last, kLast);
    if (first < kSurrogates.first) ranges_.push_back({first, std::min(last, kSurrogates.first - 1)});
    if (last > kSurrogates.last) ranges_.push_back({std::max(first, kSurrogates.last + 1), last});
    std::erase_if(ranges_, [](const CodeRange& range) { return range.first > range.last; });
    normal_ = false;
}

void CodePoints::add(const CodePoints& other) {
    ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
    normal_ = false;
}

void CodePoints::normalize() const {
    std::sort(ranges_.begin(), ranges_.end(), [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
    size_t kept = 0;
    for (const CodeRange& range : ranges_) {
        if (kept > 0 && range.first <= ranges_[kept - 1].last + 1)
            ranges_[kept - 1].last = std::max(ranges_[kept - 1].last, range.last);
        else
            ranges_[kept++] = range;
    }
    ranges_.resize(kept);
    normal_ = true;
}

const std::vector<CodeRange>& CodePoints::ranges() const {
    if (!normal_) normalize();
    return ranges_;
}

CodePoints CodePoints::complement() const {
    CodePoints result;
    uint32_t next = 0;
    for (const CodeRange& range : ranges()) {
        if (range.first > next) result.add(next, range.first - 1);
        next = range.last + 1;
    }
    if (next <= kLast) result.add(next, kLast);
    return result;
}

CodePoints CodePoints::without(const CodePoints& other) const {
    CodePoints result = complement();
    result.add(other);
    return result.complement();
}

bool CodePoints::contains(uint32_t code) const {
    return std::any_of(ranges_.begin(), ranges_.end(),
                       [&](const CodeRange& range) { return range.first <= code && code <= range.last; });
}

std::vector<ByteSequence> to_byte_sequences(const CodePoints& points) {
    std::vector<ByteSequence> sequences;
    for (const CodeRange& range : points.ranges()) split(range.first, range.last, sequences);
    return sequences;
}

const std::vector<ByteSequence>& plain_text() {
    static const std::vector<ByteSequence> sequences =
        to_byte_sequences({{' ', '!'}, {'#', '['}, {']', '~'}, {0x80, 0x10FFFF}});
    return sequences;
}

}  // namespace tandem::text::grammar
