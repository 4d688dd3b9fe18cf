// The splitting expressions behind the names that GGUF files give in tokenizer.ggml.pre.
#pragma once

#include <span>
#include <string_view>

namespace tandem::text {

struct GgufPreTokenizer {
    // How the pieces write a text: as bytes (byte_level.h), with U+2581 for a space, or without any space.
    enum class Spelling { bytes, marked_spaces, no_spaces };

    std::span<const std::string_view> names;
    std::string_view thousands{};                   // what it finds is cut into groups of three, before all else
    std::span<const std::string_view> expressions;  // applied one after the other
    Spelling spelling = Spelling::bytes;
    bool ignore_merges = false;
    bool whole_newlines = false;
    bool add_bos = false;     // unless the file says
    bool always_bos = false;  // whatever the file says: early files of Gemma 4 deny it
};

// Null for a name that is not known.
const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name);

}  // namespace tandem::text
