// A conversation: its messages, and the file they are saved in.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tandem::cli {

struct Message {
    std::string role;  // "user", "assistant"
    std::string content;

    bool operator==(const Message&) const = default;
};

struct Conversation {
    std::string system;  // empty: none
    std::vector<Message> messages;
};

// As JSON: {"system": "...", "messages": [{"role": "user", "content": "..."}, ...]}.
Status save_conversation(const std::string& path, const Conversation& conversation);

// Also takes a bare array of messages, and a system message as the first of them.
Result<Conversation> load_conversation(const std::string& path);

}  // namespace tandem::cli
