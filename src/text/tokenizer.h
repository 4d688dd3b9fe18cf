// Text to token ids and back, for SentencePiece, BPE and WordPiece vocabularies, whatever file they came in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::format {
class Checkpoint;
class GgufFile;
}  // namespace tandem::format

namespace tandem::text {

using TokenId = int32_t;

struct TokenizerParts;

struct EncodeOptions {
    bool add_special = true;    // bos and eos as the tokenizer's settings or its post-processor say
    bool parse_special = true;  // "<start_of_turn>" in the text becomes its token
};

// Immutable, cheap to copy, and safe to use from several threads at once. Any bytes are accepted as text: what is
// not UTF-8 is read as U+FFFD.
class Tokenizer {
  public:
    explicit Tokenizer(std::shared_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}

    std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;
    // Always UTF-8. Ids outside the vocabulary contribute nothing; special tokens neither, unless they are asked for.
    std::string decode(std::span<const TokenId> ids, bool skip_special = true) const;

    int vocab_size() const;
    bool contains(TokenId id) const { return id >= 0 && id < vocab_size(); }
    // The most bytes of a text that one token stands for: a text of more than n times this has more than n tokens. Only
    // what a tokenizer leaves out does not count: spaces that it takes together, characters that it does not know.
    // Looks at every piece: to be kept by who needs it often.
    size_t longest_token_bytes() const;
    // As it stands in the vocabulary; empty outside of it.
    std::string_view piece(TokenId id) const;
    // The bytes it adds in the middle of a text: often part of a character only. Nothing for special tokens.
    std::string token_bytes(TokenId id) const;
    std::optional<TokenId> find(std::string_view piece) const;
    // Control tokens: they are no part of the text.
    bool is_special(TokenId id) const;

    std::optional<TokenId> bos() const;
    std::optional<TokenId> eos() const;
    std::optional<TokenId> unk() const;
    std::optional<TokenId> pad() const;
    // End of sequence and end of turn, ascending: an answer ends at any of them.
    const std::vector<TokenId>& stop_tokens() const;

    const TokenizerParts& parts() const { return *parts_; }

  private:
    std::shared_ptr<const TokenizerParts> parts_;
};

// From the metadata of a GGUF file, or tokenizer.json (preferred) or tokenizer.model of a Hugging Face directory.
Result<Tokenizer> load_tokenizer(const format::Checkpoint& checkpoint);

// A bare tokenizer.json, or a SentencePiece tokenizer.model. The latter does as SentencePiece itself: control
// pieces are neither recognized in a text nor shown in a decoded one.
Result<Tokenizer> load_tokenizer_file(const std::filesystem::path& path);

// The same from memory; `name` stands in messages.
Result<Tokenizer> parse_tokenizer_json(std::string_view json, std::string_view name);
Result<Tokenizer> parse_sentencepiece_model(std::span<const std::byte> bytes, std::string_view name);
Result<Tokenizer> parse_gguf_tokenizer(const format::GgufFile& gguf);

}  // namespace tandem::text
