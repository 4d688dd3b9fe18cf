// The line after an answer: how much was read and written, how fast, how full the context is, and where.
#pragma once

#include <string>
#include <string_view>

#include "cli/chat.h"

namespace tandem::cli {

// "stop", "length", "cancelled"
std::string_view name(engine::FinishReason reason);

// "[prompt 14 tokens, 512.3 tokens/s; answer 120 tokens, 88.1 tokens/s; context 6 % full; cpu]"
std::string closing_line(const Chat& chat, const Answer& answer);

}  // namespace tandem::cli
