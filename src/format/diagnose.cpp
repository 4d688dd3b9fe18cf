#include "format/diagnose.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::format {

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
    const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 64));
    if (start.empty()) return ": it is empty, download it again";
    if (start.starts_with("version https://git-lfs"))
        return ": it is a Git LFS pointer, fetch the file with git lfs pull";
    if (start.starts_with("<!DOCTYPE") || start.starts_with("<!doctype") || start.starts_with("<html"))
        return ": it is a web page, download the file itself";
    if (start.starts_with("ggml") || start.starts_with("lmgg") || start.starts_with("tjgg"))
        return ": it is older than GGUF, get a newer copy";
    if (start.starts_with("PK\x03\x04"))
        return ": it is a zip archive or PyTorch file, convert it to safetensors or GGUF";
    return "";
}

}  // namespace tandem::format
