// ChatPrompt: a conversation as the tokens a model goes on from, and how what follows is to be read.
#pragma once

#include <vector>

#include "engine/bundle.h"
#include "server/answer_reader.h"
#include "server/ask.h"

namespace tandem::server {

struct ChatPrompt {
    std::vector<text::TokenId> tokens;
    std::vector<text::TokenId> marks;  // that the reader must see, though they are control tokens
    AnswerReaderOptions reader;
    ResponseFormat format;  // that the answer is held to: what was asked for, or the call of a tool
};

Reply<ChatPrompt> render_chat(const Ask& ask, const engine::Bundle& model);

}  // namespace tandem::server
