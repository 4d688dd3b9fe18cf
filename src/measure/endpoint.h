// Endpoint: an OpenAI-compatible server that is measured or watched, and single requests to it.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "hub/http.h"

namespace tandem::measure {

struct Endpoint {
    std::string url;  // without a slash or /v1 at its end
    std::string key;  // empty: none
};

// `url` as people write it: "localhost:8080", "http://host:8080/v1/". The key is the first word of the file; of an
// empty name there is none.
Result<Endpoint> make_endpoint(const std::string& url, const std::filesystem::path& key_file);

// For requests that nobody tries again: what the server does is what is measured. The key goes to this server alone.
hub::Http make_http(const Endpoint& endpoint, std::chrono::seconds patience);

struct EndpointReply {
    int status = 0;  // 0: there was no answer
    std::string body;
    std::string failure;  // why there was none
};

EndpointReply get_from(const Endpoint& endpoint, std::string_view path, std::chrono::seconds patience);

// The model that the server names first.
Result<std::string> first_model_of(const Endpoint& endpoint);

}  // namespace tandem::measure
