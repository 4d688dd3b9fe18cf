// SavedRun: what `tandem bench --json` wrote, read again to be compared and drawn.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::measure {

struct SavedStage {
    std::string name;
    int count = 0;
    double seconds = 0;  // of all of that name
    double weight_bytes = 0;
};

struct SavedRow {
    bool is_prompt = false;
    int sequences = 1;
    int length = 0;  // of the context, or of the prompt
    double tokens_per_s = 0;
    double seconds = 0;             // the median
    std::vector<double> samples_s;  // in the order they were taken, with those that count as outliers
    double bytes = 0;
    double flops = 0;
    bool fits_caches = false;
    std::optional<double> joules_per_token;
    std::vector<SavedStage> profile;

    std::string name() const;
    // The same work.
    bool matches(const SavedRow& other) const {
        return is_prompt == other.is_prompt && sequences == other.sequences && length == other.length;
    }
};

struct SavedRun {
    std::string source;  // the file
    std::string program;
    std::string model;
    std::string device;
    std::string hardware;
    std::string details;
    double read_bytes_per_s = 0;
    double matrix_flops_per_s = 0;
    std::vector<SavedRow> rows;
};

// `source` stands in messages.
Result<SavedRun> parse_saved_run(std::string_view json, const std::string& source);
Result<SavedRun> read_saved_run(const std::filesystem::path& file);

}  // namespace tandem::measure
