#include "hub/reference.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace tandem::hub {

namespace {

constexpr size_t kMostNameLetters = 200;

bool is_name_letter(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
}

bool is_name_part(std::string_view text) {
    return !text.empty() && text != "." && text != ".." && std::all_of(text.begin(), text.end(), is_name_letter);
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
    if (!text.starts_with(prefix)) return false;
    text.remove_prefix(prefix.size());
    return true;
}

std::vector<std::string_view> split(std::string_view text, char at) {
    std::vector<std::string_view> parts;
    for (size_t end = text.find(at); end != std::string_view::npos; end = text.find(at)) {
        parts.push_back(text.substr(0, end));
        text.remove_prefix(end + 1);
    }
    parts.push_back(text);
    return parts;
}

std::string joined(const std::vector<std::string_view>& parts, size_t first) {
    std::string text;
    for (size_t i = first; i < parts.size(); ++i) text += (i > first ? "/" : "") + std::string(parts[i]);
    return text;
}

// "org/name[@revision][:tag]", or an address's "org/name/resolve/main/file.gguf" and "org/name/tree/main".
Result<Reference> parse_path(std::string_view text, std::string_view whole) {
    const auto wrong = [&] {
        return fail("'{}' is not a model of the Hub: write org/name, org/name:QUANT or org/name:FILE.gguf", whole);
    };
    Reference reference;
    const std::vector<std::string_view> parts = split(text.substr(0, text.find('?')), '/');
    if (parts.size() >= 4 && (parts[2] == "resolve" || parts[2] == "blob" || parts[2] == "tree")) {
        reference.repo = joined(parts, 0).substr(0, parts[0].size() + 1 + parts[1].size());
        reference.revision = parts[3];
        reference.tag = joined(parts, 4);
        const bool names_a_file = parts[2] != "tree";
        if (names_a_file == reference.tag.empty()) return wrong();
    } else {
        const size_t colon = text.find(':');
        if (colon != std::string_view::npos) {
            reference.tag = text.substr(colon + 1);
            if (reference.tag.empty()) return wrong();
        }
        std::string_view name = text.substr(0, colon);
        while (name.ends_with('/')) name.remove_suffix(1);
        const size_t at = name.find('@');
        if (at != std::string_view::npos) reference.revision = name.substr(at + 1);
        reference.repo = name.substr(0, at);
    }
    if (!is_repo_name(reference.repo) || reference.revision.empty()) return wrong();
    if (!reference.tag.empty() && !is_inner_path(reference.tag)) return wrong();
    return reference;
}

bool ends_like_a_model(std::string_view url) {
    return url.substr(0, url.find_first_of("?#")).ends_with(".gguf");
}

}  // namespace

bool is_repo_name(std::string_view text) {
    const std::vector<std::string_view> parts = split(text, '/');
    return parts.size() == 2 && is_name_part(parts[0]) && is_name_part(parts[1]) && text.size() <= kMostNameLetters &&
           text.find("--") == std::string_view::npos;
}

bool is_inner_path(std::string_view path) {
    if (path.find('\0') != std::string_view::npos || path.find('\\') != std::string_view::npos) return false;
    const std::vector<std::string_view> parts = split(path, '/');
    return std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
        return !part.empty() && part != "." && part != ".." && part.size() < 256;
    });
}

Result<std::optional<Reference>> parse_reference(std::string_view text, std::string_view endpoint) {
    const std::string_view whole = text;
    for (const std::string_view host :
         {std::string_view("https://huggingface.co/"), std::string_view("https://hf.co/"),
          std::string_view("huggingface.co/"), std::string_view("hf.co/"), std::string_view("hf://")}) {
        if (take_prefix(text, host)) return std::optional(TRY(parse_path(text, whole)));
    }
    if (take_prefix(text, std::string(endpoint) + "/")) return std::optional(TRY(parse_path(text, whole)));
    if (text.starts_with("https://") || text.starts_with("http://")) {
        if (!ends_like_a_model(text))
            return fail("{}: an address has to end with .gguf, the kind of file it gives", text);
        return std::optional(Reference{.url = std::string(text)});
    }
    const std::string_view name = text.substr(0, text.find_first_of(":@"));
    if (!is_repo_name(name)) return std::optional<Reference>();
    return std::optional(TRY(parse_path(text, whole)));
}

std::string to_string(const Reference& reference) {
    if (reference.repo.empty()) return reference.url;
    std::string text = reference.repo;
    if (reference.revision != "main") text += "@" + reference.revision;
    return reference.tag.empty() ? text : text + ":" + reference.tag;
}

}  // namespace tandem::hub
