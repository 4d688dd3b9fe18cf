// --npu and --placement: an NPU, or its emulator, beside the device that --device names.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "device/backend.h"
#include "device/rates.h"
#include "npu/toolchain.h"

namespace CLI {
class App;
}

namespace tandem::cli {

struct NpuChoice {
    std::string npu = "auto";        // "auto": the machine's, if it has one that can be used; "emulator", "off"
    std::string placement = "auto";  // plan::parse_policy
    int layers = 0;                  // of npu-prefill
    std::string trace;               // file for the spans of both devices
};

void add_npu_options(CLI::App& app, NpuChoice& options);

struct NpuRequest {
    NpuChoice options;
    bool strict = false;
    std::function<Result<device::Rates>()> main_rates;  // measured when the cost model is asked
};

// `main` alone, or together with the NPU. Without one that can be used this is an error if it is strict and the
// placement needs it, and else a note.
Result<std::unique_ptr<device::Backend>> with_npu(std::unique_ptr<device::Backend> main, const NpuRequest& request);

// Builds a design with the vendor's toolchain, unless that very toolchain has built it before.
Result<npu::BuiltDesign> build_npu_design(const npu::Design& design);
// What any toolchain has built of it will do; else it is built now.
Result<npu::BuiltDesign> built_npu_design(const npu::Design& design);

}  // namespace tandem::cli
