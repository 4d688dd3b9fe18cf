#include "server/framing.h"

#include <algorithm>

namespace tandem::server {

namespace {

std::string lower_coding(std::string_view text) {
    const size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
    const size_t end = text.find_last_not_of(" \t") + 1;
    std::string result(text.substr(begin, end > begin ? end - begin : 0));
    for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return result;
}

// Of all headers, in order: several of them are one list.
std::vector<std::string> codings_of(const std::vector<std::string_view>& values) {
    std::vector<std::string> codings;
    for (std::string_view rest : values) {
        for (;;) {
            const size_t comma = rest.find(',');
            codings.push_back(lower_coding(rest.substr(0, comma)));
            if (comma == std::string_view::npos) break;
            rest.remove_prefix(comma + 1);
        }
    }
    return codings;
}

Reply<Framing> framing_of_codings(const std::vector<std::string>& codings) {
    if (codings == std::vector<std::string>{"chunked"}) return Framing::chunks;
    const auto chunked = std::count(codings.begin(), codings.end(), "chunked");
    const bool has_empty = std::count(codings.begin(), codings.end(), "") > 0;
    if (chunked != 1 || codings.back() != "chunked" || has_empty) {
        return bad_request("", "Transfer-Encoding does not end in one 'chunked': nobody can tell where the body ends");
    }
    return ApiError{.status = 501, .message = "the only Transfer-Encoding of this server is 'chunked'"};
}

}  // namespace

Reply<Framing> framing_of(const RequestHead& head, bool is_http_1_0) {
    const auto encodings = head.all("transfer-encoding");
    const auto lengths = head.all("content-length");
    if (!encodings.empty()) {
        if (!lengths.empty()) return bad_request("", "a request has a Content-Length or a Transfer-Encoding, not both");
        if (is_http_1_0) return bad_request("", "HTTP/1.0 has no Transfer-Encoding: send a Content-Length");
        return framing_of_codings(codings_of(encodings));
    }
    if (lengths.empty()) return Framing::no_body;
    const std::string_view length = lengths.front();
    if (lengths.size() > 1) return bad_request("", "a request has one Content-Length, not {}", lengths.size());
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (length.empty() || !std::all_of(length.begin(), length.end(), is_digit)) {
        return bad_request("", "Content-Length must be a number of bytes, in digits alone");
    }
    const bool is_zero = length.find_first_not_of('0') == std::string_view::npos;
    return is_zero ? Framing::no_body : Framing::length;
}

}  // namespace tandem::server
