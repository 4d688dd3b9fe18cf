#include "hub/catalog.h"

#include <algorithm>
#include <cctype>

namespace tandem::hub {

namespace {

constexpr CatalogEntry kCatalog[] = {
    {"gemma3:4b", "ggml-org/gemma-3-4b-it-GGUF", 2.5, 2.5, "Google, 140 languages"},
    {"gemma3:1b", "ggml-org/gemma-3-1b-it-GGUF", 0.8, 0.8, "Google, for small machines"},
    {"gemma3:12b", "ggml-org/gemma-3-12b-it-GGUF", 7.3, 7.3, "Google, 140 languages"},
    {"gemma3:27b", "ggml-org/gemma-3-27b-it-GGUF", 16.5, 16.5, "Google, 140 languages"},
    {"qwen3:4b", "Qwen/Qwen3-4B-GGUF", 2.5, 2.5, "Alibaba, thinks before it answers"},
    {"qwen3:8b", "Qwen/Qwen3-8B-GGUF", 5.0, 5.0, "Alibaba, thinks before it answers"},
    {"qwen3:14b", "Qwen/Qwen3-14B-GGUF", 9.0, 9.0, "Alibaba, thinks before it answers"},
    {"qwen3:32b", "Qwen/Qwen3-32B-GGUF", 19.8, 19.8, "Alibaba, thinks before it answers"},
    {"qwen3:30b-a3b", "Qwen/Qwen3-30B-A3B-GGUF", 18.6, 2.0, "Alibaba, a mixture: 3 of 30 billion work for a token"},
    {"gpt-oss:20b", "ggml-org/gpt-oss-20b-GGUF", 12.1, 2.6, "OpenAI, a mixture: 4 of 21 billion work for a token"},
    {"gpt-oss:120b", "ggml-org/gpt-oss-120b-GGUF", 63.4, 3.5, "OpenAI, a mixture: 5 of 117 billion work for a token"},
    {"gemma4:26b-a4b", "ggml-org/gemma-4-26B-A4B-it-GGUF", 16.8, 2.3, "Google, a mixture: 4 of 26 billion"},
    {"llama3.2:3b", "bartowski/Llama-3.2-3B-Instruct-GGUF", 2.0, 2.0, "Meta, small and quick"},
    {"llama3.2:1b", "bartowski/Llama-3.2-1B-Instruct-GGUF", 0.8, 0.8, "Meta, for small machines"},
    {"llama3.1:8b", "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF", 4.9, 4.9, "Meta, long contexts"},
    {"mistral:7b", "bartowski/Mistral-7B-Instruct-v0.3-GGUF", 4.4, 4.4, "Mistral AI"},
    {"qwen2.5-coder:7b", "bartowski/Qwen2.5-Coder-7B-Instruct-GGUF", 4.7, 4.7, "Alibaba, writes programs"},
};

bool is_equal(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
        return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
    });
}

}  // namespace

std::span<const CatalogEntry> catalog() {
    return kCatalog;
}

const CatalogEntry* find_in_catalog(std::string_view name) {
    for (const CatalogEntry& entry : kCatalog) {
        const bool is_family = is_equal(entry.name.substr(0, entry.name.find(':')), name);
        if (is_family || is_equal(entry.name, name)) return &entry;
    }
    return nullptr;
}

}  // namespace tandem::hub
