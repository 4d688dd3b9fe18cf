// What tokenizer components search for: a literal text, a regular expression, or single characters of a class.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/regex.h"

namespace tandem::text {

class Pattern {
  public:
    using CharTest = std::function<bool(uint32_t code)>;

    static Pattern literal(std::string text) { return Pattern(std::move(text)); }
    static Result<Pattern> regex(std::string_view expression);
    // Every character that passes is a match of its own.
    static Pattern characters(CharTest test) { return Pattern(std::move(test)); }

    // Replaces the content of `matches` with the matches in `text` (UTF-8), from left to right.
    void find_all(std::string_view text, std::vector<ByteRange>& matches) const;
    std::string replace(std::string_view text, std::string_view replacement) const;

  private:
    using What = std::variant<std::string, Regex, CharTest>;
    explicit Pattern(What what) : what_(std::move(what)) {}

    What what_;
};

}  // namespace tandem::text
