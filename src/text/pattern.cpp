#include "text/pattern.h"

#include "text/utf8.h"

namespace tandem::text {

Result<Pattern> Pattern::regex(std::string_view expression) {
    return Pattern(TRY(Regex::compile(expression)));
}

void Pattern::find_all(std::string_view text, std::vector<ByteRange>& matches) const {
    matches.clear();
    if (const auto* regex = std::get_if<Regex>(&what_)) {
        regex->find_all(text, matches);
    } else if (const auto* literal = std::get_if<std::string>(&what_)) {
        if (literal->empty()) return;
        for (size_t at = text.find(*literal); at != std::string_view::npos; at = text.find(*literal, at)) {
            matches.push_back({at, at + literal->size()});
            at += literal->size();
        }
    } else {
        const auto& test = *std::get_if<CharTest>(&what_);
        for (size_t at = 0; at < text.size();) {
            const Utf8Char next = decode_utf8(text.substr(at));
            if (test(next.code)) matches.push_back({at, at + next.length});
            at += next.length;
        }
    }
}

std::string Pattern::replace(std::string_view text, std::string_view replacement) const {
    std::vector<ByteRange> matches;
    find_all(text, matches);
    std::string out;
    out.reserve(text.size());
    size_t at = 0;
    for (const ByteRange& match : matches) {
        out += text.substr(at, match.begin - at);
        out += replacement;
        at = match.end;
    }
    return out += text.substr(at);
}

}  // namespace tandem::text
