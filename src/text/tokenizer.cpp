#include "text/tokenizer.h"

#include <algorithm>
#include <array>

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

// How the families write the end of a text, a message or a turn.
constexpr std::array<std::string_view, 20> kStopPieces = {"</s>",
                                                          "<eos>",
                                                          "<|endoftext|>",
                                                          "<|end_of_text|>",
                                                          "<|im_end|>",
                                                          "<|eot_id|>",
                                                          "<|eom_id|>",
                                                          "<|eot|>",
                                                          "<|end|>",
                                                          "<|return|>",
                                                          "<|call|>",
                                                          "<end_of_turn>",
                                                          "<turn|>",
                                                          "<|END_OF_TURN_TOKEN|>",
                                                          "<EOT>",
                                                          "<|EOT|>",
                                                          "<|endofturn|>",
                                                          "<end_of_utterance>",
                                                          "<｜end▁of▁sentence｜>",
                                                          "[EOS]"};

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

void set_stop_tokens(TokenizerParts& parts, const std::vector<TokenId>& more) {
    std::vector<TokenId> stop = more;
    if (parts.eos) stop.push_back(*parts.eos);
    for (const std::string_view piece : kStopPieces) {
        const auto id = parts.vocab.find(piece);
        if (!id) continue;
        const PieceKind kind = parts.vocab[*id].kind;
        if (kind == PieceKind::control || kind == PieceKind::user_defined) stop.push_back(*id);
    }
    std::erase_if(stop, [&](TokenId id) { return !parts.vocab.contains(id); });
    std::sort(stop.begin(), stop.end());
    stop.erase(std::unique(stop.begin(), stop.end()), stop.end());
    parts.stop = std::move(stop);
}

}  // namespace tandem::text
