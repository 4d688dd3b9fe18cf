// Any bytes as a request to one of the APIs, as an answer of a model, or as the head of a request: refused or taken,
// and whatever is written for them is JSON.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "format/json.h"
#include "server/anthropic.h"
#include "server/fields.h"
#include "server/guard.h"
#include "server/keys.h"
#include "server/ollama.h"
#include "server/openai.h"
#include "server/responses.h"
#include "text/answer_reader.h"

namespace tandem::server {
namespace {

constexpr const Dialect* kDialects[] = {&kOpenAiChat, &kOpenAiCompletions, &kOpenAiEmbeddings, &kResponses,
                                        &kOllamaChat, &kOllamaGenerate,    &kOllamaEmbed,      &kAnthropicMessages};
constexpr size_t kDialectCount = std::size(kDialects);

std::vector<text::AnswerReaderOptions> readers() {
    std::vector<text::AnswerReaderOptions> list;
    for (const char* source : {"tools <think></think><tool_call>", "tools [TOOL_CALLS]", "tools [TOOL_CALLS] [ARGS]",
                               R"(tools {"name": "parameters": )"}) {
        list.push_back({.format = text::answer_format(source), .tools = {"add", "get_weather", "get"}});
        list.push_back(list.back());
        list.back().begins_in_reasoning = true;
    }
    return list;
}

std::vector<text::AnswerPart> joined(std::vector<text::AnswerPart> parts, std::vector<text::AnswerPart> more) {
    for (text::AnswerPart& part : more) {
        const bool goes_on =
            !parts.empty() && parts.back().kind == part.kind && part.kind != text::AnswerPart::Kind::call;
        if (goes_on)
            parts.back().text += part.text;
        else
            parts.push_back(std::move(part));
    }
    return parts;
}

// In pieces whose lengths are made of the text itself.
std::vector<text::AnswerPart> read_answer(const text::AnswerReaderOptions& options, std::string_view text,
                                          bool in_pieces, bool cut = false) {
    text::AnswerReader reader(options);
    std::vector<text::AnswerPart> parts;
    for (size_t at = 0; at < text.size();) {
        const size_t length = in_pieces ? 1 + static_cast<unsigned char>(text[at]) % 7 : text.size();
        parts = joined(std::move(parts), reader.push(text.substr(at, length)));
        at += length;
    }
    return joined(std::move(parts), reader.finish(cut));
}

void check_answer(std::string_view text) {
    static const std::vector<text::AnswerReaderOptions> known = readers();
    for (const text::AnswerReaderOptions& options : known) {
        const std::vector<text::AnswerPart> whole = read_answer(options, text, false);
        const std::vector<text::AnswerPart> pieces = read_answer(options, text, true);
        CHECK(read_answer(options, text, true, true).size() == read_answer(options, text, false, true).size());
        CHECK(whole.size() == pieces.size());
        for (size_t i = 0; i < whole.size(); ++i) {
            CHECK(whole[i].kind == pieces[i].kind && whole[i].text == pieces[i].text &&
                  whole[i].name == pieces[i].name);
            if (whole[i].kind == text::AnswerPart::Kind::call) CHECK(format::parse_json(whole[i].text, "arguments"));
        }
    }
    const std::vector<text::AnswerPart> plain = read_answer({.format = text::answer_format("")}, text, true);
    CHECK(text.empty() ? plain.empty() : plain.size() == 1 && plain[0].text == text);
}

// What an answer may consist of.
std::vector<Delta> deltas(const Ask& ask, const std::string& text) {
    std::vector<Delta> list(5);
    list[0].reasoning = text;
    list[1].content = text;
    list[2].tool_calls = {{.index = 0, .id = "c0", .name = text, .arguments = "{\"a\": 1}"}};
    list[3].logprobs = {{.chosen = {.text = text, .bytes = text, .logprob = -1},
                         .top = {{.text = text, .bytes = text, .logprob = -1}}}};
    list[4].end.emplace();
    list[4].end->stop_sequence = ask.stop.empty() ? "" : ask.stop.front();
    return list;
}

void check_stream(const std::string& stream) {
    for (size_t at = 0; at < stream.size();) {
        size_t end = stream.find('\n', at);
        CHECK(end != std::string::npos);
        std::string_view line = std::string_view(stream).substr(at, end - at);
        at = end + 1;
        if (line.starts_with("data: ")) line.remove_prefix(6);
        if (line.empty() || line.starts_with("event: ") || line == "[DONE]") continue;
        CHECK(format::parse_json(line, "event"));
    }
}

void check_writers(const Dialect& dialect, const Ask& ask, const std::string& text) {
    const AnswerHead head{.id = "x", .created_s = 1, .model = text};
    if (dialect.writer == nullptr) {
        CHECK(format::parse_json(dialect.embeddings(ask, head, {.vectors = {{1, 2}}}), "embeddings"));
        return;
    }
    const auto streaming = dialect.writer(ask, head);
    std::string stream = streaming->begin();
    WholeAnswer whole(1);
    for (const Delta& delta : deltas(ask, text)) {
        stream += streaming->write(delta);
        whole.add(delta);
    }
    stream += streaming->end();
    check_stream(stream);
    CHECK(format::parse_json(dialect.writer(ask, head)->whole(whole.choices()), "answer"));
}

void check_request(const Dialect& dialect, std::string_view body) {
    const Result<Json> json = format::parse_ordered_json(body, "body");
    if (!json) return;
    Reply<Ask> ask = dialect.parse(*json);
    const Reply<Ok> checked = ask ? check(*ask) : Reply<Ok>(ask.error());
    if (!checked) {
        CHECK(!checked.error().message.empty());
        CHECK(format::parse_json(dialect.error(checked.error()), "error"));
        return;
    }
    ask->n = 1;
    check_writers(dialect, *ask, std::string(body.substr(0, 40)));
}

// Lines of "name: value" after the target.
void check_head(std::string_view text) {
    RequestHead head{.method = "POST", .target = std::string(text.substr(0, text.find('\n')))};
    text.remove_prefix(std::min(head.target.size() + 1, text.size()));
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        const size_t colon = std::min(line.find(':'), line.size());
        head.headers.emplace_back(line.substr(0, colon), line.substr(std::min(colon + 1, line.size())));
    }
    if (const auto target = normalise_target(head.target)) {
        CHECK(target->path.starts_with('/') && target->path.find("//") == std::string::npos);
        CHECK((target->path + "/").find("/../") == std::string::npos);
    }
    const auto host = check_host(head, {.hosts = {"tandem.example"}});
    const auto origin = check_origin(head, {.origins = {"https://chat.example"}});
    if (origin && !origin->empty()) CHECK(origin->front().second == "https://chat.example");
    CHECK(host || host.error().status == 400 || host.error().status == 403);
    const auto key = presented_key(head);
    CHECK(key || key.error().status == 400 || key.error().status == 401);
    for (const auto& header : preflight_headers(head)) CHECK(header.second.find('\r') == std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    const size_t choice = data[0] % 16;  // a letter, so that corpora can be read: 'p' is 0
    if (choice < kDialectCount) {
        check_request(*kDialects[choice], text);
    } else if (choice == kDialectCount) {
        check_head(text);
    } else if (choice == kDialectCount + 1) {
        if (const auto keys = Keys::parse(text, "keys")) CHECK(!keys->empty());
    } else if (choice == 15) {
        check_request(kOllamaEmbeddings, text);
    } else {
        check_answer(text);
    }
    return 0;
}

}  // namespace tandem::server
