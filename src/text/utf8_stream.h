// Bytes that come in parts become whole characters.
#pragma once

#include <string>
#include <string_view>

#include "text/utf8.h"

namespace tandem::text {

// What a broken sequence becomes: one U+FFFD as a whole (Rust, and the web), or one for each byte (SentencePiece).
enum class BrokenUtf8 { one_replacement, one_per_byte };

class Utf8Stream {
  public:
    explicit Utf8Stream(BrokenUtf8 broken) : broken_(broken) {}

    // Appends the characters that are complete now.
    void push(std::string_view bytes, std::string& out) {
        pending_ += bytes;
        std::string_view rest = pending_;
        while (!rest.empty()) {
            const Utf8Char next = decode_utf8(rest);
            if (next.incomplete) break;
            append(next, rest, out);
        }
        pending_.erase(0, pending_.size() - rest.size());
    }

    void finish(std::string& out) {
        std::string_view rest = pending_;
        while (!rest.empty()) append(decode_utf8(rest), rest, out);
        pending_.clear();
    }

  private:
    void append(const Utf8Char& next, std::string_view& rest, std::string& out) const {
        const size_t length = next.valid || broken_ == BrokenUtf8::one_replacement ? next.length : 1;
        out += next.valid ? rest.substr(0, length) : kReplacement;
        rest.remove_prefix(length);
    }

    BrokenUtf8 broken_;
    std::string pending_;
};

}  // namespace tandem::text
