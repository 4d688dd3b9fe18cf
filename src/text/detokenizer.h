// Turns tokens into text one by one, as they are generated, without ever giving out half a character.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace tandem::text {

class DecodeStream;

struct DetokenizerOptions {
    bool skip_special = true;
    // The tokens continue a text (a completed prompt): a leading space is part of it and is kept.
    bool continues_text = false;
};

// For one sequence. What push() and finish() return, one after the other, is what decode() gives for all the tokens;
// every returned string is whole UTF-8 characters.
class Detokenizer {
  public:
    explicit Detokenizer(Tokenizer tokenizer, const DetokenizerOptions& options = {});
    Detokenizer(Detokenizer&&) noexcept;
    Detokenizer& operator=(Detokenizer&&) noexcept;
    Detokenizer(const Detokenizer&) = delete;
    Detokenizer& operator=(const Detokenizer&) = delete;
    ~Detokenizer();

    std::string push(TokenId id);
    // What was held back; the detokenizer is used up.
    std::string finish();

  private:
    Tokenizer tokenizer_;
    std::unique_ptr<DecodeStream> stream_;
};

}  // namespace tandem::text
