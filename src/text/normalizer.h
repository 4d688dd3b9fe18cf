// What happens to a text before it is split: Unicode normal forms, replacements, SentencePiece's rules.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/charsmap.h"
#include "text/pattern.h"
#include "text/trie.h"

namespace tandem::text {

class Normalizer {
  public:
    virtual ~Normalizer() = default;
    virtual std::string normalize(std::string_view text) const = 0;
};

using NormalizerPtr = std::unique_ptr<const Normalizer>;

// The normalizers of tokenizer.json; they take and give UTF-8.

enum class NormalForm { nfc, nfd, nfkc, nfkd };
NormalizerPtr unicode_normalizer(NormalForm form);
NormalizerPtr lowercase_normalizer();
NormalizerPtr strip_accents_normalizer();
NormalizerPtr nmt_normalizer();
NormalizerPtr byte_level_normalizer();
NormalizerPtr strip_normalizer(bool left, bool right);
NormalizerPtr prepend_normalizer(std::string prefix);
NormalizerPtr replace_normalizer(Pattern pattern, std::string content);
NormalizerPtr precompiled_normalizer(Charsmap charsmap);

// What BERT does to a text before it splits it.
struct BertRules {
    bool clean_text = true;            // without control characters, with every space the same
    bool handle_chinese_chars = true;  // every ideograph is a word
    bool strip_accents = true;
    bool lowercase = true;
};
NormalizerPtr bert_normalizer(const BertRules& rules);

NormalizerPtr normalizer_sequence(std::vector<NormalizerPtr> steps);

// SentencePiece's own: takes any bytes; what is not UTF-8 becomes one U+FFFD per byte.
struct SentencePieceRules {
    Charsmap charsmap;
    Trie user_defined;  // left as they are
    bool add_dummy_prefix = true;
    bool remove_extra_whitespaces = true;
    bool escape_whitespaces = true;
    bool whitespace_as_suffix = false;
};
NormalizerPtr sentencepiece_normalizer(SentencePieceRules rules);

}  // namespace tandem::text
