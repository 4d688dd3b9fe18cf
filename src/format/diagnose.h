// Words for error messages about files that are not what they should be.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tandem::format {

// 'text', shortened and with anything but printable ASCII escaped: names in hostile files must not reach a terminal.
std::string quote(std::string_view text);

// Only printable ASCII, as keys and names of tensors are.
bool is_printable(std::string_view text);

// What a file that is no model seems to be, with the remedy; "" when nothing is known of it.
std::string_view likely_mistake(std::span<const std::byte> bytes);

}  // namespace tandem::format
