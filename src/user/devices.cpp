#include "user/devices.h"

#include <unistd.h>

#include <map>
#include <mutex>
#include <set>

#include "cpu/backend.h"
#include "cpu/rates.h"
#include "device/choice.h"
#include "npu/xrt/discovery.h"
#include "user/paths.h"
#ifdef TANDEM_VULKAN
#include "vulkan/backend.h"
#include "vulkan/rates.h"
#include "vulkan/tune.h"
#endif

namespace tandem::user {

namespace {

bool is_vulkan(const std::string& device) {
    return device == "vulkan" || device.starts_with("vulkan:");
}

#ifdef TANDEM_VULKAN

std::filesystem::path tuning_directory() {
    const std::filesystem::path config = config_directory();
    return config.empty() ? config : config / "tuning";
}

std::string selector_of(const std::string& device) {
    return device == "vulkan" ? "" : device.substr(std::string("vulkan:").size());
}

}  // namespace

// The GPUs of this process, each opened once: all models on one share it.
class Devices::Gpu {
  public:
    Result<std::unique_ptr<device::Backend>> open(const std::string& device, const DeviceOptions& options) {
        gpu_ = opened_[device];
        if (!gpu_) {
            // Under --strict a software device does not count as a GPU.
            gpu_ = TRY(vulkan::open_gpu({.device = selector_of(device),
                                         .allow_software = !options.strict,
                                         .exact = options.exact,
                                         .pipeline_cache = cache_directory(),
                                         .tuning = tuning_directory()}));
            opened_[device] = gpu_;
        }
        return vulkan::make_backend(gpu_);
    }

    Result<device::Rates> measure_rates(const std::string& device) {
        return vulkan::measure_rates(*opened_.at(device));
    }
    Result<double> measure_upload(const std::string& device, DType type) {
        return vulkan::measure_upload(*opened_.at(device), type);
    }

    Result<std::string> tune(const TuneSteps& steps, const Note& note) {
        if (tuning_directory().empty())
            return fail("--tune: there is neither XDG_CONFIG_HOME nor a home to keep it in");
        const auto file = TRY(vulkan::tune(*gpu_, tuning_directory(),
                                           {.decode_seconds = steps.decode_seconds,
                                            .prompt_seconds = steps.prompt_seconds,
                                            .note = note,
                                            .stopped = steps.stopped}));
        return file.string();
    }

  private:
    std::map<std::string, std::shared_ptr<vulkan::SharedGpu>> opened_;  // by the name they were asked for
    std::shared_ptr<vulkan::SharedGpu> gpu_;                            // the last
};

namespace {

std::vector<device::Description> list_gpus() {
    return vulkan::list_devices();
}

#else

}  // namespace

// Stands where there is no Vulkan: it cannot be opened.
class Devices::Gpu {
  public:
    Result<std::unique_ptr<device::Backend>> open(const std::string& device, const DeviceOptions& /*options*/) {
        return fail("--device {}: this build has no Vulkan (it was configured without TANDEM_VULKAN); use --device cpu",
                    device);
    }
    Result<device::Rates> measure_rates(const std::string& /*device*/) { return device::Rates{}; }
    Result<double> measure_upload(const std::string& /*device*/, DType /*type*/) { return 0.0; }
    Result<std::string> tune(const TuneSteps& /*steps*/, const Note& /*note*/) {
        return fail("--tune: this build has no Vulkan");
    }
};

namespace {

std::vector<device::Description> list_gpus() {
    return {};
}

#endif

device::Candidates candidates_here() {
    return {.gpus = list_gpus(), .cards = device::find_cards("/", [](const std::filesystem::path& node) {
                                     return access(node.c_str(), R_OK | W_OK) == 0;
                                 })};
}

}  // namespace

// Which it is, or they are, and how to ask. Shared with the backends, whose plans measure it when they need to.
class Devices::Main {
  public:
    Main(const DeviceOptions& options, const Note& note) : options_(options), note_(note) {}

    Result<std::unique_ptr<device::Backend>> open(const std::string& device) {
        const std::lock_guard lock(mutex_);
        opened_ = {device};
        return open_one(device);
    }

    Result<std::vector<std::unique_ptr<device::Backend>>> open(const std::vector<std::string>& devices) {
        const std::lock_guard lock(mutex_);
        opened_ = devices;
        std::vector<std::unique_ptr<device::Backend>> backends;
        for (const std::string& device : devices) backends.push_back(TRY(open_one(device)));
        return backends;
    }

    Result<device::Rates> measure_rates() {
        const std::lock_guard lock(mutex_);
        device::Rates all;
        for (const std::string& device : std::set<std::string>(opened_.begin(), opened_.end())) {
            const device::Rates rates = TRY(measure_one(device));
            all.read_bytes_per_s += rates.read_bytes_per_s;
            all.matrix_flops_per_s += rates.matrix_flops_per_s;
            all.cache_bytes += rates.cache_bytes;
        }
        return all;
    }

    Result<double> measure_upload(DType type) {
        const std::lock_guard lock(mutex_);
        double all = 0;
        for (const std::string& device : opened_) {
            if (is_vulkan(device)) all += TRY(gpu_.measure_upload(device, type));
        }
        return all;
    }

    Result<std::string> tune(const TuneSteps& steps) {
        if (opened_.size() != 1) return fail("--tune with several devices: tune each by itself");
        if (!is_vulkan(opened_.front()))
            return fail("--tune needs a GPU (--device vulkan): other devices have nothing to tune");
        if (options_.exact) return fail("--tune with --exact: what is tuned are the kernels that --exact does without");
        return gpu_.tune(steps, note_);
    }

  private:
    Result<std::unique_ptr<device::Backend>> open_one(const std::string& device) {
        if (is_vulkan(device)) return gpu_.open(device, options_);
        const bool reference = device == "cpu:reference";
        // multiplies quantised weights with int8 activations
        if (options_.exact && !reference)
            return fail("--exact is for --device vulkan; on the CPU, --device cpu:reference is exact");
        return cpu::make_backend({.threads = options_.threads, .reference = reference});
    }

    Result<device::Rates> measure_one(const std::string& device) {
        if (is_vulkan(device)) return gpu_.measure_rates(device);
        ThreadPool threads(options_.threads);
        return cpu::measure_rates(threads);
    }

    const DeviceOptions options_;
    const Note note_;
    std::mutex mutex_;
    std::vector<std::string> opened_;  // last, together
    Gpu gpu_;
};

Devices::Devices(DeviceOptions options, Note note)
    : options_(std::move(options)),
      note_(note ? std::move(note) : [](std::string_view) {}),
      main_(std::make_shared<Main>(options_, note_)) {}

Devices::~Devices() = default;

Status Devices::check() {
    if (options_.device == "auto") return Ok{};
    TRY(open_named(options_.device));
    return Ok{};
}

Result<std::unique_ptr<device::Backend>> Devices::open(uint64_t weight_bytes) {
    const std::string device = options_.device == "auto" ? TRY(choose(weight_bytes)) : options_.device;
    return open_named(device);
}

Result<std::string> Devices::choose(uint64_t weight_bytes) {
    const device::Candidates candidates = candidates_here();
    const device::DeviceChoice choice = device::choose_device(candidates, weight_bytes);
    if (choice.gpu != nullptr) return choice.gpu->name;
    if (options_.strict) {
        return fail("--strict: no GPU can run the model{}{}; --device cpu says that the CPU is meant",
                    choice.why.empty() ? ", this machine has none" : ": ", choice.why);
    }
    if (!choice.why.empty()) note_(choice.why);
    return std::string("cpu");
}

namespace {

std::vector<std::string> names_in(const std::string& devices) {
    std::vector<std::string> names;
    for (size_t begin = 0; begin <= devices.size();) {
        const size_t comma = std::min(devices.find(',', begin), devices.size());
        names.push_back(devices.substr(begin, comma - begin));
        begin = comma + 1;
    }
    return names;
}

Status check_name(const std::string& device, const std::string& given) {
    if (is_vulkan(device) || device == "cpu" || device == "cpu:reference") return Ok{};
    if (device == "npu") {
        return fail("--device {}: an NPU works beside a GPU or the CPU: use --device vulkan --placement npu-prefill",
                    given);
    }
    if (device == "auto") return fail("--device {}: auto takes one device; name each of several", given);
    if (device == given) return fail("--device {}: unknown device; `tandem devices` lists what there is", device);
    return fail("--device {}: unknown device '{}'; `tandem devices` lists what there is", given, device);
}

}  // namespace

Result<std::unique_ptr<device::Backend>> Devices::open_several(const std::vector<std::string>& devices) {
    const NpuChoice& npu = options_.npu;
    if (npu.npu == "on" || npu.npu == "emulator" || npu.placement.starts_with("npu"))
        return fail("--device {} with an NPU: it works beside one device only", options_.device);
    return plan::make_several(
        TRY(main_->open(devices)),
        {.cuts = options_.split, .note = note_, .timeline = timeline_for(npu.trace), .shares = shares_});
}

Result<std::unique_ptr<device::Backend>> Devices::open_named(const std::string& device) {
    const std::vector<std::string> names = names_in(device);
    for (const std::string& name : names) TRY(check_name(name, device));
    if (names.size() > 1) return open_several(names);
    if (!options_.split.empty())
        return fail("--split {} needs several devices, such as --device vulkan:0,cpu, not {}", options_.split, device);
    std::unique_ptr<device::Backend> main = TRY(main_->open(device));
    return with_npu(std::move(main), {.options = options_.npu,
                                      .strict = options_.strict,
                                      .main_rates = [main = main_] { return main->measure_rates(); },
                                      .note = note_});
}

Result<device::Rates> Devices::measure_rates() {
    return main_->measure_rates();
}

Result<double> Devices::measure_upload(DType type) {
    return main_->measure_upload(type);
}

Result<std::string> Devices::tune(const TuneSteps& steps) {
    return main_->tune(steps);
}

Result<DeviceList> list_devices() {
    const device::Candidates candidates = candidates_here();
    const device::DeviceChoice choice = device::choose_device(candidates, 0);
    const std::unique_ptr<device::Backend> cpu = TRY(cpu::make_backend({}));
    DeviceList list{.devices = {{.device = cpu->describe(), .is_default = choice.gpu == nullptr}}, .why = choice.why};
    for (const device::Description& gpu : candidates.gpus) {
        list.devices.push_back({.device = gpu, .is_default = choice.gpu == &gpu});
    }
    list.devices.push_back({.device = describe_npu(), .is_default = false});
    return list;
}

}  // namespace tandem::user
