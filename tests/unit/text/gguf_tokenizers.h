// Small GGUF files that carry a tokenizer and nothing else.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "format/gguf.h"
#include "format/gguf_writer.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace tandem::text {

inline Result<Tokenizer> parse_gguf(const format::GgufWriter& writer) {
    static std::vector<std::vector<std::byte>> files;  // the parsed file refers to them
    files.push_back(writer.to_bytes().value());
    const auto gguf = format::GgufFile::parse(files.back(), "test.gguf");
    if (!gguf) return gguf.error();
    return parse_gguf_tokenizer(*gguf);
}

inline format::GgufWriter gguf_of(const std::string& model, const std::vector<Piece>& pieces) {
    std::vector<std::string> texts;
    std::vector<float> scores;
    std::vector<int32_t> types;
    for (const Piece& piece : pieces) {
        texts.push_back(piece.text);
        scores.push_back(piece.score);
        types.push_back(static_cast<int32_t>(piece.kind));
    }
    format::GgufWriter writer;
    writer.set("tokenizer.ggml.model", model);
    writer.set("tokenizer.ggml.tokens", texts);
    writer.set("tokenizer.ggml.scores", scores);
    writer.set("tokenizer.ggml.token_type", types);
    return writer;
}

inline std::vector<std::string> pieces_of(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
    std::vector<std::string> pieces;
    for (const TokenId id : ids) pieces.emplace_back(tokenizer.piece(id));
    return pieces;
}

}  // namespace tandem::text
