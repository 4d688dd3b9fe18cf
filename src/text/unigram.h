// Unigram tokenization: of all ways to cut a text into pieces, the one with the best sum of scores.
#pragma once

#include <optional>
#include <vector>

#include "text/token_model.h"
#include "text/vocabulary.h"

namespace tandem::text {

// As the tokenizers library has it: every piece takes part, in double precision. `vocab` must outlive the model,
// `scores` has one value per piece.
struct UnigramOptions {
    std::vector<double> scores;
    std::optional<TokenId> unk;
    bool byte_fallback = false;
};
TokenModelPtr unigram_model(const Vocabulary& vocab, UnigramOptions options);

}  // namespace tandem::text
