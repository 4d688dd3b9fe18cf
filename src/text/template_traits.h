// TemplateTraits: in which form a chat template wants a conversation, found by rendering small ones with it.
#pragma once

#include <nlohmann/json.hpp>

#include "text/chat_template.h"

namespace tandem::text {

// Each trait is a change of the messages that a template needs to show all of a conversation; where it shows all
// without the change, or not even with it, messages go as they came.
struct TemplateTraits {
    bool typed_content = false;      // contents as [{"type": "text", "text": ...}]
    bool folds_system = false;       // a system message becomes the beginning of the user's next one
    bool folds_late_system = false;  // only those that do not come first
    bool merges_turns = false;       // messages of one role in a row become one
    bool text_arguments = false;     // of calls: JSON text, not an object
    bool empty_as_null = false;      // content beside calls: none rather than ""
    bool null_as_empty = false;      // and the other way round
    bool splits_text = false;        // text beside calls becomes a message before them
    bool one_call = false;           // calls made at once follow each other, each with its result
    bool short_ids = false;          // ids of calls are nine letters and digits
    bool names_results = false;      // a result has the name of its tool
    bool writes_calls = false;       // calls become JSON in the text of their message
    bool results_as_user = false;    // results are told by the user

    bool operator==(const TemplateTraits&) const = default;
};

// For conversations with or without tools offered. Costs some dozens of tiny renderings.
TemplateTraits probe_template(const ChatTemplate& chat_template, bool with_tools);

// Whether the template tells the model what its tools are.
bool shows_tools(const ChatTemplate& chat_template);
// Whether it does when they are a member of the system message.
bool shows_system_tools(const ChatTemplate& chat_template);

// The messages, in OpenAI's form, as a template with these traits wants them. What is no list of messages stays as it
// is: the template will say so.
nlohmann::ordered_json fit_messages(nlohmann::ordered_json messages, const TemplateTraits& traits);

}  // namespace tandem::text
