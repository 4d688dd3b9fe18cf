// Templates of the shapes that published models have, each with its own idea of a conversation.
#include "text/template_traits.h"

#include <gtest/gtest.h>

#include "text/fitted_template.h"

namespace tandem::text {
namespace {

using Json = nlohmann::ordered_json;

// Joins the arguments to other text, as functionary's do: an object is an error.
constexpr const char* kJoinsArguments = R"(
{%- if tools %}{{ '[system]' + tools|tojson }}{% endif %}
{%- for m in messages %}
    {%- if m.role == 'assistant' and m.tool_calls %}
        {{- '[assistant]' + (m.content or '') }}
        {%- for call in m.tool_calls %}{{ '>>>' + call.function.name + '\n' + call.function.arguments }}{% endfor %}
    {%- else %}{{ '[' + m.role + ']' + m.content }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}[assistant]{% endif %})";

// Calls count where there is no content, as DeepSeek-R1's do: with "" they are left out.
constexpr const char* kCallsWithoutContent = R"(
{%- for m in messages %}
    {%- if m['role'] == 'user' %}{{ '<U>' + m['content'] }}{% endif %}
    {%- if m['role'] == 'system' %}{{ '<S>' + m['content'] }}{% endif %}
    {%- if m['role'] == 'assistant' and m['content'] is none %}
        {%- for call in m['tool_calls'] %}
            {{- '<C>' + call['function']['name'] + '\n' + call['function']['arguments'] + '</C>' }}
        {%- endfor %}
    {%- endif %}
    {%- if m['role'] == 'assistant' and m['content'] is not none %}{{ '<A>' + m['content'] }}{% endif %}
    {%- if m['role'] == 'tool' %}{{ '<R>' + m['content'] }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}<A><think>{% endif %})";

// Wants objects, prints None as it comes, and takes only one call: Llama 3's.
constexpr const char* kObjects = R"(
{%- for m in messages %}
    {%- if m.tool_calls is defined %}
        {%- if m.tool_calls|length != 1 %}{{ raise_exception('one call at a time') }}{% endif %}
        {{- '<A>' ~ m.content ~ '{"name": "' + m.tool_calls[0].function.name + '", "parameters": ' }}
        {{- m.tool_calls[0].function.arguments|tojson + '}' }}
    {%- else %}{{ '<' + m.role + '>' + m.content }}{% endif %}
{%- endfor %})";

// Turns alternate, there is no system message, and contents are lists of parts.
constexpr const char* kStrict = R"(
{%- for m in messages %}
    {%- if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
    {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
    {{- '<' + m.role + '>' }}
    {%- for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}
{%- endfor %})";

// Ids of nine letters and digits, and names of results: Mistral's.
constexpr const char* kStrictIds = R"(
{%- for m in messages %}
    {%- if m.tool_calls %}
        {%- for call in m.tool_calls %}
            {%- if call.id is not defined or call.id|length != 9 %}{{ raise_exception('ids have 9 letters') }}{% endif %}
            {{- '[TOOL_CALLS]' + call.function|tojson + call.id }}
        {%- endfor %}
    {%- elif m.role == 'tool' %}
        {%- if m.tool_call_id|length != 9 %}{{ raise_exception('ids have 9 letters') }}{% endif %}
        {{- '[RESULT]' + m.name + m.content }}
    {%- else %}{{ '[' + m.role + ']' + m.content }}{% endif %}
{%- endfor %})";

ChatTemplate template_of(const char* source) {
    return ChatTemplate::parse(source).value();
}

Json conversation(Json content, const Json& arguments = R"({"city": "Bonn",  "n": 1})") {
    return Json::array({{{"role", "user"}, {"content", "Weather?"}},
                        {{"role", "assistant"},
                         {"content", std::move(content)},
                         {"tool_calls", Json::array({{{"id", "call_0123456789"},
                                                      {"type", "function"},
                                                      {"function", {{"name", "look"}, {"arguments", arguments}}}}})}},
                        {{"role", "tool"}, {"tool_call_id", "call_0123456789"}, {"content", "rain"}}});
}

std::string render(const char* source, Json messages, Json tools = {}) {
    ChatInput input;
    input.messages = std::move(messages);
    input.tools = std::move(tools);
    const Result<std::string> text = FittedTemplate(template_of(source)).render(std::move(input));
    return text ? *text : text.error().message;
}

TEST(TemplateTraits, ArgumentsAreTextWhereATemplateJoinsThem) {
    EXPECT_EQ(probe_template(template_of(kJoinsArguments), false), (TemplateTraits{.text_arguments = true}));
    const char* const expected =
        "[user]Weather?[assistant]>>>look\n{\"city\": \"Bonn\",  \"n\": 1}[tool]rain[assistant]";
    EXPECT_EQ(render(kJoinsArguments, conversation(nullptr)), expected) << "the text as it was written";
    EXPECT_EQ(render(kJoinsArguments, conversation("", Json{{"city", "Bonn"}})),
              "[user]Weather?[assistant]>>>look\n{\"city\":\"Bonn\"}[tool]rain[assistant]")
        << "of clients that send objects";
    const Json tools = Json::parse(R"([{"type": "function", "function": {"name": "look"}}])");
    EXPECT_TRUE(render(kJoinsArguments, conversation(nullptr), tools).ends_with(expected));
}

TEST(TemplateTraits, ContentIsNoneWhereCallsAreLeftOutOtherwise) {
    const TemplateTraits traits = probe_template(template_of(kCallsWithoutContent), false);
    EXPECT_TRUE(traits.empty_as_null && traits.text_arguments && traits.splits_text);
    const char* const expected = "<U>Weather?<C>look\n{\"city\": \"Bonn\",  \"n\": 1}</C><R>rain<A><think>";
    EXPECT_EQ(render(kCallsWithoutContent, conversation(nullptr)), expected);
    EXPECT_EQ(render(kCallsWithoutContent, conversation("")), expected);
    EXPECT_EQ(render(kCallsWithoutContent, conversation("Let me look.")),
              "<U>Weather?<A>Let me look.<C>look\n{\"city\": \"Bonn\",  \"n\": 1}</C><R>rain<A><think>");
}

TEST(TemplateTraits, ArgumentsAreAnObjectAndContentIsTextWhereThatIsWanted) {
    EXPECT_EQ(probe_template(template_of(kObjects), false), (TemplateTraits{.null_as_empty = true, .one_call = true}));
    EXPECT_EQ(render(kObjects, conversation(nullptr)),
              R"(<user>Weather?<A>{"name": "look", "parameters": {"city": "Bonn", "n": 1}}<tool>rain)");
    Json two = conversation("");
    two[1]["tool_calls"].push_back({{"id", "2"}, {"function", {{"name", "hear"}, {"arguments", "{}"}}}});
    two.push_back({{"role", "tool"}, {"tool_call_id", "2"}, {"content", "thunder"}});
    EXPECT_EQ(render(kObjects, two), R"(<user>Weather?<A>{"name": "look", "parameters": {"city": "Bonn", "n": 1}})"
                                     R"(<tool>rain<A>{"name": "hear", "parameters": {}}<tool>thunder)");
}

TEST(TemplateTraits, AnEmptyListOfCallsIsNone) {
    EXPECT_EQ(render(kObjects, Json::parse(R"([{"role": "user", "content": "a"},
        {"role": "assistant", "content": null, "tool_calls": []}])")),
              "<user>a<assistant>");
}

TEST(TemplateTraits, AStrictTemplateGetsPartsTurnsAndNoSystemMessage) {
    const TemplateTraits traits = probe_template(template_of(kStrict), false);
    EXPECT_TRUE(traits.typed_content && traits.merges_turns && traits.folds_system && traits.writes_calls);
    EXPECT_EQ(render(kStrict, Json::parse(R"([{"role": "system", "content": "S"}, {"role": "user", "content": "a"},
        {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}, {"role": "user", "content": "d"}])")),
              "<user>S\n\na\n\nb<assistant>c<user>d");
    EXPECT_EQ(render(kStrict, conversation(nullptr)),
              "<user>Weather?<assistant>{\"name\":\"look\",\"arguments\":{\"city\":\"Bonn\",\"n\":1}}\n"
              "<user>The tool answered:\nrain");
}

TEST(TemplateTraits, IdsAndNamesAreWhatATemplateInsistsOn) {
    const TemplateTraits traits = probe_template(template_of(kStrictIds), false);
    EXPECT_EQ(traits, (TemplateTraits{.short_ids = true, .names_results = true}));
    const std::string text = render(kStrictIds, conversation(nullptr));
    EXPECT_NE(text.find("[RESULT]lookrain"), std::string::npos) << text;
}

TEST(TemplateTraits, ToolsThatATemplateDoesNotShowAreDescribed) {
    const Json tools = Json::parse(R"([{"type": "function", "function": {"name": "look"}}])");
    EXPECT_TRUE(shows_tools(template_of(kJoinsArguments)));
    EXPECT_FALSE(shows_tools(template_of(kCallsWithoutContent)));
    EXPECT_FALSE(shows_tools(template_of("{# tools #}{{ messages[0].content }}"))) << "the word alone is nothing";
    EXPECT_TRUE(shows_tools(ChatTemplate::parse("plain", "{{ tools }}").value())) << "of the second template";
    const std::string text = render(kCallsWithoutContent, conversation(nullptr), tools);
    EXPECT_NE(text.find("You can call these tools"), std::string::npos);
    EXPECT_NE(text.find("The tool answered:\nrain"), std::string::npos);
}

TEST(TemplateTraits, ToolsAreGivenInFullWhereATemplateWantsIt) {
    const char* const source =
        "{% for t in tools %}{{ t.function.name + ': ' + t.function.description }} "
        "{{- t.function.parameters.properties|length }}{% endfor %}{{ messages[0].content }}";
    EXPECT_EQ(render(source, conversation(nullptr), Json::parse(R"([{"type": "function", "function": {"name": "look",
              "description": "Looks", "parameters": {"properties": {"a": {}}}}}])")),
              "look: Looks1Weather?");
    EXPECT_EQ(
        render(source, conversation(nullptr), Json::parse(R"([{"type": "function", "function": {"name": "look"}}])")),
        "look: 0Weather?");
}

// As SmolLM 3's has it, which shows no calls either.
TEST(TemplateTraits, ToolsMayHaveAnotherName) {
    const char* const source =
        "{% for tool in xml_tools or [] %}{{ tool.name }}<tool_call></tool_call>{% endfor %}"
        "{% for m in messages %}[{{ m.role }}]{{ m.content if m.content is string else '' }}{% endfor %}";
    const FittedTemplate fitted(template_of(source));
    EXPECT_TRUE(fitted.shows_tools());
    const Json tools = Json::parse(R"([{"type": "function", "function": {"name": "look"}}])");
    const std::string text = render(source, conversation(nullptr), tools);
    EXPECT_TRUE(text.starts_with("look<tool_call></tool_call>[user]")) << text;
    EXPECT_NE(text.find("\"name\":\"look\""), std::string::npos) << text;
}

// As Phi 4's does.
TEST(TemplateTraits, ToolsMayBelongToTheSystemMessage) {
    const char* const source =
        "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}"
        "{% if m['role'] == 'system' and 'tools' in m and m['tools'] is not none %}<|tool|>{{ m['tools'] }}<|/tool|>"
        "{% endif %}<|end|>{% endfor %}";
    const FittedTemplate fitted(template_of(source));
    EXPECT_TRUE(fitted.shows_tools());
    EXPECT_EQ(fitted.answer_format().calls, CallStyle::barred);
    ChatInput input;
    input.messages = Json::parse(R"([{"role": "user", "content": "Hi"}])");
    input.tools = Json::parse(R"([{"type": "function", "function": {"name": "look"}}])");
    EXPECT_EQ(fitted.render(input).value(), "<|system|><|tool|>[{\"name\":\"look\"}]<|/tool|><|end|><|user|>Hi<|end|>");
}

TEST(TemplateTraits, AnOddTemplateGetsMessagesAsTheyCame) {
    EXPECT_EQ(probe_template(template_of("{{ raise_exception('never') }}"), false), TemplateTraits{});
    EXPECT_EQ(probe_template(template_of("nothing of the messages"), true), TemplateTraits{});
    EXPECT_EQ(
        probe_template(template_of("{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}"),
                       false),
        TemplateTraits{});
}

}  // namespace
}  // namespace tandem::text
