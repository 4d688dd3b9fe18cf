#include "server/guard.h"

#include <algorithm>
#include <cctype>

#include "text/utf8.h"

namespace tandem::server {

namespace {

constexpr size_t kMostTargetBytes = 8192;

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return result;
}

bool lists(const std::vector<std::string>& list, std::string_view item) {
    return std::find(list.begin(), list.end(), item) != list.end();
}

ApiError forbidden(std::string message) {
    return {.status = 403, .type = "permission_error", .message = std::move(message), .code = "forbidden"};
}

bool are_digits(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "localhost:8080" -> "localhost", "[::1]:80" -> "[::1]"; nothing when it is not of that form.
std::optional<std::string> host_name(std::string_view host) {
    const size_t end = host.starts_with('[') ? host.find(']') : host.find(':');
    if (host.starts_with('[') && end == std::string_view::npos) return std::nullopt;
    std::string_view name = host.substr(0, host.starts_with('[') ? end + 1 : end);
    const std::string_view rest = host.substr(name.size());
    if (!rest.empty() && (rest.front() != ':' || rest.size() < 2 || rest.size() > 6 || !are_digits(rest.substr(1))))
        return std::nullopt;
    if (name.ends_with('.')) name.remove_suffix(1);
    const auto is_fine = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
    };
    const bool literal = name.starts_with('[');
    const std::string_view inner = literal ? name.substr(1, name.size() - 2) : name;
    const bool fine = literal ? inner.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos
                              : std::all_of(inner.begin(), inner.end(), is_fine);
    if (inner.empty() || !fine) return std::nullopt;
    return lower(name);
}

// Exactly four numbers with dots: no name server can give such a name to somebody.
bool is_ipv4(std::string_view name) {
    for (int part = 0; part < 4; ++part) {
        const std::string_view number = name.substr(0, name.find('.'));
        if (number.empty() || number.size() > 3 || !are_digits(number)) return false;
        name.remove_prefix(number.size());
        if (part < 3 && !name.starts_with('.')) return false;
        if (part < 3) name.remove_prefix(1);
    }
    return name.empty();
}

// The host and port of "http://host:port"; nothing for "null" and other schemes.
std::optional<std::string> authority_of(std::string_view origin) {
    for (const std::string_view scheme : {"http://", "https://"}) {
        if (lower(origin.substr(0, scheme.size())) == scheme) return std::string(origin.substr(scheme.size()));
    }
    return std::nullopt;
}

int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

Reply<std::string> decode_path(std::string_view path) {
    std::string decoded;
    decoded.reserve(path.size());
    for (size_t i = 0; i < path.size(); ++i) {
        if (path[i] != '%') {
            decoded += path[i];
            continue;
        }
        const int high = i + 2 < path.size() ? hex_value(path[i + 1]) : -1;
        const int low = high >= 0 ? hex_value(path[i + 2]) : -1;
        if (low < 0) return bad_request("", "the path has a '%' that is not followed by two hexadecimal digits");
        decoded += static_cast<char>(high * 16 + low);
        i += 2;
    }
    return decoded;
}

}  // namespace

std::vector<std::string_view> RequestHead::all(std::string_view name) const {
    std::vector<std::string_view> values;
    for (const auto& [key, value] : headers) {
        if (key == name) values.emplace_back(value);
    }
    return values;
}

Reply<Ok> take_absolute_target(RequestHead& head) {
    const std::optional<std::string> rest = authority_of(head.target);
    if (!rest) return Ok{};
    const size_t end = std::min(rest->find_first_of("/?"), rest->size());
    const auto hosts = head.all("host");
    if (hosts.size() != 1 || lower(hosts.front()) != lower(rest->substr(0, end))) {
        return bad_request("", "the request names one server in its target and another in its Host header");
    }
    head.target = rest->substr(end);
    if (!head.target.starts_with('/')) head.target.insert(0, "/");
    return Ok{};
}

Reply<Ok> check_host(const RequestHead& head, const GuardRules& rules) {
    const auto hosts = head.all("host");
    if (hosts.size() != 1) return bad_request("", "a request must have one Host header, this one has {}", hosts.size());
    const std::optional<std::string> name = host_name(hosts.front());
    if (!name) return bad_request("", "the Host header is not a name or an address with a port");
    const bool is_local = *name == "localhost" || name->ends_with(".localhost");
    const bool is_address = is_ipv4(*name) || name->starts_with('[');
    if (is_local || is_address || lists(rules.hosts, *name) || lists(rules.hosts, "*")) return Ok{};
    return forbidden(
        fmt::format("this server does not answer to the name '{}': allow it with --allow-host {}", *name, *name));
}

Reply<Headers> check_origin(const RequestHead& head, const GuardRules& rules) {
    const auto origins = head.all("origin");
    const auto sites = head.all("sec-fetch-site");
    const auto modes = head.all("sec-fetch-mode");
    if (origins.size() > 1) return bad_request("", "a request must not have several Origin headers");
    if (origins.empty()) {
        // An image or a script of another site: it sends no origin, and no page of ours would do that.
        const bool follows_link = !modes.empty() && modes.front() == "navigate";
        if (sites.empty() || sites.front() != "cross-site" || follows_link) return Headers{};
        return forbidden("pages of other sites may not use this server");
    }
    const std::string origin(origins.front());
    const std::optional<std::string> authority = authority_of(origin);
    const auto hosts = head.all("host");
    if (authority && hosts.size() == 1 && lower(*authority) == lower(hosts.front())) return Headers{};
    if (!lists(rules.origins, origin) && !lists(rules.origins, "*")) {
        return forbidden(fmt::format("pages of '{}' may not use this server: allow them with --allow-origin {}",
                                     text::to_valid_utf8(origin.substr(0, 200)), "ORIGIN"));
    }
    return Headers{{"access-control-allow-origin", origin},
                   {"access-control-expose-headers", "x-request-id, x-tandem-prefix, retry-after"},
                   {"vary", "origin"}};
}

bool is_preflight(const RequestHead& head) {
    return head.method == "OPTIONS" && !head.all("origin").empty() &&
           !head.all("access-control-request-method").empty();
}

Headers preflight_headers(const RequestHead& head) {
    Headers headers = {{"access-control-allow-methods", "GET, HEAD, POST, DELETE, OPTIONS"},
                       {"access-control-max-age", "600"}};
    const auto wanted = head.all("access-control-request-headers");
    const auto is_fine = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == ',' || c == ' ';
    };
    // Clients in browsers send headers of their own; a page that is allowed may send any.
    if (wanted.size() == 1 && std::all_of(wanted.front().begin(), wanted.front().end(), is_fine))
        headers.emplace_back("access-control-allow-headers", wanted.front());
    return headers;
}

Reply<Target> normalise_target(std::string_view target) {
    if (target.size() > kMostTargetBytes) {
        return ApiError{.status = 414,
                        .message = fmt::format("the path has {} bytes; at most {}", target.size(), kMostTargetBytes)};
    }
    if (!target.starts_with('/')) return bad_request("", "the request must name a path that begins with a slash");
    const size_t mark = target.find('?');
    std::string path = TRY(decode_path(target.substr(0, mark)));
    const auto is_control = [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\' || c == '#';
    };
    if (std::any_of(path.begin(), path.end(), is_control) || !text::is_valid_utf8(path))
        return bad_request("", "the path has characters that no path of this server has");
    if (path.size() > 2 && path.ends_with('/')) path.pop_back();
    for (std::string_view rest = path; !rest.empty() && path != "/";) {
        rest.remove_prefix(1);
        const std::string_view part = rest.substr(0, rest.find('/'));
        if (part.empty() || part == "." || part == "..")
            return bad_request("", "the path has an empty part, '.' or '..': write it without");
        rest.remove_prefix(part.size());
    }
    std::string query(mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1));
    return Target{.path = std::move(path), .query = std::move(query)};
}

Reply<std::optional<std::string>> presented_key(const RequestHead& head) {
    const auto bearers = head.all("authorization");
    const auto plain = head.all("x-api-key");
    if (bearers.size() + plain.size() > 1 && !(bearers.size() == 1 && plain.size() == 1))
        return bad_request("", "a request must present one key");
    std::optional<std::string> key;
    if (!bearers.empty()) {
        constexpr std::string_view kBearer = "bearer ";
        const std::string_view value = bearers.front();
        if (lower(value.substr(0, kBearer.size())) != kBearer)
            return ApiError{.status = 401,
                            .type = "authentication_error",
                            .message = "Authorization must be `Bearer KEY`",
                            .code = "invalid_api_key"};
        key = std::string(value.substr(kBearer.size()));
    }
    if (!plain.empty()) {
        // Some clients send their key both ways; two different ones are a trick.
        if (key && *key != plain.front())
            return bad_request("", "a request must present one key, not two different ones");
        key = std::string(plain.front());
    }
    return key;
}

}  // namespace tandem::server
