// --npu and --placement: an NPU, or its emulator, beside the device that --device names.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "device/backend.h"
#include "device/rates.h"
#include "npu/toolchain.h"
#include "plan/timeline.h"

namespace tandem::user {

// Is told what a user should know and is no error, a line at a time.
using Note = std::function<void(std::string_view line)>;

struct NpuChoice {
    // "auto": the machine's, where a placement names it or it was measured to help; "on": the machine's; "emulator",
    // "off"
    std::string npu = "auto";
    std::string placement = "auto";  // plan::parse_policy
    int layers = 0;                  // of npu-prefill
    std::string trace;               // file for the spans of both devices
};

// Where spans go that are written to `file` when the last that adds to them is gone; none without a file.
std::shared_ptr<plan::Timeline> timeline_for(const std::string& file);

struct NpuRequest {
    NpuChoice options;
    bool strict = false;
    std::function<Result<device::Rates>()> main_rates;  // measured when the cost model is asked
    Note note;
};

// `main` alone, or together with the NPU. Without one that can be used this is an error if it is strict and the
// placement needs it, and else a note.
Result<std::unique_ptr<device::Backend>> with_npu(std::unique_ptr<device::Backend> main, const NpuRequest& request);

// The machine's NPU, or why it has none that can be used.
device::Description describe_npu();

// Where `tandem bench --tune` keeps what the NPU brings (user/npu_gain.h); empty: there is no such place.
std::filesystem::path npu_gain_file();

// Builds a design with the vendor's toolchain, unless that very toolchain has built it before.
Result<npu::BuiltDesign> build_npu_design(const npu::Design& design, const Note& note);
// What any toolchain has built of it will do; else it is built now.
Result<npu::BuiltDesign> built_npu_design(const npu::Design& design, const Note& note);

}  // namespace tandem::user
