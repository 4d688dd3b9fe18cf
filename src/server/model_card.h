// ModelCard: what the lists of models say about one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::server {

enum class ModelState : uint8_t { unloaded, loading, ready, failed };

std::string_view name(ModelState state);

// What is known without loading it is always there; the rest once it has been loaded.
struct ModelCard {
    std::string name;
    ModelState state = ModelState::unloaded;
    double progress = 0;  // of loading, 0 to 1
    std::string error;    // of ModelState::failed
    int64_t created_s = 0;
    uint64_t file_bytes = 0;

    std::string family;         // "gemma3"
    uint64_t parameters = 0;    //
    std::string quantization;   // of most of its weights: "q8_0"
    int context = 0;            // of a sequence, in this server
    int trained_context = 0;    //
    int dim = 0;                //
    bool has_tools = false;     // its template speaks of tools
    bool has_thinking = false;  //
    std::string chat_template;

    uint64_t memory_bytes = 0;  // weights and cache, while loaded
    uint64_t device_bytes = 0;  // of them, in a GPU's memory
    double expires_in_s = -1;   // until it is unloaded; negative: never
    double cache_usage = 0;     // share of the cache's blocks that is held
    int cache_blocks = 0;       //
    double cached_share = 0;    // of all prompt tokens, found in the cache
};

}  // namespace tandem::server
