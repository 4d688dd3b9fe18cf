#include "cli/conversation.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/file.h"
#include "format/json.h"

namespace tandem::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostFileBytes = size_t{64} << 20;

// The text of `key`, or null when it is not there or not text.
const std::string* find_text(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() ? nullptr : found->get_ptr<const std::string*>();
}

Status add_message(Conversation& conversation, const Json& message, const std::string& path, size_t index) {
    const std::string* const role = message.is_object() ? find_text(message, "role") : nullptr;
    const std::string* const content = message.is_object() ? find_text(message, "content") : nullptr;
    if (role == nullptr || content == nullptr) {
        return fail("{}: message {} is not an object with the texts \"role\" and \"content\"", path, index);
    }
    if (*role == "system" && index == 0) {
        conversation.system = *content;
    } else if (*role == "user" || *role == "assistant") {
        conversation.messages.push_back({*role, *content});
    } else {
        return fail("{}: message {} has the role '{}'; a conversation has user and assistant", path, index,
                    role->substr(0, 40));
    }
    return Ok{};
}

}  // namespace

Status save_conversation(const std::string& path, const Conversation& conversation) {
    Json messages = Json::array();
    for (const Message& message : conversation.messages) {
        messages.push_back({{"role", message.role}, {"content", message.content}});
    }
    Json json;
    if (!conversation.system.empty()) json["system"] = conversation.system;
    json["messages"] = std::move(messages);
    return write_file(path, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

Result<Conversation> load_conversation(const std::string& path) {
    const std::string text = TRY(read_text_file(path, kMostFileBytes));
    const Json json = TRY(format::parse_ordered_json(text, path, format::kFileJson));
    Conversation conversation;
    if (json.is_object()) {
        if (const std::string* const system = find_text(json, "system")) conversation.system = *system;
    }
    const Json* messages = &json;
    if (json.is_object() && json.contains("messages")) messages = &json["messages"];
    if (!messages->is_array()) return fail("{}: no conversation: it has no list of messages", path);
    for (size_t index = 0; index < messages->size(); ++index) {
        TRY(add_message(conversation, (*messages)[index], path, index));
    }
    return conversation;
}

}  // namespace tandem::cli
