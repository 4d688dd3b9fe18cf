#include "cli/device_flags.h"

#include <CLI/CLI.hpp>

#include "plan/placement.h"

namespace tandem::cli {

namespace {

constexpr int kMaxThreads = 1024;

#ifdef TANDEM_VULKAN
constexpr const char* kDeviceHelp =
    "auto (a GPU that holds the model, else the CPU), cpu, cpu:reference, vulkan, vulkan:N or :NAME, or several\n"
    "that share the layers: vulkan:0,vulkan:1 (auto)";
#else
constexpr const char* kDeviceHelp =
    "Device to run on: auto or cpu, or cpu:reference for the plain loops that specify each op, or several that\n"
    "share the layers: cpu,cpu:reference (auto)";
#endif

void add_npu_options(CLI::App& app, user::NpuChoice& options) {
    app.add_option(
           "--npu", options.npu,
           "NPU beside the device: auto (if it passed npu selftest and bench --tune), on, emulator (slow), off (auto)")
        ->option_text("WHICH")
        ->check(CLI::IsMember({"auto", "on", "emulator", "off"}));
    app.add_option("--placement", options.placement,
                   "Of prompts: npu-attention, npu-prefill (layers), gpu, or auto: what should be fastest;\n"
                   "npu: of answers too, so that with --device cpu the GPU sleeps (auto)")
        ->option_text("HOW")
        ->check([](const std::string& text) {
            const Result<plan::Policy> policy = plan::parse_policy(text);
            return policy ? std::string() : policy.error().message;
        });
    app.add_option("--npu-layers", options.layers, "Layers that npu-prefill gives to the NPU; 0: what is fastest (0)")
        ->option_text("N")
        ->check(CLI::Range(0, 1024));
    app.add_option("--trace", options.trace,
                   "Write what each of several devices did when, for a trace viewer (Perfetto)")
        ->option_text("FILE");
}

}  // namespace

void add_device_options(CLI::App& app, user::DeviceOptions& options) {
    app.add_option("--device", options.device, kDeviceHelp)->option_text("DEVICE");
    app.add_option("--split", options.split,
                   "Layers with which the second and later of several devices begin: 20,42 (by measured time); under "
                   "mpirun\nor Slurm those of the ranks, or layers: by what each does and has")
        ->option_text("HOW");
    app.add_option("--rank-timeout", options.rank_timeout_s, "Seconds of silence after which a rank is lost (10)")
        ->option_text("S")
        ->check(CLI::Range(1, 3600));
    app.add_option("--threads", options.threads, "CPU threads; 0: one per core (0)")
        ->option_text("N")
        ->check(CLI::Range(0, kMaxThreads));
    app.add_flag("--strict", options.strict, "Fail rather than run on the CPU when it was not asked for");
    app.add_flag("--exact", options.exact,
                 "Compute every op by itself in f32: slow, for comparisons (vulkan; cpu:reference always does)");
    add_npu_options(app, options.npu);
}

}  // namespace tandem::cli
