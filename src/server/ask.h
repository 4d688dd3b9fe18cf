// Ask: what a client wants, whichever API it speaks.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "device/sampling.h"
#include "server/reply.h"
#include "text/tokenizer.h"

namespace tandem::server {

using Json = nlohmann::ordered_json;  // tool schemas are printed as they were written

enum class AskKind : uint8_t {
    chat,        // messages
    completion,  // prompts, completed as they are
    embedding,   // prompts
};

enum class ToolChoice : uint8_t { automatic, none, required, named };

enum class FormatKind : uint8_t { text, json_object, json_schema, gbnf, regex, choice };

struct ResponseFormat {
    FormatKind kind = FormatKind::text;
    std::string source = {};  // the schema as JSON text, the grammar, the expression, or a JSON array of texts
};

using Prompt = std::variant<std::string, std::vector<text::TokenId>>;

struct Ask {
    std::string model;  // empty: the default
    AskKind kind = AskKind::chat;

    // In OpenAI's form, with content as text or null: see text::PromptInput.
    Json messages = Json::array();
    // The last message is the beginning of the answer, which goes on from there.
    bool continues_last = false;
    std::vector<Prompt> prompts;

    Json tools;  // null, or [{"type": "function", "function": {"name", "description", "parameters": a schema}}]
    ToolChoice tool_choice = ToolChoice::automatic;
    std::string tool_name = {};  // of ToolChoice::named
    bool parallel_tool_calls = true;
    ResponseFormat format;

    device::SamplingParams sampling = {.temperature = 1.0F};  // its seed is the one below
    std::optional<uint64_t> seed;                             // none: another one each time
    int max_tokens = 0;                                       // 0: until the context is full
    int n = 1;
    std::vector<std::string> stop;
    std::vector<text::TokenId> stop_tokens;
    int min_tokens = 0;  // before a token may end the answer
    bool ignore_end = false;
    bool echo = false;
    bool prompt_only = false;     // nothing is written: the prompt is echoed
    std::optional<int> logprobs;  // of every token, beside this many of the likeliest

    bool stream = false;
    bool include_usage = false;               // in a stream of OpenAI's
    std::optional<double> keep_alive_s = {};  // that the model stays loaded afterwards; negative: for good
    std::optional<bool> thinks = {};          // enable_thinking of the template; none: what the template does
    std::string reasoning_effort = {};        // of the template
    Json template_values = Json::object();    // further variables of the template
    std::string user = {};                    // for the log
    std::string cache_salt = {};              // only requests with the same share cached prompts
    std::string instructions = {};            // of a response, which repeats them; they are among the messages
    Json metadata = Json::object();           // of a response, which repeats it

    // Of embeddings.
    int dimensions = 0;      // 0: all
    bool base64 = false;     // 32-bit floats as base64
    bool truncates = false;  // a text that is too long loses its end

    // There is nothing to answer: where the API has that, the model is to be loaded, or unloaded (keep_alive_s of 0).
    bool only_loads() const { return kind == AskKind::chat && messages.empty(); }
};

// The most of everything; the body as a whole is limited before it is parsed.
struct AskLimits {
    int n = 16;
    int prompts = 256;  // of one request
    int messages = 4096;
    int tools = 256;
    int stop = 16;
    int stop_bytes = 1024;  // of each
    int logprobs = 20;
    int logit_bias = 1024;
    int schema_bytes = 256 << 10;  // of a schema, a grammar, or all tools together
};

// Refuses ids that a model's vocabulary does not have; `field` is where they stand.
Reply<Ok> check_token_ids(std::span<const text::TokenId> ids, int vocab, std::string_view field);

// What all APIs have in common: every number in its range, nothing more than the limits allow.
Reply<Ok> check(const Ask& ask, const AskLimits& limits = {});

}  // namespace tandem::server
