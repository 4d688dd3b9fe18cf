// Splits a normalized text into the parts that are tokenized on their own.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/pattern.h"

namespace tandem::text {

struct Fragment {
    std::string_view text;
    bool at_start = false;  // the text itself starts here
};

// Fragments and the texts that some of them had to be copied into.
struct Fragments {
    std::vector<Fragment> list;
    std::deque<std::string> storage;
};

class PreTokenizer {
  public:
    virtual ~PreTokenizer() = default;
    virtual void apply(Fragments& fragments) const = 0;
};

using PreTokenizerPtr = std::unique_ptr<const PreTokenizer>;

// What becomes of a match.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// `invert`: what the pattern does not match is the match.
PreTokenizerPtr split_pre_tokenizer(Pattern pattern, SplitBehavior behavior, bool invert = false);
// Spaces part the text and are dropped.
PreTokenizerPtr whitespace_pre_tokenizer();
// Punctuation, which counts all signs of ASCII.
PreTokenizerPtr punctuation_pre_tokenizer(SplitBehavior behavior);
// Every match of `digits` becomes groups of three characters, counted from its end: 1 234 567.
PreTokenizerPtr thousands_pre_tokenizer(Pattern digits);
// A space in front of every fragment that does not start with one.
PreTokenizerPtr prefix_space_pre_tokenizer();
// Writes the bytes with the alphabet of byte_level.h.
PreTokenizerPtr byte_level_pre_tokenizer();

enum class PrependScheme { always, first, never };
struct MetaspaceOptions {
    std::string replacement;
    PrependScheme prepend_scheme = PrependScheme::always;
    bool split = true;
};
PreTokenizerPtr metaspace_pre_tokenizer(MetaspaceOptions options);

}  // namespace tandem::text
