// AnswerPart: a piece of an answer, by what it is.
#pragma once

#include <cstdint>
#include <string>

namespace tandem::text {

struct AnswerPart {
    enum class Kind : uint8_t { content, reasoning, call };
    Kind kind = Kind::content;
    std::string text;  // of a call: its arguments, a JSON object exactly as the model wrote it
    std::string name;  // of a call
};

}  // namespace tandem::text
