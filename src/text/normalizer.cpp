#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "text/byte_level.h"
#include "text/utf8.h"

namespace tandem::text {

namespace {

// A character that never joins with what stands before it, so that a text can be normalized in parts.
bool starts_afresh(uint32_t code) {
    const bool jamo_vowel_or_tail = code >= 0x1160 && code <= 0x11FF;
    return code < 0x80 || (!is_mark(code) && !jamo_vowel_or_tail);
}

class UnicodeNormalizer : public Normalizer {
  public:
    explicit UnicodeNormalizer(NormalForm form) {
        const bool compose = form == NormalForm::nfc || form == NormalForm::nfkc;
        const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
        options_ = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                                  (compatible ? UTF8PROC_COMPAT : 0));
    }

    // In parts, because utf8proc sorts a run of marks in quadratic time.
    std::string normalize(std::string_view text) const override {
        constexpr size_t kPartBytes = 256;
        constexpr size_t kMaxPartBytes = 1024;
        std::string out;
        out.reserve(text.size());
        size_t begin = 0;
        bool ascii = true;
        for (size_t at = 0; at < text.size();) {
            const Utf8Char next = decode_utf8(text.substr(at));
            const bool cut = at - begin >= kPartBytes && starts_afresh(next.code);
            if (cut || at - begin >= kMaxPartBytes) {
                append(text.substr(begin, at - begin), ascii, out);
                begin = at;
                ascii = true;
            }
            ascii = ascii && next.code < 0x80;
            at += next.length;
        }
        append(text.substr(begin), ascii, out);
        return out;
    }

  private:
    void append(std::string_view part, bool ascii, std::string& out) const {
        if (ascii) {
            out += part;
            return;
        }
        utf8proc_uint8_t* mapped = nullptr;
        const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(part.data()),
                                         static_cast<utf8proc_ssize_t>(part.size()), &mapped, options_);
        if (length >= 0)
            out.append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(length));
        else
            out += part;
        std::free(mapped);  // NOLINT: utf8proc allocates it with malloc
    }

    utf8proc_option_t options_;
};

// Calls map(code, out) for every character.
template <typename Map>
class CharNormalizer : public Normalizer {
  public:
    explicit CharNormalizer(Map map) : map_(map) {}

    std::string normalize(std::string_view text) const override {
        std::string out;
        out.reserve(text.size());
        while (!text.empty()) {
            const Utf8Char next = decode_utf8(text);
            map_(next.code, out);
            text.remove_prefix(next.length);
        }
        return out;
    }

  private:
    Map map_;
};

class StripNormalizer : public Normalizer {
  public:
    StripNormalizer(bool left, bool right) : left_(left), right_(right) {}

    std::string normalize(std::string_view text) const override {
        size_t begin = text.size();
        size_t end = 0;  // of the last character that is no space
        for (size_t at = 0; at < text.size();) {
            const Utf8Char next = decode_utf8(text.substr(at));
            if (!is_space(next.code)) {
                if (end == 0) begin = at;
                end = at + next.length;
            }
            at += next.length;
        }
        if (!left_) begin = 0;
        if (!right_) end = text.size();
        return std::string(begin < end ? text.substr(begin, end - begin) : std::string_view());
    }

  private:
    bool left_, right_;
};

class PrependNormalizer : public Normalizer {
  public:
    explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
    std::string normalize(std::string_view text) const override {
        return text.empty() ? std::string() : prefix_ + std::string(text);
    }

  private:
    std::string prefix_;
};

class ReplaceNormalizer : public Normalizer {
  public:
    ReplaceNormalizer(Pattern pattern, std::string content)
        : pattern_(std::move(pattern)), content_(std::move(content)) {}
    std::string normalize(std::string_view text) const override { return pattern_.replace(text, content_); }

  private:
    Pattern pattern_;
    std::string content_;
};

class ByteLevelNormalizer : public Normalizer {
  public:
    std::string normalize(std::string_view text) const override {
        std::string out;
        append_byte_level(text, out);
        return out;
    }
};

// The tokenizers library applies the rules per grapheme, and the shortest one first.
class PrecompiledNormalizer : public Normalizer {
  public:
    explicit PrecompiledNormalizer(Charsmap charsmap) : charsmap_(std::move(charsmap)) {}

    std::string normalize(std::string_view text) const override {
        std::string out;
        out.reserve(text.size());
        size_t begin = 0;
        utf8proc_int32_t state = 0;
        uint32_t previous = 0;
        for (size_t at = 0; at < text.size();) {
            const Utf8Char next = decode_utf8(text.substr(at));
            if (at > 0 && utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(previous),
                                                           static_cast<utf8proc_int32_t>(next.code), &state)) {
                append_grapheme(text.substr(begin, at - begin), out);
                begin = at;
            }
            previous = next.code;
            at += next.length;
        }
        append_grapheme(text.substr(begin), out);
        return out;
    }

  private:
    void append_grapheme(std::string_view grapheme, std::string& out) const {
        if (grapheme.size() < 6) {
            if (const auto rule = charsmap_.shortest(grapheme)) {
                out += rule->replacement;
                return;
            }
        }
        while (!grapheme.empty()) {
            const std::string_view part = grapheme.substr(0, decode_utf8(grapheme).length);
            const auto rule = charsmap_.shortest(part);
            out += rule ? rule->replacement : part;
            grapheme.remove_prefix(part.size());
        }
    }

    Charsmap charsmap_;
};

class NormalizerSequence : public Normalizer {
  public:
    explicit NormalizerSequence(std::vector<NormalizerPtr> steps) : steps_(std::move(steps)) {}

    std::string normalize(std::string_view text) const override {
        std::string current(text);
        for (const auto& step : steps_) current = step->normalize(current);
        return current;
    }

  private:
    std::vector<NormalizerPtr> steps_;
};

class SentencePieceNormalizer : public Normalizer {
  public:
    explicit SentencePieceNormalizer(SentencePieceRules rules) : rules_(std::move(rules)) {}

    std::string normalize(std::string_view text) const override {
        if (rules_.remove_extra_whitespaces) {
            while (!text.empty()) {
                const Prefix next = normalize_prefix(text);
                if (next.text != " ") break;
                text.remove_prefix(next.consumed);
            }
        }
        std::string out;
        if (text.empty()) return out;
        out.reserve(text.size() + text.size() / 2);
        const std::string_view space = rules_.escape_whitespaces ? kSpaceMark : " ";
        if (!rules_.whitespace_as_suffix && rules_.add_dummy_prefix) out += space;
        bool after_space = rules_.remove_extra_whitespaces;
        while (!text.empty()) {
            Prefix next = normalize_prefix(text);
            text.remove_prefix(next.consumed);
            while (after_space && next.text.starts_with(' ')) next.text.remove_prefix(1);
            if (next.text.empty()) continue;
            for (const char c : next.text) {
                if (c == ' ')
                    out += space;
                else
                    out += c;
            }
            after_space = rules_.remove_extra_whitespaces && next.text.ends_with(' ');
        }
        if (rules_.remove_extra_whitespaces) {
            while (out.ends_with(space)) out.resize(out.size() - space.size());
        }
        if (rules_.whitespace_as_suffix && rules_.add_dummy_prefix) out += space;
        return out;
    }

  private:
    struct Prefix {
        std::string_view text;
        size_t consumed;
    };

    Prefix normalize_prefix(std::string_view text) const {
        if (const auto match = rules_.user_defined.longest_prefix(text); match.length > 0)
            return {text.substr(0, match.length), match.length};
        if (const auto rule = rules_.charsmap.longest(text)) return {rule->replacement, rule->length};
        const Utf8Char next = decode_utf8(text);
        if (!next.valid) return {kReplacement, 1};
        return {text.substr(0, next.length), next.length};
    }

    SentencePieceRules rules_;
};

template <typename Map>
NormalizerPtr char_normalizer(Map map) {
    return std::make_unique<CharNormalizer<Map>>(map);
}

bool nmt_drops(uint32_t code) {
    return (code >= 0x01 && code <= 0x08) || code == 0x0B || (code >= 0x0E && code <= 0x1F) || code == 0x7F ||
           code == 0x8F || code == 0x9F;
}

bool nmt_blanks(uint32_t code) {
    switch (code) {
        case 0x09:
        case 0x0A:
        case 0x0C:
        case 0x0D:
        case 0x1680:
        case 0x2028:
        case 0x2029:
        case 0x2581:
        case 0xFEFF:
        case 0xFFFD:
            return true;
        default:
            return code >= 0x200B && code <= 0x200F;
    }
}

// As the tokenizers library counts them, the gap in extension E included.
bool is_ideograph(uint32_t code) {
    constexpr std::pair<uint32_t, uint32_t> kRanges[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                                         {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
                                                         {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
    return std::any_of(std::begin(kRanges), std::end(kRanges),
                       [&](const auto& range) { return code >= range.first && code <= range.second; });
}

}  // namespace

NormalizerPtr unicode_normalizer(NormalForm form) {
    return std::make_unique<UnicodeNormalizer>(form);
}

NormalizerPtr lowercase_normalizer() {
    return char_normalizer([](uint32_t code, std::string& out) {
        constexpr uint32_t kCapitalDottedI = 0x130;  // the only capital whose small form is two characters
        if (code == kCapitalDottedI)
            out += "i\xCC\x87";
        else
            append_utf8(out, static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
    });
}

NormalizerPtr strip_accents_normalizer() {
    return char_normalizer([](uint32_t code, std::string& out) {
        if (!is_mark(code)) append_utf8(out, code);
    });
}

NormalizerPtr nmt_normalizer() {
    return char_normalizer([](uint32_t code, std::string& out) {
        if (!nmt_drops(code)) append_utf8(out, nmt_blanks(code) ? ' ' : code);
    });
}

NormalizerPtr bert_normalizer(const BertRules& rules) {
    std::vector<NormalizerPtr> steps;
    if (rules.clean_text) {
        steps.push_back(char_normalizer([](uint32_t code, std::string& out) {
            const bool blank = code == '\t' || code == '\n' || code == '\r';
            if (code == 0xFFFD || (is_control(code) && !blank)) return;
            append_utf8(out, blank || is_space(code) ? ' ' : code);
        }));
    }
    if (rules.handle_chinese_chars) {
        steps.push_back(char_normalizer([](uint32_t code, std::string& out) {
            const bool apart = is_ideograph(code);
            if (apart) out += ' ';
            append_utf8(out, code);
            if (apart) out += ' ';
        }));
    }
    if (rules.strip_accents) {
        steps.push_back(unicode_normalizer(NormalForm::nfd));
        steps.push_back(char_normalizer([](uint32_t code, std::string& out) {
            if (!is_nonspacing_mark(code)) append_utf8(out, code);
        }));
    }
    if (rules.lowercase) steps.push_back(lowercase_normalizer());
    return normalizer_sequence(std::move(steps));
}

NormalizerPtr byte_level_normalizer() {
    return std::make_unique<ByteLevelNormalizer>();
}

NormalizerPtr strip_normalizer(bool left, bool right) {
    return std::make_unique<StripNormalizer>(left, right);
}

NormalizerPtr prepend_normalizer(std::string prefix) {
    return std::make_unique<PrependNormalizer>(std::move(prefix));
}

NormalizerPtr replace_normalizer(Pattern pattern, std::string content) {
    return std::make_unique<ReplaceNormalizer>(std::move(pattern), std::move(content));
}

NormalizerPtr precompiled_normalizer(Charsmap charsmap) {
    return std::make_unique<PrecompiledNormalizer>(std::move(charsmap));
}

NormalizerPtr normalizer_sequence(std::vector<NormalizerPtr> steps) {
    return std::make_unique<NormalizerSequence>(std::move(steps));
}

NormalizerPtr sentencepiece_normalizer(SentencePieceRules rules) {
    return std::make_unique<SentencePieceNormalizer>(std::move(rules));
}

}  // namespace tandem::text
