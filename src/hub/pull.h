// Brings a model to this machine: from the Hub into the cache that its programs share, or from an address.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "hub/http.h"
#include "hub/library.h"
#include "hub/reference.h"

namespace tandem::hub {

// What is to be said meanwhile; all from the thread that pulls.
struct PullEvents {
    // What will be fetched, before it is: an error ends the pull.
    struct Plan {
        std::string name;  // "org/name:Q4_K_M"
        std::string why;   // this quantization
        uint64_t size_bytes = 0;
        uint64_t to_fetch_bytes = 0;
        int files = 0;
    };
    std::function<Status(const Plan&)> plan = [](const Plan&) -> Status { return Ok{}; };
    // A file of it; `digest` is what the Hub names it by.
    struct Step {
        std::string file;
        std::string digest;
        uint64_t file_bytes = 0;
        uint64_t file_done_bytes = 0;
        uint64_t done_bytes = 0;  // of the whole model
        uint64_t size_bytes = 0;
    };
    std::function<void(const Step&)> step = [](const Step&) {};
    std::function<void(std::string_view)> note = [](std::string_view) {};
};

// What is there already is checked for a newer version and otherwise left alone.
Result<LocalModel> pull(Http& http, const Reference& reference, const PullEvents& events);

}  // namespace tandem::hub
