// Takes the streams of writers apart, for tests.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "server/ask.h"
#include "server/delta.h"

namespace tandem::server {

// The data of all events; names that do not agree with the type in the data are an empty object.
inline std::vector<Json> events_of(const std::string& stream) {
    std::vector<Json> events;
    std::istringstream in(stream);
    std::string name;
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with("event: ")) name = line.substr(7);
        if (line.starts_with("data: ")) {
            Json data = Json::parse(line.substr(6));
            events.push_back(data["type"] == name ? data : Json::object());
        }
    }
    return events;
}

inline std::vector<std::string> types_of(const std::vector<Json>& events) {
    std::vector<std::string> types;
    types.reserve(events.size());
    for (const Json& event : events) types.push_back(event.value("type", "?"));
    return types;
}

inline Delta text_delta(const std::string& content, const std::string& reasoning = {}) {
    Delta delta;
    delta.content = content;
    delta.reasoning = reasoning;
    return delta;
}

inline Delta call_delta(int index, const std::string& id, const std::string& name, const std::string& arguments) {
    Delta delta;
    delta.tool_calls = {{.index = index, .id = id, .name = name, .arguments = arguments}};
    return delta;
}

inline Delta end_delta(EndReason reason) {
    Delta delta;
    delta.end.emplace();
    delta.end->reason = reason;
    delta.end->usage = {.prompt_tokens = 11, .cached_tokens = 4, .generated_tokens = 5};
    delta.end->reasoning_tokens = 3;
    delta.end->timing = {.queue = 0.5, .prefill = 1, .decode = 2, .first_token = 1.5};
    return delta;
}

// All of a stream.
inline std::string stream_of(Writer& writer, const std::vector<Delta>& deltas) {
    std::string stream = writer.begin();
    for (const Delta& delta : deltas) stream += writer.write(delta);
    stream += writer.end();
    return stream;
}

inline std::string whole_of(Writer& writer, const std::vector<Delta>& deltas) {
    WholeAnswer whole(1);
    for (const Delta& delta : deltas) whole.add(delta);
    return writer.whole(whole.choices());
}

}  // namespace tandem::server
