#include "text/detokenizer.h"

#include "text/tokenizer_parts.h"

namespace tandem::text {

Detokenizer::Detokenizer(Tokenizer tokenizer, const DetokenizerOptions& options)
    : tokenizer_(std::move(tokenizer)),
      stream_(tokenizer_.parts().decoder->start(
          tokenizer_.parts().vocab, {.skip_special = options.skip_special, .continues_text = options.continues_text})) {
}

Detokenizer::Detokenizer(Detokenizer&&) noexcept = default;
Detokenizer& Detokenizer::operator=(Detokenizer&&) noexcept = default;
Detokenizer::~Detokenizer() = default;

std::string Detokenizer::push(TokenId id) {
    std::string text;
    stream_->push(id, text);
    return text;
}

std::string Detokenizer::finish() {
    std::string text;
    stream_->finish(text);
    return text;
}

}  // namespace tandem::text
