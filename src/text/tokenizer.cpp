#include "text/tokenizer.h"

#include "text/tokenizer_parts.h"
#include "text/utf8.h"

namespace tandem::text {

namespace {

// The work of one encode() call.
class Encoding {
  public:
    Encoding(const TokenizerParts& parts, bool parse_special, std::vector<TokenId>& out)
        : parts_(parts), parse_special_(parse_special), out_(out) {}

    void run(std::string_view text) {
        std::vector<AddedTokens::Segment> segments;
        parts_.added.split(text, parse_special_, segments);
        for (const auto& segment : segments) {
            if (segment.id)
                out_.push_back(*segment.id);
            else
                normalize(segment.text, segment.text.data() == text.data());
        }
    }

  private:
    void normalize(std::string_view text, bool at_start) {
        std::string normalized;
        if (parts_.normalizer) {
            normalized = parts_.normalizer->normalize(text);
            text = normalized;
        }
        std::vector<AddedTokens::Segment> segments;
        parts_.added_normalized.split(text, parse_special_, segments);
        for (const auto& segment : segments) {
            if (segment.id)
                out_.push_back(*segment.id);
            else
                tokenize(segment.text, at_start && segment.text.data() == text.data());
        }
    }

    void tokenize(std::string_view text, bool at_start) {
        Fragments fragments;
        fragments.list.push_back({text, at_start});
        for (const auto& step : parts_.pre_tokenizers) step->apply(fragments);
        for (const Fragment& fragment : fragments.list) {
            if (!fragment.text.empty()) parts_.model->encode(fragment.text, scratch_, out_);
        }
    }

    const TokenizerParts& parts_;
    bool parse_special_;
    std::vector<TokenId>& out_;
    ModelScratch scratch_;
};

}  // namespace

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
    std::string cleaned;
    if (parts_->replaces_broken_utf8 && !is_valid_utf8(text)) {
        cleaned = to_valid_utf8(text);
        text = cleaned;
    }
    std::vector<TokenId> ids;
    if (options.add_special) ids = parts_->prefix;
    Encoding(*parts_, options.parse_special, ids).run(text);
    if (options.add_special) ids.insert(ids.end(), parts_->suffix.begin(), parts_->suffix.end());
    return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
    const auto stream = parts_->decoder->start(parts_->vocab, {.skip_special = skip_special});
    std::string text;
    for (const TokenId id : ids) stream->push(id, text);
    stream->finish(text);
    return text;
}

int Tokenizer::vocab_size() const {
    return parts_->vocab.size();
}

size_t Tokenizer::longest_token_bytes() const {
    size_t longest = 0;  // the text of a piece is never shorter than what it stands for
    for (TokenId id = 0; id < vocab_size(); ++id) longest = std::max(longest, piece(id).size());
    return longest;
}

std::string_view Tokenizer::piece(TokenId id) const {
    return contains(id) ? std::string_view(parts_->vocab[id].text) : std::string_view();
}

std::string Tokenizer::token_bytes(TokenId id) const {
    const DecodeOptions options = {.skip_special = true, .continues_text = true, .raw_bytes = true};
    const auto stream = parts_->decoder->start(parts_->vocab, options);
    std::string bytes;
    stream->push(id, bytes);
    stream->finish(bytes);
    return bytes;
}

std::optional<TokenId> Tokenizer::find(std::string_view piece) const {
    return parts_->vocab.find(piece);
}

bool Tokenizer::is_special(TokenId id) const {
    return contains(id) && parts_->vocab[id].kind == PieceKind::control;
}

std::optional<TokenId> Tokenizer::bos() const {
    return parts_->bos;
}

std::optional<TokenId> Tokenizer::eos() const {
    return parts_->eos;
}

std::optional<TokenId> Tokenizer::unk() const {
    return parts_->unk;
}

std::optional<TokenId> Tokenizer::pad() const {
    return parts_->pad;
}

const std::vector<TokenId>& Tokenizer::stop_tokens() const {
    return parts_->stop;
}

}  // namespace tandem::text
