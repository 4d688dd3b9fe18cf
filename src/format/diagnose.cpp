#include "format/diagnose.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::format {

namespace {

bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool is_text(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return is_blank(c) || (c >= ' ' && c <= '~'); });
}

// <!DOCTYPE html>, <html>, <?xml ...>, whatever stands before it.
bool begins_a_page(std::string_view text) {
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    std::string lower(text.substr(0, 16));
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return lower.starts_with("<!doctype") || lower.starts_with("<html") || lower.starts_with("<head") ||
           lower.starts_with("<?xml");
}

}  // namespace

std::string quote(std::string_view text) {
    constexpr size_t kShown = 96;
    std::string out = "'";
    for (char c : text.substr(0, kShown)) {
        if (c >= ' ' && c <= '~') {
            out += c;
        } else {
            out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
    }
    if (text.size() > kShown) out += "...";
    return out + "'";
}

bool is_printable(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

std::string_view likely_mistake(std::span<const std::byte> bytes) {
    constexpr size_t kLooked = 256;
    const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kLooked));
    if (start.empty()) return ": it is empty, download it again";
    if (start.find_first_not_of('\0') == std::string_view::npos)
        return ": it begins with nothing but zeros, the download is incomplete";
    if (start.starts_with("version https://git-lfs"))
        return ": it is a Git LFS pointer, fetch the file with git lfs pull";
    if (begins_a_page(start)) return ": it is a web page, download the file itself";
    if (start.starts_with("ggml") || start.starts_with("lmgg") || start.starts_with("tjgg"))
        return ": it is older than GGUF, get a newer copy";
    if (start.starts_with("PK\x03\x04"))
        return ": it is a zip archive or PyTorch file, convert it to safetensors or GGUF";
    if (start.starts_with("\x1f\x8b")) return ": it is compressed with gzip, unpack it first";
    if (is_text(start))
        return ": it is a text, perhaps an error message in place of the file; look into it, then download it again";
    return "";
}

}  // namespace tandem::format
