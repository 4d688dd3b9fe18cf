// The formats of strings that JSON Schema names, as patterns.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem::text::grammar {

// An anchored pattern whose texts all have the format; some of a format's texts may be left out, such as host names of
// full length. Nothing for unknown formats.
std::optional<std::string> pattern_of_format(std::string_view format);

std::string known_formats();

}  // namespace tandem::text::grammar
