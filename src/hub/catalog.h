// A short table of models with names as people know them, and how large they are, to say what fits a machine.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tandem::hub {

struct CatalogEntry {
    std::string_view name;  // "gemma3:4b"
    std::string_view repo;  // of the Hub
    double size_gb;         // of its Q4_K_M file, or the only one, in 10^9 bytes, rounded
    double read_gb;         // of it, for one token: less than all where only some experts work
    std::string_view about;
};

std::span<const CatalogEntry> catalog();

// Whatever the case; null: no such name. A name without a tag is the first of its family.
const CatalogEntry* find_in_catalog(std::string_view name);

}  // namespace tandem::hub
