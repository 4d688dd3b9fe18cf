// What an NPU was measured to bring beside a device of this machine: without such a measurement it is not used by
// itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "plan/learned.h"

namespace tandem::user {

// Seconds of a prompt, by the device alone and with the NPU.
struct NpuGain {
    double alone_s = 0;
    double together_s = 0;

    // By more than two measurements of one thing differ.
    bool helps() const { return together_s > 0 && together_s < 0.97 * alone_s; }
};

// `hardware`: of the device beside it. None: it was not measured, or the file cannot be read.
std::optional<NpuGain> kept_npu_gain(const std::filesystem::path& file, const std::string& hardware);
Status keep_npu_gain(const std::filesystem::path& file, const std::string& hardware, const NpuGain& gain);

// That `tandem npu selftest` passed with an NPU of that name. Without it the NPU is not used by itself.
bool kept_npu_selftest(const std::filesystem::path& file, const std::string& hardware);
Status keep_npu_selftest(const std::filesystem::path& file, const std::string& hardware);

// What steps took beside that device, for plan::Learned: by rows, alone and together.
std::map<int64_t, plan::Learned::Times> kept_npu_times(const std::filesystem::path& file, const std::string& hardware);
Status keep_npu_times(const std::filesystem::path& file, const std::string& hardware,
                      const std::map<int64_t, plan::Learned::Times>& times);

}  // namespace tandem::user
