#include "hub/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <thread>

namespace tandem::hub {

namespace {

constexpr size_t kMostBodyBytes = size_t{64} << 20;
constexpr size_t kMostHeaderBytes = size_t{256} << 10;
constexpr int kMostRedirects = 10;
constexpr std::chrono::milliseconds kLongestWait{60'000};
constexpr std::chrono::milliseconds kNap{50};
constexpr std::string_view kStopped = "stopped";
constexpr const char* kUserAgent = "tandem";

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return result;
}

std::string_view trim(std::string_view text) {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
    return text;
}

// What a server says, on one line and short.
std::string shown(std::string_view text) {
    std::string line;
    for (const char c : text.substr(0, 300)) line += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    return std::string(trim(line));
}

std::optional<int> number_of(std::string_view text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end == text.data() || value < 0) return std::nullopt;
    return value;
}

// Collects one answer.
struct Receiver {
    HttpAnswer* answer;
    size_t header_bytes = 0;
    bool wants_body = true;
};

size_t on_header(char* data, size_t size, size_t count, void* user) {
    auto& receiver = *static_cast<Receiver*>(user);
    receiver.header_bytes += size * count;
    if (receiver.header_bytes > kMostHeaderBytes) return 0;
    receiver.answer->headers.add_line({data, size * count});
    return size * count;
}

size_t on_body(char* data, size_t size, size_t count, void* user) {
    auto& receiver = *static_cast<Receiver*>(user);
    std::string& body = receiver.answer->body;
    if (!receiver.wants_body || body.size() + size * count > kMostBodyBytes) return 0;  // ends the transfer
    body.append(data, size * count);
    return size * count;
}

int on_tick(void* user, curl_off_t /*total*/, curl_off_t /*now*/, curl_off_t /*to_send*/, curl_off_t /*sent*/) {
    return (*static_cast<const Stop*>(user))() ? 1 : 0;
}

bool line_may_mend(CURLcode code) {
    switch (code) {
        case CURLE_COULDNT_RESOLVE_HOST:
        case CURLE_COULDNT_RESOLVE_PROXY:
        case CURLE_COULDNT_CONNECT:
        case CURLE_PARTIAL_FILE:
        case CURLE_OPERATION_TIMEDOUT:
        case CURLE_SSL_CONNECT_ERROR:
        case CURLE_GOT_NOTHING:
        case CURLE_SEND_ERROR:
        case CURLE_RECV_ERROR:
            return true;
        default:
            return false;
    }
}

// "https://huggingface.co/org/name" of any address of a repository.
std::string page_of(std::string_view url) {
    std::string_view path = url.substr(origin_of(url).size());
    constexpr std::string_view kApi = "/api/models";
    if (path.starts_with(kApi)) path.remove_prefix(kApi.size());
    const size_t name = path.find('/', 1);
    const size_t end = name == std::string_view::npos ? name : path.find('/', name + 1);
    return std::string(origin_of(url)) + std::string(path.substr(0, end));
}

struct CurlGlobal {
    CurlGlobal() { curl_global_init(CURL_GLOBAL_DEFAULT); }
};

}  // namespace

void AnswerHeaders::add_line(std::string_view line) {
    if (line.starts_with("HTTP/")) {
        values_.clear();
        return;
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    values_[lower(trim(line.substr(0, colon)))] = trim(line.substr(colon + 1));
}

std::string_view AnswerHeaders::find(std::string_view name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::string_view() : std::string_view(found->second);
}

bool may_pass(int status) {
    return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

std::string_view origin_of(std::string_view url) {
    const size_t scheme = url.find("://");
    if (scheme == std::string_view::npos) return {};
    return url.substr(0, url.find_first_of("/?#", scheme + 3));
}

std::string resolve_url(std::string_view base, std::string_view location) {
    if (location.find("://") != std::string_view::npos) return std::string(location);
    if (location.starts_with("//")) return std::string(base.substr(0, base.find(':') + 1)) + std::string(location);
    if (location.starts_with('/')) return std::string(origin_of(base)) + std::string(location);
    return std::string(base.substr(0, base.find_last_of('/') + 1)) + std::string(location);
}

Error stopped_error() {
    return Error{std::string(kStopped)};
}

bool is_stopped(const Error& error) {
    return error.message == kStopped;
}

Http::Http(HttpOptions options) : options_(std::move(options)) {
    static const CurlGlobal once;
}

bool Http::is_hub(std::string_view url) const {
    return origin_of(url) == origin_of(options_.places.endpoint);
}

Http::Handle Http::make_handle(const std::string& url) const {
    Handle handle{.curl = std::shared_ptr<CURL>(curl_easy_init(), curl_easy_cleanup), .headers = nullptr};
    CURL* const curl = handle.curl.get();
    CHECK(curl != nullptr, "libcurl has memory for a handle");
    curl_slist* headers = curl_slist_append(nullptr, "Accept-Encoding: identity");
    if (!options_.places.token.empty() && is_hub(url)) {
        headers = curl_slist_append(headers, ("Authorization: Bearer " + options_.places.token).c_str());
    }
    handle.headers =
        std::shared_ptr<void>(headers, [](void* list) { curl_slist_free_all(static_cast<curl_slist*>(list)); });
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, kUserAgent);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 15L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.stall.count()));
    // A connection for each stream: over one of HTTP/2 they would share its window.
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    if (!options_.places.certificates.empty()) {
        curl_easy_setopt(curl, CURLOPT_CAINFO, options_.places.certificates.c_str());
    }
    return handle;
}

Attempt Http::attempt(const std::string& url, bool one_byte) const {
    Attempt result;
    result.answer.url = url;
    const Handle handle = make_handle(url);
    CURL* const curl = handle.curl.get();
    Receiver receiver{.answer = &result.answer, .wants_body = !one_byte};
    char reason[CURL_ERROR_SIZE] = "";
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &receiver);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &receiver);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_tick);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &options_.stop);
    if (one_byte) curl_easy_setopt(curl, CURLOPT_RANGE, "0-0");

    const CURLcode code = curl_easy_perform(curl);
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    result.answer.status = static_cast<int>(status);
    const bool is_answered = code == CURLE_OK || (one_byte && code == CURLE_WRITE_ERROR && status > 0);
    if (is_answered) return result;
    const char* const said = *reason != '\0' ? reason : curl_easy_strerror(code);
    result.failure = fmt::format("{}: {}", origin_of(url).empty() ? url : origin_of(url), said);
    result.may_retry = line_may_mend(code);
    return result;
}

Result<HttpAnswer> Http::persist(const std::string& url, bool one_byte) const {
    if (options_.places.offline) {
        return fail("{}: HF_HUB_OFFLINE is set, so nothing is fetched: unset it, or use a model that is here", url);
    }
    for (int failed = 0;;) {
        if (options_.stop()) return stopped_error();
        Attempt attempt = this->attempt(url, one_byte);
        if (attempt.failure.empty() && !may_pass(attempt.answer.status)) return std::move(attempt.answer);
        if (options_.stop()) return stopped_error();
        const bool is_last = ++failed >= options_.tries || (!attempt.failure.empty() && !attempt.may_retry);
        if (is_last && attempt.failure.empty()) return std::move(attempt.answer);
        if (is_last) {
            return fail("{}{}: check the network, a proxy (https_proxy) or a mirror (HF_ENDPOINT)", attempt.failure,
                        failed > 1 ? fmt::format(" ({} times)", failed) : "");
        }
        TRY(wait(wait_after(failed, attempt.answer.headers)));
    }
}

Result<HttpAnswer> Http::get(const std::string& url) {
    std::string at = url;
    for (int hops = 0; hops < kMostRedirects; ++hops) {
        HttpAnswer answer = TRY(persist(at, false));
        const std::string_view location = answer.headers.find("location");
        const bool redirects = answer.status >= 300 && answer.status < 400 && !location.empty();
        if (redirects) {
            at = resolve_url(at, location);
            continue;
        }
        if (answer.status != 200) return explain(answer);
        return answer;
    }
    return fail("{}: redirected more than {} times", url, kMostRedirects);
}

Result<HttpAnswer> Http::probe(const std::string& url) {
    std::string at = url;
    for (int hops = 0; hops < kMostRedirects; ++hops) {
        HttpAnswer answer = TRY(persist(at, true));
        const std::string_view location = answer.headers.find("location");
        const bool redirects = answer.status >= 300 && answer.status < 400 && !location.empty();
        if (!redirects) {
            const bool is_empty_file = answer.status == 416 && answer.headers.find("content-range") == "bytes */0";
            if (answer.status != 200 && answer.status != 206 && !is_empty_file) return explain(answer);
            return answer;
        }
        const std::string next = resolve_url(at, location);
        if (is_hub(at) && !is_hub(next)) {  // what the Hub said about the file, and where to get it
            answer.url = next;
            return answer;
        }
        at = next;
    }
    return fail("{}: redirected more than {} times", url, kMostRedirects);
}

std::chrono::milliseconds Http::wait_after(int failed, const AnswerHeaders& headers) const {
    // RateLimit: "resolvers";r=0;t=55
    const std::string_view limit = headers.find("ratelimit");
    const size_t reset = limit.find(";t=");
    std::optional<int> seconds;
    if (reset != std::string_view::npos) seconds = number_of(limit.substr(reset + 3));
    if (seconds) seconds = *seconds + 1;
    if (!seconds) seconds = number_of(headers.find("retry-after"));
    if (seconds)
        return std::min(std::chrono::milliseconds(std::chrono::seconds(std::min(*seconds, 3600))),
                        std::chrono::milliseconds(std::chrono::minutes(10)));
    return std::min(options_.first_wait * (1 << std::min(failed - 1, 10)), kLongestWait);
}

Status Http::wait(std::chrono::milliseconds time) const {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
        if (options_.stop()) return stopped_error();
        std::this_thread::sleep_for(std::min(kNap, time));
    }
    return Ok{};
}

Error Http::explain(const HttpAnswer& answer) const {
    const std::string code(answer.headers.find("x-error-code"));
    const std::string said = shown(answer.headers.find("x-error-message"));
    const std::string words = said.empty() ? "" : fmt::format(" ({})", said);
    const bool has_token = !options_.places.token.empty();
    const std::string where = answer.url.substr(0, answer.url.find('?'));  // what follows may be a signature
    if (code == "GatedRepo") {
        return fail("the model is behind terms{}: accept them at {}, then {}", words, page_of(where),
                    has_token ? "use a token of that account" : "set HF_TOKEN to a token of that account");
    }
    if (code == "RepoNotFound" && has_token) {
        return fail("{}: there is no such repository, or the token may not read it", where);
    }
    if (answer.status == 401) {
        return fail("{}: {}", where,
                    has_token ? "the token is not accepted: log in again, or set HF_TOKEN to a valid one"
                              : "there is no such repository, or it is private or behind terms: check the name, or "
                                "set HF_TOKEN to a token of an account that may read it");
    }
    if (answer.status == 403) return fail("{}: access is forbidden{}: check the token in HF_TOKEN", where, words);
    if (code == "RevisionNotFound") return fail("{}: there is no such revision of the repository", where);
    if (answer.status == 404) return fail("{}: there is no such file or repository{}", where, words);
    if (answer.status == 429) return fail("{}: too many requests: wait some minutes, or set HF_TOKEN", where);
    if (answer.status >= 500) return fail("{}: the server has a fault (status {}){}", where, answer.status, words);
    return fail("{}: unexpected status {}{}", where, answer.status, words);
}

}  // namespace tandem::hub
