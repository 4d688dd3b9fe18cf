// Any bytes as a tokenizer.json, a tokenizer.model or a GGUF file; what loads must encode and decode any text.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "format/gguf.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace tandem::text {
namespace {

void use(const Tokenizer& tokenizer, std::string_view text) {
    for (const bool special : {false, true}) {
        const auto ids = tokenizer.encode(text, {.add_special = special, .parse_special = special});
        for (const TokenId id : ids) {
            CHECK(tokenizer.contains(id));
            (void)tokenizer.token_bytes(id);
        }
        Detokenizer stream(tokenizer);
        std::string streamed;
        for (const TokenId id : ids) streamed += stream.push(id);
        streamed += stream.finish();
        CHECK(streamed == tokenizer.decode(ids));
    }
}

Result<Tokenizer> parse(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    if (text.starts_with('{')) return parse_tokenizer_json(text, "fuzz");
    if (!text.starts_with("GGUF")) return parse_sentencepiece_model(bytes, "fuzz");
    const format::GgufFile gguf = TRY(format::GgufFile::parse(bytes, "fuzz"));
    return parse_gguf_tokenizer(gguf);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto tokenizer = parse(text);
    if (!tokenizer) return 0;
    use(*tokenizer, "Hello  wörld's 123\n\n<s>\xE2\x96\x81\xFF ab");
    use(*tokenizer, text.substr(size - size / 4));
    return 0;
}

}  // namespace tandem::text
