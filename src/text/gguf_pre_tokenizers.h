// The splitting expressions behind the names that GGUF files give in tokenizer.ggml.pre.
#pragma once

#include <span>
#include <string_view>

namespace tandem::text {

struct GgufPreTokenizer {
    std::span<const std::string_view> names;
    std::span<const std::string_view> expressions;  // applied one after the other
    bool ignore_merges = false;
    bool add_bos = false;  // unless the file says
};

// Null for a name that is not known.
const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name);

}  // namespace tandem::text
