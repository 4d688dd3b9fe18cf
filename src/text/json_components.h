// The normalizers, pre-tokenizers and decoders that a tokenizer.json describes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"

namespace tandem::text {

// `spec` is null or an object with a "type"; an unknown type is an error that names it.
Result<NormalizerPtr> make_normalizer(const nlohmann::json& spec);  // null for null
Result<std::vector<PreTokenizerPtr>> make_pre_tokenizers(const nlohmann::json& spec);
Result<DecoderPtr> make_decoder(const nlohmann::json& spec);

// How GPT-2 splits, and everyone who says "ByteLevel" without more.
inline constexpr std::string_view kGpt2Split =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace tandem::text
