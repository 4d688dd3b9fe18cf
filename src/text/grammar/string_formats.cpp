#include "text/grammar/string_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tandem::text::grammar {

namespace {

// From 0001 on: many readers have no year 0.
constexpr std::string_view kYear = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])";
constexpr std::string_view kLeapYear =
    "(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";

std::string date() {
    return "(?:" + std::string(kYear) +
           "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
           "02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
           std::string(kLeapYear) + "-02-29)";
}

std::string time() {
    const std::string hours_and_minutes = "(?:[01][0-9]|2[0-3]):[0-5][0-9]";
    return hours_and_minutes + ":[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-]" + hours_and_minutes + ")";
}

std::string duration() {
    const std::string time_part =
        "T(?:[0-9]{1,6}H(?:[0-9]{1,6}M(?:[0-9]{1,6}S)?)?|[0-9]{1,6}M(?:[0-9]{1,6}S)?|[0-9]{1,6}S)";
    const std::string date_part =
        "(?:[0-9]{1,6}Y(?:[0-9]{1,6}M(?:[0-9]{1,6}D)?)?|[0-9]{1,6}M(?:[0-9]{1,6}D)?|[0-9]{1,6}D)";
    return "P(?:[0-9]{1,6}W|" + date_part + "(?:" + time_part + ")?|" + time_part + ")";
}

std::string ipv4() {
    const std::string byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    return byte + "(?:\\." + byte + "){3}";
}

// Eight groups; or "::" for at least one of them.
std::string ipv6() {
    const std::string group = "[0-9A-Fa-f]{1,4}";
    std::string all = "(?:" + group + ":){7}" + group;
    for (int before = 0; before <= 7; ++before) {
        const std::string head = before == 0 ? ":" : fmt::format("{0}(?::{0}){{{1}}}:", group, before - 1);
        const int after = 7 - before;
        all += fmt::format("|{}:", head);
        if (after > 0) all += fmt::format("(?:{0}(?::{0}){{0,{1}}})?", group, after - 1);
    }
    return "(?:" + all + ")";
}

// 1 to `longest` characters. Two hyphens as its third and fourth are for names in Punycode, such as "xn--...", which
// few texts of that form are: they are left out.
std::string label(int longest, std::string_view first = "[A-Za-z0-9]") {
    return fmt::format("{0}(?:{2}{{0,2}}{1}|{2}(?:{1}{2}|-{1}){2}{{0,{3}}}{1})?", first, "[A-Za-z0-9]", "[A-Za-z0-9-]",
                       longest - 5);
}

// At most 191 characters.
std::string hostname() {
    return label(63) + "(?:\\." + label(63) + "){0,2}";
}

std::string email() {
    const std::string atom = "[A-Za-z0-9_+-]{1,30}";
    return atom + "(?:\\." + atom + ")?@" + label(32) + "(?:\\." + label(32) + "){0,2}\\.[A-Za-z]{2,18}";
}

// The last part of a host's name begins with a letter: readers take one of digits for an address.
std::string uri() {
    const std::string character = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
    const std::string host = "(?:(?:" + label(32) + "\\.){0,3}" + label(32, "[A-Za-z]") + "|" + ipv4() + ")";
    return "[A-Za-z][A-Za-z0-9+.-]{0,15}://" + host + "(?::[0-9]{1,4})?(?:/" + character + "*)*(?:\\?(?:" + character +
           "|[/?])*)?(?:#(?:" + character + "|[/?])*)?";
}

using Format = std::pair<std::string_view, std::string (*)()>;

constexpr std::array<Format, 10> kFormats = {{
    {"date-time", [] { return date() + "T" + time(); }},
    {"date", date},
    {"time", time},
    {"duration", duration},
    {"uuid", [] { return std::string("[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"); }},
    {"email", email},
    {"hostname", hostname},
    {"ipv4", ipv4},
    {"ipv6", ipv6},
    {"uri", uri},
}};

}  // namespace

std::optional<std::string> pattern_of_format(std::string_view format) {
    const auto found =
        std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& known) { return known.first == format; });
    if (found == kFormats.end()) return std::nullopt;
    return "^" + found->second() + "$";
}

std::string known_formats() {
    std::string names;
    for (const Format& format : kFormats) {
        if (!names.empty()) names += ", ";
        names += format.first;
    }
    return names;
}

}  // namespace tandem::text::grammar
