// Guard: which requests a browser may have been tricked into, and what a path and a key really are, before any route.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/reply.h"

namespace tandem::server {

using Headers = std::vector<std::pair<std::string, std::string>>;

// What the rules look at.
struct RequestHead {
    std::string method = {};
    std::string target = {};
    Headers headers = {};  // names in lower case; one that was sent twice is here twice

    std::vector<std::string_view> all(std::string_view name) const;
};

struct GuardRules {
    std::vector<std::string> hosts = {};    // by which names the server may be called, beside localhost and addresses
    std::vector<std::string> origins = {};  // whose pages may read answers: "https://chat.example.org", or "*" for all
};

// `GET http://name/path`, as proxies get it: its name is that of the Host header, and its path the target.
Reply<Ok> take_absolute_target(RequestHead& head);

// Refuses a name that is not the server's own: a page whose name is made to point here (DNS rebinding) sends its own.
Reply<Ok> check_host(const RequestHead& head, const GuardRules& rules);

// Refuses what the page of another site sends, unless it is in the list. The headers are for the answer: none, or those
// that let the page read it.
Reply<Headers> check_origin(const RequestHead& head, const GuardRules& rules);

// Whether a browser only asks what it may send (CORS); the headers answer it when check_origin() has agreed.
bool is_preflight(const RequestHead& head);
Headers preflight_headers(const RequestHead& head);

struct Target {
    std::string path;   // decoded; starts with a slash, does not end with one, has no empty part, "." or ".."
    std::string query;  // without the question mark, as it is
};

// The one form of a path that rules and routes see.
Reply<Target> normalise_target(std::string_view target);

// The key of `Authorization: Bearer`, or of `x-api-key`. Nothing if there is none; an error if there are several, so
// that nobody else along the way can have looked at another one.
Reply<std::optional<std::string>> presented_key(const RequestHead& head);

}  // namespace tandem::server
