#include "text/byte_level.h"

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace tandem::text {

namespace {

// Printable Latin-1 bytes stand for themselves, the others for the characters from U+0100 on.
struct Alphabet {
    std::array<std::string, 256> characters;
    std::array<int16_t, 512> bytes;  // by code point; -1: none

    Alphabet() {
        bytes.fill(-1);
        uint32_t next = 0x100;
        for (uint32_t byte = 0; byte < 256; ++byte) {
            const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
            const uint32_t code = printable ? byte : next++;
            append_utf8(characters[byte], code);
            bytes[code] = static_cast<int16_t>(byte);
        }
    }
};

const Alphabet& alphabet() {
    static const Alphabet instance;
    return instance;
}

}  // namespace

void append_byte_level(std::string_view bytes, std::string& out) {
    const Alphabet& letters = alphabet();
    for (const char byte : bytes) out += letters.characters[static_cast<unsigned char>(byte)];
}

std::optional<std::string> parse_byte_level(std::string_view text) {
    const Alphabet& letters = alphabet();
    std::string out;
    while (!text.empty()) {
        const Utf8Char next = decode_utf8(text);
        if (!next.valid || next.code >= letters.bytes.size() || letters.bytes[next.code] < 0) return std::nullopt;
        out += static_cast<char>(letters.bytes[next.code]);
        text.remove_prefix(next.length);
    }
    return out;
}

}  // namespace tandem::text
