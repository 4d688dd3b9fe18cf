// Regular expressions as tokenizer files write them, run by PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"

struct pcre2_real_code_8;

namespace tandem::text {

// Bytes [begin, end) of a text.
struct ByteRange {
    size_t begin;
    size_t end;
};

// Immutable; may be used by several threads at once.
class Regex {
  public:
    // Oniguruma's syntax, which tokenizer.json uses. What means something else to PCRE2 is translated or refused.
    static Result<Regex> compile(std::string_view pattern);

    // Appends all matches in `text` from left to right, empty ones too, but none right after another match. In what
    // is not UTF-8 there are none.
    // An expression that needs absurdly many steps finds nothing more in this text.
    void find_all(std::string_view text, std::vector<ByteRange>& matches) const;

  private:
    struct Free {
        void operator()(pcre2_real_code_8* code) const;
    };
    std::unique_ptr<pcre2_real_code_8, Free> code_;
};

}  // namespace tandem::text
