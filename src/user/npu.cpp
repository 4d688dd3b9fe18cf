#include "user/npu.h"

#include <atomic>
#include <fstream>

#include "base/log.h"
#include "cpu/backend.h"
#include "npu/backend.h"
#include "npu/emulator_runtime.h"
#include "npu/xrt/discovery.h"
#include "npu/xrt/runtime.h"
#include "plan/hybrid.h"
#include "user/npu_gain.h"
#include "user/paths.h"

namespace tandem::user {

namespace {

// It has passed its test on this machine, and was measured to help.
bool may_be_used_by_itself(const std::string& beside) {
    const std::optional<npu::NpuDevice> npu = npu::discover(npu::System::here()).device;
    if (!npu || !kept_npu_selftest(npu_gain_file(), npu->hardware)) return false;
    const std::optional<NpuGain> gain = kept_npu_gain(npu_gain_file(), beside);
    return gain && gain->helps();
}

// What steps took before, which is kept again when the last that adds to it is gone.
std::shared_ptr<plan::Learned> learned_beside(const std::string& hardware) {
    const std::filesystem::path file = npu_gain_file();
    std::shared_ptr<plan::Learned> learned(new plan::Learned, [file, hardware](plan::Learned* times) {
        const Status kept = file.empty() ? Status(Ok{}) : keep_npu_times(file, hardware, times->times());
        if (!kept) log::error("{}: what the NPU brought was not kept ({})", file.string(), kept.error().message);
        delete times;
    });
    for (const auto& [rows, times] : kept_npu_times(file, hardware)) learned->set(rows, times);
    return learned;
}

struct OpenedNpu {
    std::unique_ptr<npu::Runtime> runtime;
    const npu::Array* array;
};

Result<OpenedNpu> open_npu_of(const NpuRequest& request) {
    if (request.options.npu == "emulator") {
        if (request.strict)
            return fail("--npu emulator: under --strict an emulator does not count as an NPU; leave one of them out");
        std::unique_ptr<npu::Runtime> emulator = TRY(npu::make_emulator_runtime());
        return OpenedNpu{std::move(emulator), npu::find_array("npu1")};
    }
    const npu::Discovery found = npu::discover(npu::System::here());
    TRY(found.usable());
    std::unique_ptr<npu::Runtime> runtime = TRY(npu::open_xrt(
        {.built = [note = request.note](const npu::Design& design) { return built_npu_design(design, note); }}));
    const npu::Array* const array = found.device ? npu::find_array(found.device->array) : nullptr;
    if (array == nullptr) return fail("the NPU of this machine is of a kind that is not known here");
    return OpenedNpu{std::move(runtime), array};
}

// Without rates the cost model takes the device for infinitely fast, and says so once.
std::function<device::Rates()> rates_for_plan(const NpuRequest& request, std::string device) {
    const auto told = std::make_shared<std::atomic<bool>>(false);
    return [measure = request.main_rates, note = request.note, device = std::move(device), told]() -> device::Rates {
        const Result<device::Rates> measured = measure();
        if (measured) return *measured;
        if (!told->exchange(true))
            note(fmt::format(
                "the rates of {} could not be measured ({}), so that placements cannot be compared: name one "
                "by --placement, and layers by --npu-layers",
                device, measured.error().message));
        return {};
    };
}

}  // namespace

std::shared_ptr<plan::Timeline> timeline_for(const std::string& file) {
    if (file.empty()) return nullptr;
    return {new plan::Timeline, [file](plan::Timeline* timeline) {
                std::ofstream out(file);
                out << timeline->to_json();
                if (!out.flush()) log::error("{}: the trace could not be written", file);
                delete timeline;
            }};
}

Result<npu::BuiltDesign> build_npu_design(const npu::Design& design, const Note& note) {
    const npu::Toolchain toolchain = TRY(npu::find_toolchain(npu::ToolPlaces::of_environment()));
    return npu::build_design(
        design, toolchain,
        {.cache = cache_directory(), .progress = [&note](std::string_view line) { note(fmt::format("[{}]", line)); }});
}

Result<npu::BuiltDesign> built_npu_design(const npu::Design& design, const Note& note) {
    if (const auto built = npu::find_built(design, cache_directory())) return *built;
    return build_npu_design(design, note);
}

std::filesystem::path npu_gain_file() {
    const std::filesystem::path config = config_directory();
    return config.empty() ? config : config / "npu.json";
}

device::Description describe_npu() {
    const npu::Discovery found = npu::discover(npu::System::here());
    device::Description npu{
        .kind = device::Kind::npu, .name = "npu", .hardware = found.device ? found.device->hardware : "none"};
    if (!found.obstacles.empty()) npu.unusable = found.obstacles.front().what;
    npu.details = npu.unusable.empty()
                      ? fmt::format("{}, XRT {}: beside a GPU or the CPU (--npu)", found.device->array, found.xrt)
                      : npu.unusable;
    return npu;
}

Result<std::unique_ptr<device::Backend>> with_npu(std::unique_ptr<device::Backend> main, const NpuRequest& request) {
    const NpuChoice& options = request.options;
    const Note& note = request.note;
    const plan::Policy policy = TRY(plan::parse_policy(options.placement));
    const bool needed = policy != plan::Policy::main_only && policy != plan::Policy::automatic;
    if (options.npu == "off" && needed)
        return fail("--placement {} needs an NPU, but --npu is off: leave one of them out", options.placement);
    const auto alone = [&] {
        if (!options.trace.empty())
            note(fmt::format("--trace: {} runs everything, so nothing overlaps and {} is not written",
                             main->describe().name, options.trace));
        return std::move(main);
    };
    if (options.npu == "off" || policy == plan::Policy::main_only) return alone();
    if (options.npu == "auto" && !needed && !may_be_used_by_itself(main->describe().hardware)) return alone();
    Result<OpenedNpu> opened = open_npu_of(request);
    if (!opened && (options.npu == "emulator" || (needed && request.strict))) return opened.error();
    if (!opened) {
        if (needed) note(fmt::format("{}; {} runs everything", opened.error().message, main->describe().name));
        return alone();
    }
    std::string main_name = main->describe().name;
    // What the emulator takes says nothing of an NPU.
    const bool learns = policy == plan::Policy::automatic && options.npu != "emulator";
    std::shared_ptr<plan::Learned> learned = learns ? learned_beside(main->describe().hardware) : nullptr;
    std::unique_ptr<device::Backend> host = TRY(cpu::make_backend({}));
    std::unique_ptr<device::Backend> second =
        npu::make_backend(std::move(opened->runtime), *opened->array, std::move(host));
    return plan::make_hybrid(std::move(main), std::move(second),
                             {.policy = policy,
                              .npu_layers = options.layers,
                              .strict = request.strict,
                              .main_rates = rates_for_plan(request, main_name),
                              .obstacle = npu::obstacle_of,
                              .note = note,
                              .timeline = timeline_for(options.trace),
                              .learned = std::move(learned)});
}

}  // namespace tandem::user
