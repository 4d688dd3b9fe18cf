// The forms that chat templates want messages in; messages are in OpenAI's form.
#pragma once

#include <nlohmann/json.hpp>

namespace tandem::text {

// A tool call's "arguments", JSON text or an object already, as an object. Text that is no object stays text.
nlohmann::ordered_json arguments_of(const nlohmann::ordered_json& arguments);

// The same as JSON text: what is text already stays as it was written.
std::string arguments_text(const nlohmann::ordered_json& arguments);

// "content" of a message as text: that of a string, of parts with a text, or "".
std::string content_text(const nlohmann::ordered_json& message);

// The messages with the tools described by the system message, for templates that do not tell the model of tools.
nlohmann::ordered_json describe_tools(nlohmann::ordered_json messages, const nlohmann::ordered_json& tools);

// The messages with the tools as JSON text in a member "tools" of the system message (Phi 4).
nlohmann::ordered_json messages_with_system_tools(nlohmann::ordered_json messages, const nlohmann::ordered_json& tools);

// The tools with a description and parameters, empty ones where there are none.
nlohmann::ordered_json tools_in_full(nlohmann::ordered_json tools);

// The messages with ids of calls as Mistral's templates insist on: nine letters and digits. Whatever the id was that a
// client sends (ours are longer, Ollama's clients have none), it becomes the same one each time.
nlohmann::ordered_json messages_with_short_ids(nlohmann::ordered_json messages);

// The results of calls with the names of the tools that were called.
nlohmann::ordered_json messages_with_named_results(nlohmann::ordered_json messages);

// Calls made at once, and their results, as calls made one after the other.
nlohmann::ordered_json messages_with_one_call(nlohmann::ordered_json messages);

// The text of system messages in front of the user's next; `late_only`: but for that at the beginning.
nlohmann::ordered_json messages_with_folded_system(nlohmann::ordered_json messages, bool late_only);

// Neighbours of the same role as one message, but for calls and results.
nlohmann::ordered_json messages_in_turns(nlohmann::ordered_json messages);

}  // namespace tandem::text
