// `tandem bench --against URL`: what the users of an OpenAI-compatible server see under load.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
}

namespace tandem::cli {

struct AgainstOptions {
    std::string url;
    std::string model;  // empty: the one that the server names first
    std::string key_file;
    std::vector<double> rates;
    std::vector<int> concurrency = {1};
    int requests = 50;
    int prompt_words = 128;
    int tokens = 64;
    double first_ms = 0;    // 0: no target
    double between_ms = 0;  // likewise
    int patience_s = 300;
    uint64_t seed = 1;
    bool json = false;
};

void add_against_options(CLI::App& app, AgainstOptions& options);
Result<int> bench_against(const AgainstOptions& options);

}  // namespace tandem::cli
