// Any text as a chat template, rendered for a conversation that has everything: no crash, no stall, no flood.
#include <cstddef>
#include <cstdint>
#include <string>

#include "text/chat_template.h"

namespace {

using tandem::text::ChatInput;
using tandem::text::ChatTemplate;

ChatInput rich_input() {
    ChatInput input;
    input.messages = nlohmann::ordered_json::parse(R"([
        {"role": "system", "content": "Be brief. "},
        {"role": "user", "content": [{"type": "text", "text": "héllo 日本 😀"}, {"type": "image"}]},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": 2.5}}}]},
        {"role": "tool", "name": "add", "content": "3.5"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nIt is 3.5.", "reasoning_content": "hm"},
        {"role": "user", "content": "Thanks\nand bye"}
    ])");
    input.tools = nlohmann::ordered_json::parse(R"([{"type": "function", "function": {
        "name": "add", "description": "Adds <two> numbers", "parameters": {"type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": ["number", "null"]}}, "required": ["a"]}}}])");
    input.bos_token = "<s>";
    input.eos_token = "</s>";
    input.extra = {
        {"enable_thinking", true}, {"date", "1 May"}, {"limit", 9223372036854775807}, {"x", {1, "a", nullptr}}};
    input.now = std::chrono::system_clock::from_time_t(0);
    return input;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const ChatInput input = rich_input();
    const tandem::text::jinja::Limits limits{
        .steps = 20'000, .depth = 400, .value_bytes = size_t{8} << 20, .output_bytes = size_t{1} << 20};
    auto parsed = ChatTemplate::parse(std::string(reinterpret_cast<const char*>(data), size));
    if (!parsed) return 0;
    auto text = parsed->render(input, limits);
    if (text && text->size() > limits.output_bytes) __builtin_trap();
    return 0;
}
