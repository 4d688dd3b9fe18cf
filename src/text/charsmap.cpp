#include "text/charsmap.h"

#include <cstring>

namespace tandem::text {

namespace {

// A unit of the double array packs a label or a value, a leaf flag and the offset to the children.
bool has_leaf(uint32_t unit) {
    return (unit >> 8 & 1U) != 0;
}
uint32_t value(uint32_t unit) {
    return unit & 0x7FFFFFFFU;
}
uint32_t label(uint32_t unit) {
    return unit & 0x800000FFU;
}
uint32_t offset(uint32_t unit) {
    return (unit >> 10) << ((unit & 0x200U) >> 6);
}

}  // namespace

Result<Charsmap> Charsmap::parse(std::string_view blob) {
    Charsmap map;
    if (blob.empty()) return map;
    uint32_t trie_bytes = 0;
    if (blob.size() < sizeof(trie_bytes)) return fail("precompiled_charsmap has only {} bytes", blob.size());
    std::memcpy(&trie_bytes, blob.data(), sizeof(trie_bytes));
    blob.remove_prefix(sizeof(trie_bytes));
    if (trie_bytes > blob.size() || trie_bytes % sizeof(uint32_t) != 0)
        return fail("precompiled_charsmap: a trie of {} bytes does not fit into the {} bytes left", trie_bytes,
                    blob.size());
    map.units_.resize(trie_bytes / sizeof(uint32_t));
    if (trie_bytes > 0) std::memcpy(map.units_.data(), blob.data(), trie_bytes);
    map.replacements_ = blob.substr(trie_bytes);
    return map;
}

// Offsets come from the file: every step is checked, and a bad one is the end of the search.
std::optional<Charsmap::Rule> Charsmap::find(std::string_view text, bool longest) const {
    std::optional<Rule> found;
    if (units_.empty()) return found;
    size_t node = offset(units_[0]);
    for (size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        node ^= byte;
        if (node >= units_.size() || label(units_[node]) != byte) break;
        const uint32_t unit = units_[node];
        node ^= offset(unit);
        if (!has_leaf(unit)) continue;
        if (node >= units_.size() || value(units_[node]) >= replacements_.size()) break;
        const std::string_view rest = std::string_view(replacements_).substr(value(units_[node]));
        found = Rule{.length = i + 1, .replacement = rest.substr(0, rest.find('\0'))};
        if (!longest) break;
    }
    return found;
}

}  // namespace tandem::text
