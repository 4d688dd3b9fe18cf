// The vendor's toolchain, where it is installed: makes of a design what the device loads, once for each content.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "npu/design.h"

namespace tandem::npu {

// Where to look: the folders that the toolchain's own set-up script names, then the programs' search path.
struct ToolPlaces {
    std::string path;          // $PATH
    std::string mlir_aie_dir;  // $MLIR_AIE_INSTALL_DIR
    std::string peano_dir;     // $PEANO_INSTALL_DIR
    static ToolPlaces of_environment();
};

struct Toolchain {
    std::filesystem::path aiecc;    // aiecc, or aiecc.py of older ones
    std::filesystem::path clang;    // Peano's clang++
    std::filesystem::path include;  // with aie_api/
    std::string version;            // of both
    bool plain_options = false;     // aiecc takes --get-xclbin; older ones --aie-generate-xclbin
};

// Fails with what to install.
Result<Toolchain> find_toolchain(const ToolPlaces& places);

struct BuiltDesign {
    std::filesystem::path xclbin;
    std::filesystem::path instructions;
    bool from_cache = false;
};

struct BuildOptions {
    std::filesystem::path cache;  // a folder of the user's; empty: there is none, and nothing can be built
    std::function<void(std::string_view)> progress = [](std::string_view) {};
};

// Compiles the kernels and the design, which check() must accept, unless this very design was built by the same
// toolchain before; of one that differs in its sequence alone, nothing but the instructions. After an error there is a
// log, and nothing else is new.
Result<BuiltDesign> build_design(const Design& design, const Toolchain& toolchain, const BuildOptions& options);

// What any toolchain has built of this design, the latest first.
std::optional<BuiltDesign> find_built(const Design& design, const std::filesystem::path& cache);

}  // namespace tandem::npu
