// Load: how fast a model becomes ready, beside what its disk gives and what its device takes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/backend.h"
#include "measure/disk_rate.h"

namespace tandem::measure {

struct LoadOptions {
    std::string source;  // as engine::open_bundle() takes it: a file or a folder
    // A device without the model's weights, each time.
    std::function<Result<std::unique_ptr<device::Backend>>()> open_device;
    int repetitions = 3;
    int context = 0;
    std::optional<DType> kv_dtype = {};
    // Bytes of weights that are there, of all: of each time anew.
    std::function<void(double done_bytes, double all_bytes)> progress = {};
};

struct LoadTimes {
    double weights_s = 0;  // of bringing the weights there
    double open_s = 0;     // of reading the header, the tokenizer and the template
    double ready_s = 0;    // from nothing to the first token of an answer, but for the opening of the device
};

struct LoadReport {
    std::string model;
    uint64_t weight_bytes = 0;
    // Each time after the system was made to forget the files. Empty where it does not: they lie in memory, or another
    // program uses them.
    std::vector<LoadTimes> cold = {};
    std::vector<LoadTimes> warm = {};  // each time after they were read
    // What the disk gave at best, measured before each time: disks, virtual ones above all, are not always the same.
    std::optional<DiskRate> disk = {};
    std::string no_disk = {};  // why there is none

    // Bytes of weights a second, of the median of the times.
    static double weights_rate(uint64_t bytes, const std::vector<LoadTimes>& times);
    static double ready_s(const std::vector<LoadTimes>& times);
};

Result<LoadReport> measure_load(const LoadOptions& options);

// The files that a model's weights are in: the file itself, all parts of a split one, or those of a folder.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& model);

// Has the system forget what it keeps of the files in memory; whether it did.
bool forget_files(const std::vector<std::filesystem::path>& files);

}  // namespace tandem::measure
