#include "text/json_components.h"

#include "text/json_fields.h"
#include "text/utf8.h"

namespace tandem::text {

using nlohmann::json;

namespace {

// \w+|[^\w\s]+ in the words of Rust's regex library, whose \w is not Oniguruma's.
constexpr std::string_view kWords =
    R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+|[^\s\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+)";
constexpr size_t kMaxSteps = 64;  // of a sequence, with all that is nested in it

Result<Pattern> parse_pattern(const json& spec, std::string_view owner) {
    if (const auto text = string_field(spec, "String")) return Pattern::literal(*text);
    if (const auto regex = string_field(spec, "Regex")) return Pattern::regex(*regex);
    return fail("{}: its pattern is neither a String nor a Regex", owner);
}

Result<std::string> decode_base64(std::string_view text) {
    std::string out;
    uint32_t bits = 0;
    int count = 0;
    while (text.ends_with('=')) text.remove_suffix(1);
    for (const char c : text) {
        uint32_t value = 0;
        if (c >= 'A' && c <= 'Z')
            value = static_cast<uint32_t>(c - 'A');
        else if (c >= 'a' && c <= 'z')
            value = static_cast<uint32_t>(c - 'a') + 26;
        else if (c >= '0' && c <= '9')
            value = static_cast<uint32_t>(c - '0') + 52;
        else if (c == '+')
            value = 62;
        else if (c == '/')
            value = 63;
        else
            return fail("precompiled_charsmap is not base64");
        bits = bits << 6 | value;
        count += 6;
        if (count >= 8) {
            count -= 8;
            out += static_cast<char>(bits >> count & 0xFFU);
        }
    }
    return out;
}

// The elements of a sequence, nested ones in place; `list` is the key of the elements.
Status flatten(const json& spec, const char* list, std::vector<const json*>& out) {
    if (spec.is_null()) return Ok{};
    if (type_of(spec) != "Sequence") {
        out.push_back(&spec);
        if (out.size() > kMaxSteps) return fail("{}: more than {} steps", list, kMaxSteps);
        return Ok{};
    }
    const json& elements = field(spec, list);
    if (!elements.is_array()) return fail("a Sequence has no '{}'", list);
    for (const json& element : elements) TRY(flatten(element, list, out));  // the depth of JSON is limited
    return Ok{};
}

Result<NormalizerPtr> make_one_normalizer(const json& spec) {
    const std::string type = type_of(spec);
    if (type == "NFC") return unicode_normalizer(NormalForm::nfc);
    if (type == "NFD") return unicode_normalizer(NormalForm::nfd);
    if (type == "NFKC") return unicode_normalizer(NormalForm::nfkc);
    if (type == "NFKD") return unicode_normalizer(NormalForm::nfkd);
    if (type == "Lowercase") return lowercase_normalizer();
    if (type == "StripAccents") return strip_accents_normalizer();
    if (type == "Nmt") return nmt_normalizer();
    if (type == "ByteLevel") return byte_level_normalizer();
    if (type == "BertNormalizer") {
        const bool lowercase = bool_field(spec, "lowercase").value_or(true);
        return bert_normalizer({.clean_text = bool_field(spec, "clean_text").value_or(true),
                                .handle_chinese_chars = bool_field(spec, "handle_chinese_chars").value_or(true),
                                .strip_accents = bool_field(spec, "strip_accents").value_or(lowercase),
                                .lowercase = lowercase});
    }
    if (type == "Strip")
        return strip_normalizer(bool_field(spec, "strip_left").value_or(true),
                                bool_field(spec, "strip_right").value_or(true));
    if (type == "Prepend") {
        auto prefix = string_field(spec, "prepend");
        if (!prefix) return fail("normalizer Prepend has no 'prepend'");
        return prepend_normalizer(std::move(*prefix));
    }
    if (type == "Replace") {
        auto content = string_field(spec, "content");
        if (!content) return fail("normalizer Replace has no 'content'");
        return replace_normalizer(TRY(parse_pattern(field(spec, "pattern"), "normalizer Replace")),
                                  std::move(*content));
    }
    if (type == "Precompiled") {
        const auto blob = string_field(spec, "precompiled_charsmap");
        if (!blob) return fail("normalizer Precompiled has no 'precompiled_charsmap'");
        const std::string bytes = TRY(decode_base64(*blob));
        return precompiled_normalizer(TRY(Charsmap::parse(bytes)));
    }
    return fail("normalizer '{}' is not supported", type);
}

Result<SplitBehavior> parse_behavior(const json& spec) {
    const std::string name = string_field(spec, "behavior").value_or("Isolated");
    if (name == "Removed") return SplitBehavior::removed;
    if (name == "Isolated") return SplitBehavior::isolated;
    if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
    if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
    if (name == "Contiguous") return SplitBehavior::contiguous;
    return fail("pre-tokenizer {}: behavior '{}' is not known", type_of(spec), name);
}

Result<PreTokenizerPtr> make_metaspace(const json& spec) {
    MetaspaceOptions options;
    options.replacement = string_field(spec, "replacement").value_or(std::string(kSpaceMark));
    if (options.replacement.empty()) return fail("pre-tokenizer Metaspace: its replacement is empty");
    const bool add_prefix = bool_field(spec, "add_prefix_space").value_or(true);  // how older files say it
    const std::string scheme = string_field(spec, "prepend_scheme").value_or(add_prefix ? "always" : "never");
    if (scheme == "always")
        options.prepend_scheme = PrependScheme::always;
    else if (scheme == "first")
        options.prepend_scheme = PrependScheme::first;
    else if (scheme == "never")
        options.prepend_scheme = PrependScheme::never;
    else
        return fail("pre-tokenizer Metaspace: prepend_scheme '{}' is not known", scheme);
    options.split = bool_field(spec, "split").value_or(true);
    return metaspace_pre_tokenizer(std::move(options));
}

Status add_pre_tokenizer(const json& spec, std::vector<PreTokenizerPtr>& out) {
    const std::string type = type_of(spec);
    if (type == "Split") {
        Pattern pattern = TRY(parse_pattern(field(spec, "pattern"), "pre-tokenizer Split"));
        out.push_back(split_pre_tokenizer(std::move(pattern), TRY(parse_behavior(spec)),
                                          bool_field(spec, "invert").value_or(false)));
    } else if (type == "ByteLevel") {
        if (bool_field(spec, "add_prefix_space").value_or(true)) out.push_back(prefix_space_pre_tokenizer());
        if (bool_field(spec, "use_regex").value_or(true))
            out.push_back(split_pre_tokenizer(TRY(Pattern::regex(kGpt2Split)), SplitBehavior::isolated));
        out.push_back(byte_level_pre_tokenizer());
    } else if (type == "Metaspace") {
        out.push_back(TRY(make_metaspace(spec)));
    } else if (type == "Digits") {
        const bool individual = bool_field(spec, "individual_digits").value_or(false);
        out.push_back(split_pre_tokenizer(Pattern::characters(is_number),
                                          individual ? SplitBehavior::isolated : SplitBehavior::contiguous));
    } else if (type == "Punctuation") {
        out.push_back(punctuation_pre_tokenizer(TRY(parse_behavior(spec))));
    } else if (type == "Whitespace") {
        out.push_back(split_pre_tokenizer(TRY(Pattern::regex(kWords)), SplitBehavior::removed, true));
    } else if (type == "WhitespaceSplit") {
        out.push_back(whitespace_pre_tokenizer());
    } else if (type == "BertPreTokenizer") {
        out.push_back(whitespace_pre_tokenizer());
        out.push_back(punctuation_pre_tokenizer(SplitBehavior::isolated));
    } else if (type == "CharDelimiterSplit") {
        auto delimiter = string_field(spec, "delimiter");
        if (!delimiter || delimiter->empty()) return fail("pre-tokenizer CharDelimiterSplit has no 'delimiter'");
        out.push_back(split_pre_tokenizer(Pattern::literal(std::move(*delimiter)), SplitBehavior::removed));
    } else {
        return fail("pre-tokenizer '{}' is not supported", type);
    }
    return Ok{};
}

Result<DecodeStep> make_decode_step(const json& spec) {
    DecodeStep step;
    const std::string type = type_of(spec);
    if (type == "ByteLevel") {
        step.kind = DecodeStep::Kind::byte_level;
    } else if (type == "ByteFallback") {
        step.kind = DecodeStep::Kind::byte_fallback;
    } else if (type == "Fuse") {
        step.kind = DecodeStep::Kind::fuse;
    } else if (type == "Replace") {
        step.kind = DecodeStep::Kind::replace;
        step.pattern = std::make_shared<Pattern>(TRY(parse_pattern(field(spec, "pattern"), "decoder Replace")));
        step.content = string_field(spec, "content").value_or("");
    } else if (type == "Metaspace") {
        step.kind = DecodeStep::Kind::metaspace;
        step.content = string_field(spec, "replacement").value_or(std::string(kSpaceMark));
        if (step.content.empty()) return fail("decoder Metaspace: its replacement is empty");
        const bool add_prefix = bool_field(spec, "add_prefix_space").value_or(true);
        step.drops_first = string_field(spec, "prepend_scheme").value_or(add_prefix ? "always" : "never") != "never";
    } else if (type == "Strip") {
        step.kind = DecodeStep::Kind::strip;
        step.content = string_field(spec, "content").value_or(" ");
        const int64_t start = int_field(spec, "start").value_or(0);
        const int64_t stop = int_field(spec, "stop").value_or(0);
        if (step.content.empty() || start < 0 || stop < 0)
            return fail("decoder Strip: bad content '{}', start {} or stop {}", step.content, start, stop);
        step.start = static_cast<size_t>(start);
        step.stop = static_cast<size_t>(stop);
    } else if (type == "WordPiece") {
        step.kind = DecodeStep::Kind::word_piece;
        step.content = string_field(spec, "prefix").value_or("##");
        step.cleans_up = bool_field(spec, "cleanup").value_or(true);
    } else {
        return fail("decoder '{}' is not supported", type);
    }
    return step;
}

}  // namespace

Result<NormalizerPtr> make_normalizer(const json& spec) {
    std::vector<const json*> steps;
    TRY(flatten(spec, "normalizers", steps));
    if (steps.empty()) return NormalizerPtr();
    if (steps.size() == 1) return make_one_normalizer(*steps[0]);
    std::vector<NormalizerPtr> normalizers;
    normalizers.reserve(steps.size());
    for (const json* step : steps) normalizers.push_back(TRY(make_one_normalizer(*step)));
    return normalizer_sequence(std::move(normalizers));
}

Result<std::vector<PreTokenizerPtr>> make_pre_tokenizers(const json& spec) {
    std::vector<const json*> steps;
    TRY(flatten(spec, "pretokenizers", steps));
    std::vector<PreTokenizerPtr> out;
    for (const json* step : steps) TRY(add_pre_tokenizer(*step, out));
    return out;
}

Result<DecoderPtr> make_decoder(const json& spec) {
    if (spec.is_null()) return stepwise_decoder(std::nullopt);
    std::vector<const json*> steps;
    TRY(flatten(spec, "decoders", steps));
    std::vector<DecodeStep> decode_steps;
    decode_steps.reserve(steps.size());
    for (const json* step : steps) decode_steps.push_back(TRY(make_decode_step(*step)));
    return stepwise_decoder(std::move(decode_steps));
}

}  // namespace tandem::text
