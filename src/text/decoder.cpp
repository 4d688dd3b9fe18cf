#include "text/decoder.h"

#include "text/byte_level.h"
#include "text/utf8.h"
#include "text/utf8_stream.h"

namespace tandem::text {

namespace {

class SentencePieceStream : public DecodeStream {
  public:
    SentencePieceStream(const SentencePieceDecoding& how, const Vocabulary& vocab, const DecodeOptions& options)
        : how_(how), vocab_(vocab), options_(options), at_start_(!options.continues_text) {}

    void push(TokenId id, std::string& out) override {
        if (!vocab_.contains(id)) return;
        const Piece& piece = vocab_[id];
        const auto byte = piece.kind == PieceKind::byte ? parse_byte_piece(piece.text) : std::nullopt;
        const size_t before = out.size();
        if (byte) {
            const char c = static_cast<char>(*byte);
            push_bytes({&c, 1}, out);
        } else {
            bytes_.finish(out);
            if (first_space_seen_ || started_ || out.size() > before) at_start_ = false;
            push_bytes(surface(piece), out);
            bytes_.finish(out);
        }
        started_ = started_ || byte || out.size() > before;
    }

    void finish(std::string& out) override { bytes_.finish(out); }

  private:
    void push_bytes(std::string_view bytes, std::string& out) {
        if (options_.raw_bytes)
            out += bytes;
        else
            bytes_.push(bytes, out);
    }

    std::string surface(const Piece& piece) {
        first_space_seen_ = false;
        if (piece.kind == PieceKind::control)
            return how_.show_control && !options_.skip_special ? piece.text : std::string();
        if (piece.kind == PieceKind::unknown) return how_.unk_surface;
        std::string_view text = piece.text;
        if (at_start_ && (how_.strip_first_space || how_.strip_all_leading_spaces) && text.starts_with(kSpaceMark)) {
            text.remove_prefix(kSpaceMark.size());
            first_space_seen_ = !how_.strip_all_leading_spaces;
        }
        return replace_all(text, kSpaceMark, " ");
    }

    const SentencePieceDecoding& how_;
    const Vocabulary& vocab_;
    DecodeOptions options_;
    Utf8Stream bytes_{BrokenUtf8::one_per_byte};
    bool at_start_;
    bool started_ = false;  // there is text already
    bool first_space_seen_ = false;
};

class SentencePieceDecoder : public Decoder {
  public:
    explicit SentencePieceDecoder(SentencePieceDecoding how) : how_(std::move(how)) {}
    DecodeStreamPtr start(const Vocabulary& vocab, const DecodeOptions& options) const override {
        return std::make_unique<SentencePieceStream>(how_, vocab, options);
    }

  private:
    SentencePieceDecoding how_;
};

// Removes up to step.start and step.stop times the character at the ends.
std::string strip(std::string_view text, const DecodeStep& step) {
    for (size_t i = 0; i < step.start && text.starts_with(step.content); ++i) text.remove_prefix(step.content.size());
    for (size_t i = 0; i < step.stop && text.ends_with(step.content); ++i) text.remove_suffix(step.content.size());
    return std::string(text);
}

// What BERT's splitting pulled apart in English comes together again.
std::string clean_up(std::string text) {
    constexpr std::pair<std::string_view, std::string_view> kRules[] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (const auto& [from, to] : kRules) text = replace_all(text, from, to);
    return text;
}

std::string replace_marks(std::string_view text, const DecodeStep& step, bool first) {
    std::string out = replace_all(text, step.content, first && step.drops_first ? "" : " ");
    return step.cleans_up ? clean_up(std::move(out)) : out;
}

std::string join_word(std::string_view text, const DecodeStep& step, bool first) {
    std::string out(text);
    if (!first && !step.content.empty() && text.starts_with(step.content))
        out.erase(0, step.content.size());
    else if (!first)
        out.insert(0, " ");
    return step.cleans_up ? clean_up(std::move(out)) : out;
}

// Tokens go through the steps one by one until a step joins them; what comes after works on the whole text.
struct StepPlan {
    std::vector<DecodeStep> per_token;
    std::vector<DecodeStep> whole_text;
    bool byte_level = false;
    bool join_with_spaces = false;
    // The one thing to do at the whole text is to strip its start, which needs no waiting for the rest.
    size_t strip_start = 0;
    std::string strip_character;
};

class StepwiseStream : public DecodeStream {
  public:
    StepwiseStream(const StepPlan& plan, const Vocabulary& vocab, const DecodeOptions& options)
        : plan_(plan),
          vocab_(vocab),
          options_(options),
          first_(!options.continues_text),
          to_strip_(options.continues_text ? 0 : plan.strip_start) {}

    void push(TokenId id, std::string& out) override {
        if (!vocab_.contains(id)) return;
        const Piece& piece = vocab_[id];
        if (piece.text.empty() || (options_.skip_special && piece.kind == PieceKind::control)) return;
        if (plan_.join_with_spaces && !first_) emit(" ", out);
        push_token(0, piece.text, out);
        first_ = false;
    }

    void finish(std::string& out) override {
        for (size_t i = 0; i < plan_.per_token.size(); ++i) {
            if (plan_.per_token[i].kind == DecodeStep::Kind::byte_fallback) flush_bytes(i, out);
        }
        if (!plan_.whole_text.empty()) {
            std::string text;
            whole_.finish(held_);
            text.swap(held_);
            for (const DecodeStep& step : plan_.whole_text) text = apply_to_whole(step, text);
            out += text;
        }
        characters_.finish(out);
    }

  private:
    void push_token(size_t index, std::string token, std::string& out) {
        for (; index < plan_.per_token.size(); ++index) {
            const DecodeStep& step = plan_.per_token[index];
            switch (step.kind) {
                case DecodeStep::Kind::replace:
                    token = step.pattern->replace(to_valid_utf8(token), step.content);
                    break;
                case DecodeStep::Kind::strip:
                    token = strip(token, step);
                    break;
                case DecodeStep::Kind::metaspace:
                    token = replace_marks(token, step, first_);
                    break;
                case DecodeStep::Kind::word_piece:
                    token = join_word(token, step, first_);
                    break;
                case DecodeStep::Kind::byte_fallback:
                    if (const auto byte = parse_byte_piece(token)) {
                        const char c = static_cast<char>(*byte);
                        return push_byte(index, c, out);
                    }
                    flush_bytes(index, out);
                    break;
                case DecodeStep::Kind::fuse:
                case DecodeStep::Kind::byte_level:
                    break;
            }
        }
        if (plan_.byte_level) token = parse_byte_level(token).value_or(std::move(token));
        emit(token, out);
    }

    // Only what is broken in a run of bytes is replaced. The tokenizers library gives up the whole run, for which a
    // stream would have to wait.
    void push_byte(size_t index, char byte, std::string& out) {
        std::string characters;
        if (options_.raw_bytes)
            characters = byte;
        else
            bytes_.push({&byte, 1}, characters);
        if (!characters.empty()) push_token(index + 1, std::move(characters), out);
    }

    void flush_bytes(size_t index, std::string& out) {
        std::string characters;
        bytes_.finish(characters);
        if (!characters.empty()) push_token(index + 1, std::move(characters), out);
    }

    void emit(std::string_view text, std::string& out) {
        while (to_strip_ > 0 && !text.empty()) {
            --to_strip_;
            if (text.starts_with(plan_.strip_character))
                text.remove_prefix(plan_.strip_character.size());
            else
                to_strip_ = 0;
        }
        if (options_.raw_bytes)
            out += text;
        else if (!plan_.whole_text.empty())
            whole_.push(text, held_);
        else
            characters_.push(text, out);
    }

    static std::string apply_to_whole(const DecodeStep& step, const std::string& text) {
        switch (step.kind) {
            case DecodeStep::Kind::replace:
                return step.pattern->replace(text, step.content);
            case DecodeStep::Kind::strip:
                return strip(text, step);
            case DecodeStep::Kind::metaspace:
                return replace_marks(text, step, true);
            case DecodeStep::Kind::word_piece:
                return join_word(text, step, true);
            case DecodeStep::Kind::byte_level:
                return to_valid_utf8(parse_byte_level(text).value_or(text));
            case DecodeStep::Kind::byte_fallback:
            case DecodeStep::Kind::fuse:
                break;
        }
        return text;
    }

    const StepPlan& plan_;
    const Vocabulary& vocab_;
    DecodeOptions options_;
    bool first_;  // no token yet
    size_t to_strip_;
    Utf8Stream bytes_{BrokenUtf8::one_per_byte};
    Utf8Stream characters_{BrokenUtf8::one_replacement};
    Utf8Stream whole_{BrokenUtf8::one_replacement};
    std::string held_;  // what the steps at the whole text wait for
};

StepPlan make_plan(std::optional<std::vector<DecodeStep>> steps) {
    StepPlan plan;
    plan.join_with_spaces = !steps;
    bool joined = false;
    for (DecodeStep& step : steps.value_or(std::vector<DecodeStep>())) {
        const bool joins = step.kind == DecodeStep::Kind::fuse || step.kind == DecodeStep::Kind::byte_level;
        if (joined && step.kind != DecodeStep::Kind::fuse)
            plan.whole_text.push_back(std::move(step));
        else if (!joined && joins)
            plan.byte_level = step.kind == DecodeStep::Kind::byte_level;
        else if (!joined)
            plan.per_token.push_back(std::move(step));
        joined = joined || joins;
    }
    if (plan.whole_text.size() == 1 && plan.whole_text[0].kind == DecodeStep::Kind::strip &&
        plan.whole_text[0].stop == 0) {
        plan.strip_start = plan.whole_text[0].start;
        plan.strip_character = plan.whole_text[0].content;
        plan.whole_text.clear();
    }
    return plan;
}

class StepwiseDecoder : public Decoder {
  public:
    explicit StepwiseDecoder(StepPlan plan) : plan_(std::move(plan)) {}
    DecodeStreamPtr start(const Vocabulary& vocab, const DecodeOptions& options) const override {
        return std::make_unique<StepwiseStream>(plan_, vocab, options);
    }

  private:
    StepPlan plan_;
};

}  // namespace

DecoderPtr sentencepiece_decoder(SentencePieceDecoding decoding) {
    return std::make_unique<SentencePieceDecoder>(std::move(decoding));
}

DecoderPtr stepwise_decoder(std::optional<std::vector<DecodeStep>> steps) {
    return std::make_unique<StepwiseDecoder>(make_plan(std::move(steps)));
}

}  // namespace tandem::text
