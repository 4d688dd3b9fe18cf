// The alphabet of byte-level BPE: a printable character for each byte, as GPT-2 chose them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem::text {

// Appends the character of every byte of `bytes`.
void append_byte_level(std::string_view bytes, std::string& out);

// Back to bytes; nothing when a character is not of the alphabet.
std::optional<std::string> parse_byte_level(std::string_view text);

}  // namespace tandem::text
