// Any JSON as the messages of a request, in every form that templates want: no crash, and no text of anybody is lost.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "format/json.h"
#include "text/message_forms.h"
#include "text/template_traits.h"

namespace tandem::text {
namespace {

using Json = nlohmann::ordered_json;

TemplateTraits traits_of(unsigned bits) {
    TemplateTraits traits;
    for (bool* const trait :
         {&traits.typed_content, &traits.folds_system, &traits.folds_late_system, &traits.merges_turns,
          &traits.text_arguments, &traits.empty_as_null, &traits.null_as_empty, &traits.splits_text, &traits.one_call,
          &traits.short_ids, &traits.names_results, &traits.writes_calls, &traits.results_as_user}) {
        *trait = (bits & 1U) != 0;
        bits >>= 1U;
    }
    return traits;
}

void check_nothing_is_lost(const Json& messages, const Json& fitted) {
    if (!messages.is_array()) {
        CHECK(messages == fitted);
        return;
    }
    std::string all;
    for (const Json& message : fitted) {
        if (message.is_object()) all += content_text(message) + "\n";
    }
    for (const Json& message : messages) {
        if (!message.is_object()) return;  // no list of messages
    }
    for (const Json& message : messages) {
        const auto content = message.find("content");
        if (content != message.end() && content->is_string()) {
            CHECK(all.find(content->get_ref<const std::string&>()) != std::string::npos);
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
    const Result<Json> messages = format::parse_ordered_json(text, "messages");
    if (!messages) return 0;
    check_nothing_is_lost(*messages,
                          fit_messages(*messages, traits_of(data[0] | static_cast<unsigned>(data[1]) << 8U)));
    const Json tools = Json::array({{{"type", "function"}, {"function", {{"name", "f"}}}}});
    check_nothing_is_lost(*messages, describe_tools(*messages, tools));
    return 0;
}

}  // namespace tandem::text
