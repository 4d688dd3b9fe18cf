#include "cli/device_option.h"

#include <CLI/CLI.hpp>

#include "cli/text_output.h"
#include "cli/user_paths.h"
#include "cpu/backend.h"
#include "cpu/rates.h"
#ifdef TANDEM_VULKAN
#include "vulkan/backend.h"
#include "vulkan/rates.h"
#include "vulkan/tune.h"
#endif

namespace tandem::cli {

namespace {

constexpr int kMaxThreads = 1024;

bool is_vulkan(const std::string& device) {
    return device == "vulkan" || device.starts_with("vulkan:");
}

#ifdef TANDEM_VULKAN

constexpr const char* kDeviceHelp =
    "Device to run on: cpu, cpu:reference (plain loops), vulkan, or vulkan:N by number or part of a name (cpu)";

std::filesystem::path tuning_directory() {
    const std::filesystem::path config = config_directory();
    return config.empty() ? config : config / "tuning";
}

std::string selector_of(const DeviceOptions& options) {
    return options.device == "vulkan" ? "" : options.device.substr(std::string("vulkan:").size());
}

// Under --strict a software device does not count as a GPU.
Result<std::unique_ptr<device::Backend>> open_vulkan(const DeviceOptions& options) {
    return vulkan::make_backend({.device = selector_of(options),
                                 .allow_software = !options.strict,
                                 .exact = options.exact,
                                 .pipeline_cache = cache_directory(),
                                 .tuning = tuning_directory()});
}

Result<std::string> tune_vulkan(device::Backend& backend, const TuneSteps& steps) {
    if (tuning_directory().empty()) return fail("--tune: there is neither XDG_CONFIG_HOME nor a home to keep it in");
    const auto file = TRY(vulkan::tune(backend, tuning_directory(),
                                       {.decode_seconds = steps.decode_seconds,
                                        .prompt_seconds = steps.prompt_seconds,
                                        .note = [](std::string_view line) { note(line); }}));
    return file.string();
}

Result<device::Rates> measure_vulkan(const DeviceOptions& options) {
    return vulkan::measure_rates(selector_of(options));
}

std::vector<device::Description> list_gpus() {
    return vulkan::list_devices();
}

#else

constexpr const char* kDeviceHelp =
    "Device to run on: cpu, or cpu:reference for the plain loops that specify each op (cpu)";

Result<std::unique_ptr<device::Backend>> open_vulkan(const DeviceOptions& options) {
    return fail("--device {}: this build has no Vulkan (it was configured without TANDEM_VULKAN); use --device cpu",
                options.device);
}

Result<device::Rates> measure_vulkan(const DeviceOptions& /*options*/) {
    return device::Rates{};
}

Result<std::string> tune_vulkan(device::Backend& /*backend*/, const TuneSteps& /*steps*/) {
    return fail("--tune: this build has no Vulkan");
}

std::vector<device::Description> list_gpus() {
    return {};
}

#endif

Result<std::unique_ptr<device::Backend>> open_main_device(const DeviceOptions& options) {
    if (options.device.empty() && options.strict) {
        return fail("--strict needs --device: without one the CPU runs the model; --device cpu says that it is meant");
    }
    if (options.device.empty() || options.device == "cpu") {
        // multiplies quantised weights with int8 activations
        if (options.exact) return fail("--exact is for --device vulkan; on the CPU, --device cpu:reference is exact");
        return cpu::make_backend({.threads = options.threads});
    }
    if (options.device == "cpu:reference") {
        return cpu::make_backend({.threads = options.threads, .reference = true});
    }
    if (is_vulkan(options.device)) return open_vulkan(options);
    if (options.device == "npu") {
        return fail("--device npu: an NPU works beside a GPU or the CPU: use --device vulkan --placement npu-prefill");
    }
    return fail("--device {}: unknown device; `tandem devices` lists what there is", options.device);
}

}  // namespace

void add_device_options(CLI::App& app, DeviceOptions& options) {
    app.add_option("--device", options.device, kDeviceHelp)->option_text("DEVICE");
    app.add_option("--threads", options.threads, "CPU threads; 0: one per core (0)")
        ->option_text("N")
        ->check(CLI::Range(0, kMaxThreads));
    app.add_flag("--strict", options.strict, "Fail rather than run on the CPU when it was not asked for");
    app.add_flag("--exact", options.exact,
                 "Compute every op by itself in f32: slow, for comparisons (vulkan; cpu:reference always does)");
    add_npu_options(app, options.npu);
}

Result<std::unique_ptr<device::Backend>> open_device(const DeviceOptions& options) {
    std::unique_ptr<device::Backend> main = TRY(open_main_device(options));
    return with_npu(std::move(main), {.options = options.npu, .strict = options.strict, .main_rates = [options] {
                                          return measure_rates(options);
                                      }});
}

Result<device::Rates> measure_rates(const DeviceOptions& options) {
    if (is_vulkan(options.device)) return measure_vulkan(options);
    ThreadPool threads(options.threads);
    return cpu::measure_rates(threads);
}

Result<std::string> tune(const DeviceOptions& options, device::Backend& backend, const TuneSteps& steps) {
    if (!is_vulkan(options.device)) return fail("--tune needs --device vulkan: other devices have nothing to tune");
    if (options.exact) return fail("--tune with --exact: what is tuned are the kernels that --exact does without");
    return tune_vulkan(backend, steps);
}

Result<std::vector<device::Description>> list_devices() {
    const std::unique_ptr<device::Backend> cpu = TRY(cpu::make_backend({}));
    std::vector<device::Description> devices = list_gpus();
    devices.insert(devices.begin(), cpu->describe());
    return devices;
}

}  // namespace tandem::cli
