#include "measure/endpoint.h"

#include <curl/curl.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "format/json.h"

namespace tandem::measure {

namespace {

constexpr size_t kMostReplyBytes = size_t{16} << 20;

size_t keep_body(char* data, size_t size, size_t count, void* user) {
    auto& body = *static_cast<std::string*>(user);
    if (body.size() + size * count > kMostReplyBytes) return 0;  // ends the transfer
    body.append(data, size * count);
    return size * count;
}

}  // namespace

Result<Endpoint> make_endpoint(const std::string& url, const std::filesystem::path& key_file) {
    Endpoint endpoint{.url = url.find("://") == std::string::npos ? "http://" + url : url, .key = {}};
    const bool is_web = endpoint.url.starts_with("http://") || endpoint.url.starts_with("https://");
    if (!is_web || endpoint.url.find_first_of(" \t\n\"<>?#@") != std::string::npos)
        return fail("{}: is no address of a server: give one like http://localhost:8080", url);
    while (endpoint.url.ends_with('/')) endpoint.url.pop_back();
    if (endpoint.url.ends_with("/v1")) endpoint.url.resize(endpoint.url.size() - 3);
    if (key_file.empty()) return endpoint;
    constexpr size_t kMostKeyBytes = size_t{64} << 10;
    const std::string text = TRY(read_text_file(key_file, kMostKeyBytes));
    const size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string::npos) return fail("{}: is empty, a key was expected in it", key_file.string());
    endpoint.key = text.substr(begin, text.find_first_of(" \t\r\n", begin) - begin);
    return endpoint;
}

hub::Http make_http(const Endpoint& endpoint, std::chrono::seconds patience) {
    hub::HttpOptions options;
    options.places = hub::Places{};
    options.places.endpoint = endpoint.url;
    options.places.token = endpoint.key;
    options.tries = 1;
    options.stall = patience;
    return hub::Http(std::move(options));
}

EndpointReply get_from(const Endpoint& endpoint, std::string_view path, std::chrono::seconds patience) {
    EndpointReply reply;
    const hub::Http http = make_http(endpoint, patience);
    const hub::Http::Handle handle = http.make_handle(endpoint.url + std::string(path));
    CURL* const curl = handle.curl.get();
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, keep_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &reply.body);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, static_cast<long>(patience.count()));
    const CURLcode code = curl_easy_perform(curl);
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK) {
        reply.status = static_cast<int>(status);
    } else {
        reply.failure = curl_easy_strerror(code);
    }
    return reply;
}

Result<std::string> first_model_of(const Endpoint& endpoint) {
    constexpr std::chrono::seconds kPatience{15};
    const EndpointReply reply = get_from(endpoint, "/v1/models", kPatience);
    if (reply.status == 0) return fail("{}: does not answer: {}", endpoint.url, reply.failure);
    if (reply.status == 401 || reply.status == 403)
        return fail("{}: {}", endpoint.url,
                    endpoint.key.empty() ? "wants a key: give a file with it by --key" : "does not accept the key");
    const nlohmann::json json = nlohmann::json::parse(reply.body, nullptr, false);
    const nlohmann::json::json_pointer name("/data/0/id");
    if (reply.status != 200 || json.is_discarded() || !json.contains(name) || !json.at(name).is_string())
        return fail("{}/v1/models: names no model (status {}): name one by --model", endpoint.url, reply.status);
    return json.at(name).get<std::string>();
}

}  // namespace tandem::measure
