// Tokens back to text: as a stream, so that text can be shown while it is generated.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/pattern.h"
#include "text/vocabulary.h"

namespace tandem::text {

struct DecodeOptions {
    bool skip_special = true;
    bool continues_text = false;  // not at the start of a text: a leading space is kept
    bool raw_bytes = false;       // give bytes as they come, whether they are whole characters or not
};

// The decoding of one sequence. Appends to `out` what is certain; without raw_bytes, whole characters only.
class DecodeStream {
  public:
    virtual ~DecodeStream() = default;
    virtual void push(TokenId id, std::string& out) = 0;
    virtual void finish(std::string& out) = 0;
};

using DecodeStreamPtr = std::unique_ptr<DecodeStream>;

class Decoder {
  public:
    virtual ~Decoder() = default;
    virtual DecodeStreamPtr start(const Vocabulary& vocab, const DecodeOptions& options) const = 0;
};

using DecoderPtr = std::unique_ptr<const Decoder>;

// As SentencePiece: U+2581 is a space, the one at the start belongs to the dummy prefix, byte pieces form characters.
struct SentencePieceDecoding {
    bool strip_first_space = true;
    bool strip_all_leading_spaces = false;
    bool show_control = false;  // control pieces appear as they are written
    std::string unk_surface;
};
DecoderPtr sentencepiece_decoder(SentencePieceDecoding decoding);

// One step of the decoder of a tokenizer.json.
struct DecodeStep {
    enum class Kind { replace, byte_fallback, fuse, strip, metaspace, byte_level, word_piece };

    Kind kind = Kind::fuse;
    std::shared_ptr<const Pattern> pattern{};  // replace
    std::string content{};  // replace: the new text; strip: the character; metaspace: the mark; word_piece: that of
                            // pieces inside a word
    size_t start = 0;       // strip: how many characters at most, at either end
    size_t stop = 0;
    bool drops_first = false;  // metaspace: the mark is dropped from the first token
    bool cleans_up = false;    // metaspace, word_piece: no space before punctuation and in contractions
};
// Without steps the tokens are joined by spaces, as the tokenizers library does.
DecoderPtr stepwise_decoder(std::optional<std::vector<DecodeStep>> steps);

}  // namespace tandem::text
