// Http: requests to the Hub and to where it sends us, through libcurl; the token goes to the Hub alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "hub/places.h"

using CURL = void;  // as curl/curl.h has it

namespace tandem::hub {

// The headers of one answer, by their names in lower case; of several of one name the last.
class AnswerHeaders {
  public:
    // A line as it came. A status line begins a new answer.
    void add_line(std::string_view line);
    // Empty when there is no such header.
    std::string_view find(std::string_view name) const;

  private:
    std::map<std::string, std::string, std::less<>> values_;
};

struct HttpAnswer {
    int status = 0;
    AnswerHeaders headers = {};
    std::string body = {};
    std::string url = {};  // that gave it
};

// What one attempt came to: an answer, or why there was none.
struct Attempt {
    HttpAnswer answer;
    std::string failure;     // of the line, in words; empty: there is an answer
    bool may_retry = false;  // a failure that may pass
};

// Whether somebody wants the work to end. From the thread that works.
using Stop = std::function<bool()>;

struct HttpOptions {
    Places places = {};
    int tries = 5;  // without a new byte
    std::chrono::milliseconds first_wait{500};
    std::chrono::seconds stall{30};  // a line that brings nothing for so long is taken for cut
    Stop stop = [] { return false; };
};

class Http {
  public:
    explicit Http(HttpOptions options);

    const HttpOptions& options() const { return options_; }

    // A small answer, redirects followed; tried again where that may help. Every status but 200 is an error.
    Result<HttpAnswer> get(const std::string& url);
    // The first byte of a file. A redirect to elsewhere is not followed: `url` is then where it leads to, a place that
    // is only good for a while.
    Result<HttpAnswer> probe(const std::string& url);

    // A handle with everything set that all requests share; the token only where it belongs.
    struct Handle {
        std::shared_ptr<CURL> curl;
        std::shared_ptr<void> headers;  // that the request sends
    };
    Handle make_handle(const std::string& url) const;

    // How long to wait before the attempt after `failed` ones, given the answer to the last.
    std::chrono::milliseconds wait_after(int failed, const AnswerHeaders& headers) const;
    // Sleeps, unless the work is to end: then an error.
    Status wait(std::chrono::milliseconds time) const;

    // What a status means for the user.
    Error explain(const HttpAnswer& answer) const;

  private:
    Attempt attempt(const std::string& url, bool one_byte) const;
    Result<HttpAnswer> persist(const std::string& url, bool one_byte) const;
    bool is_hub(std::string_view url) const;

    HttpOptions options_;
};

// A status that may be another one soon.
bool may_pass(int status);
// "scheme://host:port" of an address.
std::string_view origin_of(std::string_view url);
// An address that an answer of `base` gave, made absolute.
std::string resolve_url(std::string_view base, std::string_view location);
// The error of work that somebody ended.
Error stopped_error();
bool is_stopped(const Error& error);

}  // namespace tandem::hub
