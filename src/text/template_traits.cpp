#include "text/template_traits.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "text/message_forms.h"

namespace tandem::text {

namespace {

using Json = nlohmann::ordered_json;

// Words that no template has by itself.
constexpr const char* kQuestion = "Qvxquestion";
constexpr const char* kQuestion2 = "Qvxsecond";
constexpr const char* kSystem = "Qvxsystem";
constexpr const char* kSaid = "Qvxsaid";
constexpr const char* kOffered = "qvx_offered";
constexpr const char* kTool = "qvx_tool";
constexpr const char* kTool2 = "qvx_other";
constexpr const char* kKey = "qvx_key";
constexpr const char* kValue = "Qvxvalue";
constexpr const char* kResult = "Qvxresult";
constexpr const char* kResult2 = "Qvxoutcome";
constexpr const char* kNone = "None";
constexpr const char* kLongId = "call_0123456789abcdef";

Json message(const char* role, Json content) {
    return {{"role", role}, {"content", std::move(content)}};
}

Json probe_call(const char* id, const char* name) {
    Json call = {{"type", "function"}, {"function", {{"name", name}, {"arguments", {{kKey, kValue}}}}}};
    if (id != nullptr) call["id"] = id;
    return call;
}

Json calls_message(Json content, std::initializer_list<Json> calls) {
    Json asked = message("assistant", std::move(content));
    asked["tool_calls"] = Json(calls);
    return asked;
}

Json result_message(const char* id, const char* name, const char* content) {
    Json result = message("tool", content);
    if (id != nullptr) result["tool_call_id"] = id;
    if (name != nullptr) result["name"] = name;
    return result;
}

Json conversation(std::initializer_list<Json> messages) {
    return Json::array_t(messages);
}

Json one_call(Json content, const char* id = "callqvx01", const char* result_name = kTool) {
    return conversation({message("user", kQuestion), calls_message(std::move(content), {probe_call(id, kTool)}),
                         result_message(id, result_name, kResult)});
}

// Of other names than those of the calls, which are looked for in the same text.
Json probe_tools() {
    return Json::array({{{"type", "function"},
                         {"function",
                          {{"name", kOffered},
                           {"description", "a probe"},
                           {"parameters",
                            {{"type", "object"},
                             {"properties", {{"word", {{"type", "string"}, {"description", "a word"}}}}},
                             {"required", Json::array({"word"})}}}}}}});
}

bool has(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

using Needles = std::initializer_list<std::string_view>;

class Prober {
  public:
    Prober(const ChatTemplate& chat_template, Json tools) : template_(chat_template) {
        input_.tools = std::move(tools);
        input_.bos_token = "<s>";
        input_.eos_token = "</s>";
    }

    // Whether the template, given the conversation in the form of `traits`, says all of the needles.
    bool says(const TemplateTraits& traits, const Json& messages, Needles needles) {
        input_.messages = fit_messages(messages, traits);
        Result<std::string> text = template_.render(input_, kLimits);
        text_ = text ? std::move(*text) : std::string();
        return text && std::all_of(needles.begin(), needles.end(),
                                   [this](std::string_view needle) { return has(text_, needle); });
    }

    TemplateTraits run() {
        const Json question = conversation({message("user", kQuestion)});
        if (!adopt(question, {kQuestion}, {&TemplateTraits::typed_content})) return {};  // nothing can be learned
        says(traits_, question, {});
        says_none_ = has(text_, kNone);
        probe_turns();
        probe_calls();
        return traits_;
    }

  private:
    using Trait = bool TemplateTraits::*;

    // And says them as a model was trained on: not as Python writes what is no text, nor as JSON within JSON.
    bool shows(const TemplateTraits& traits, const Json& messages, Needles needles) {
        return says(traits, messages, needles) && !has(text_, std::string("'") + kKey + "'") &&
               !has(text_, std::string("\\\"") + kKey) && (says_none_ || !has(text_, kNone));
    }

    // Keeps the first of the changes with which all is shown, if it is not without any.
    bool adopt(const Json& messages, Needles needles, std::initializer_list<Trait> changes) {
        if (shows(traits_, messages, needles)) return true;
        for (const Trait change : changes) {
            TemplateTraits changed = traits_;
            changed.*change = true;
            if (!shows(changed, messages, needles)) continue;
            traits_ = changed;
            return true;
        }
        return false;
    }

    void probe_turns() {
        adopt(conversation({message("user", kQuestion), message("user", kQuestion2)}), {kQuestion, kQuestion2},
              {&TemplateTraits::merges_turns});
        adopt(conversation({message("system", kSystem), message("user", kQuestion)}), {kSystem, kQuestion},
              {&TemplateTraits::folds_system});
        adopt(conversation({message("user", kQuestion), message("assistant", kSaid), message("system", kSystem),
                            message("user", kQuestion2)}),
              {kQuestion, kSaid, kSystem, kQuestion2}, {&TemplateTraits::folds_late_system});
    }

    // The forms of a call hang together: some templates want both text and null.
    bool find_form_of_calls() {
        const Json called = one_call("");
        const Needles all = {kQuestion, kTool, kKey, kValue, kResult};
        for (const bool as_user : {false, true}) {
            for (const bool as_null : {false, true}) {
                for (const bool as_text : {false, true}) {
                    TemplateTraits changed = traits_;
                    changed.results_as_user = as_user;
                    changed.empty_as_null = as_null;
                    changed.text_arguments = as_text;
                    if (!shows(changed, called, all)) continue;
                    traits_ = changed;
                    return true;
                }
            }
        }
        TemplateTraits changed = traits_;
        changed.results_as_user = changed.writes_calls = true;
        if (shows(changed, called, all)) traits_ = changed;
        return false;
    }

    void probe_calls() {
        if (!find_form_of_calls()) return;
        adopt(one_call(nullptr), {kQuestion, kTool, kValue, kResult}, {&TemplateTraits::null_as_empty});
        // Where the text is left out, the model was trained so; where the call is, nobody is.
        adopt(one_call(kSaid), {kQuestion, kTool, kValue, kResult}, {&TemplateTraits::splits_text});
        adopt(
            conversation({message("user", kQuestion),
                          calls_message("", {probe_call("callqvx01", kTool), probe_call("callqvx02", kTool2)}),
                          result_message("callqvx01", kTool, kResult), result_message("callqvx02", kTool2, kResult2)}),
            {kQuestion, kTool, kTool2, kResult, kResult2}, {&TemplateTraits::one_call});
        for (const char* const id : {kLongId, static_cast<const char*>(nullptr)}) {
            adopt(one_call("", id), {kTool, kResult}, {&TemplateTraits::short_ids});
        }
        adopt(one_call("", kLongId, nullptr), {kTool, kResult}, {&TemplateTraits::names_results});
    }

    // A template of a published model takes some thousands of steps for such a conversation.
    static constexpr jinja::Limits kLimits = {.steps = 200'000, .value_bytes = 16U << 20U, .output_bytes = 1U << 20U};

    const ChatTemplate& template_;
    ChatInput input_;
    TemplateTraits traits_;
    std::string text_;       // of the last rendering
    bool says_none_ = true;  // whatever the conversation
};

}  // namespace

TemplateTraits probe_template(const ChatTemplate& chat_template, bool with_tools) {
    return Prober(chat_template, with_tools ? probe_tools() : Json()).run();
}

bool shows_tools(const ChatTemplate& chat_template) {
    Prober prober(chat_template, probe_tools());
    const Json question = message("user", kQuestion);
    TemplateTraits typed;
    typed.typed_content = true;
    for (const Json& messages : {conversation({question}), conversation({message("system", kSystem), question})}) {
        for (const TemplateTraits& traits : {TemplateTraits(), typed}) {
            if (prober.says(traits, messages, {kOffered})) return true;
        }
    }
    return false;
}

bool shows_system_tools(const ChatTemplate& chat_template) {
    const Json messages = messages_with_system_tools(conversation({message("user", kQuestion)}), probe_tools());
    return Prober(chat_template, Json()).says({}, messages, {kOffered});
}

}  // namespace tandem::text
