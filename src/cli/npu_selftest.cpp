#include "cli/npu_selftest.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/text_output.h"
#include "device/host_memory.h"
#include "npu/array.h"
#include "npu/check.h"
#include "npu/designs/library.h"
#include "npu/emulator_runtime.h"
#include "npu/toolchain.h"
#include "npu/xrt/discovery.h"
#include "npu/xrt/runtime.h"
#include "user/npu.h"
#include "user/npu_gain.h"
#include "user/paths.h"

namespace tandem::cli {

namespace {

using Clock = std::chrono::steady_clock;

// Small enough that the emulator is done in seconds.
constexpr const char* kSmallProduct = "gemm_i8_64x256x256";
constexpr const char* kSmallAttention = "attention_i8_32x8x4x64x64";
// A layer's largest product for 1024 tokens, and one of few rows that does nothing but read its matrix.
constexpr const char* kLargeProduct = "gemm_i8_1024x5376x21504";
constexpr const char* kReadingProduct = "gemm_i8_16x5376x21504";
constexpr int kChanges = 20;

constexpr double kLoadMinutes = 10;

struct StepReport {
    std::string name;
    enum class End : uint8_t { fine, failed, left_out } end = End::fine;
    std::string saw;  // or what is missing
};

// A trial with its data in memory that the device uses.
class LoadedTrial {
  public:
    static Result<LoadedTrial> load(npu::Runtime& runtime, const std::string& name, const std::string& array) {
        LoadedTrial made;
        made.trial_ = TRY(npu::make_trial(name, array, 1));
        TRY(npu::check(made.trial_.design));
        made.design_ = TRY(runtime.load(made.trial_.design));
        for (const std::vector<std::byte>& argument : made.trial_.arguments) {
            auto memory = std::make_shared<device::HostBuffer>(TRY(
                device::HostBuffer::allocate(argument.size(), "an argument of the design", "close other programs")));
            std::memcpy(memory->data(), argument.data(), argument.size());
            made.buffers_.push_back(TRY(runtime.import_memory(memory->pages(), {.keeper = memory})));
            made.arguments_.push_back(made.buffers_.back().get());
            made.bytes_ += argument.size();
        }
        return made;
    }

    // Seconds.
    Result<double> run() { return TRY(design_->run(made_arguments())).seconds; }
    // How many results agree with a plain computation.
    Result<int64_t> compare() {
        for (size_t i = 0; i < buffers_.size(); ++i)
            std::memcpy(trial_.arguments[i].data(), buffers_[i]->bytes().data(), trial_.arguments[i].size());
        return trial_.compare(trial_.arguments);
    }
    uint64_t bytes() const { return bytes_; }

  private:
    std::span<npu::Buffer* const> made_arguments() const { return arguments_; }

    npu::Trial trial_;
    std::unique_ptr<npu::LoadedDesign> design_;
    std::vector<std::shared_ptr<npu::Buffer>> buffers_;
    std::vector<npu::Buffer*> arguments_;
    uint64_t bytes_ = 0;
};

class Selftest {
  public:
    explicit Selftest(const SelftestOptions& options) : options_(options) {}

    // All that can go on after what failed; each of the others says why it was left out.
    std::vector<StepReport> run() {
        const bool ready =
            step("device", true, [&] { return find_device(); }) & step("toolchain", true, [&] { return find_tools(); });
        const bool open_now = step("open", ready, [&] { return open(); });
        const bool right = step("product", open_now, [&] { return run_one(kSmallProduct); }) &
                           step("attention", open_now, [&] { return run_one(kSmallAttention); });
        step("changing designs", right, [&] { return change(); });
        step(
            "reading", right, [&] { return read(); }, !options_.emulator);
        step(
            "multiplying", right, [&] { return multiply(); }, !options_.emulator);
        step(
            "load", right, [&] { return load(); }, !options_.emulator || options_.minutes);
        return reports_;
    }

    const std::string& hardware() const { return hardware_; }

  private:
    template <typename Do>
    bool step(const std::string& name, bool possible, const Do& action, bool wanted = true) {
        using End = StepReport::End;
        if (!possible || !wanted) {
            reports_.push_back({name, End::left_out, possible ? "the emulator measures nothing" : "after what failed"});
            return false;
        }
        if (!options_.json) note(fmt::format("[{}]", name));
        const Result<std::string> saw = action();
        reports_.push_back({name, saw ? End::fine : End::failed, saw ? *saw : saw.error().message});
        return static_cast<bool>(saw);
    }

    Result<std::string> find_device() {
        if (options_.emulator) {
            hardware_ = "emulator";
            return std::string("the emulator of npu1, which measures nothing");
        }
        const npu::Discovery found = npu::discover(npu::System::here());
        TRY(found.usable());
        hardware_ = found.device->hardware;
        array_ = found.device->array;
        return fmt::format("{} ({}, {}), XRT {}", found.device->hardware, array_, found.device->node, found.xrt);
    }

    Result<std::string> find_tools() {
        if (options_.emulator) return std::string("none is needed");
        const npu::Toolchain toolchain = TRY(npu::find_toolchain(npu::ToolPlaces::of_environment()));
        return toolchain.version;
    }

    Result<std::string> open() {
        runtime_ = options_.emulator ? TRY(npu::make_emulator_runtime())
                                     : TRY(npu::open_npu({.built = [](const npu::Design& design) {
                                           return user::built_npu_design(design, note);
                                       }}));
        return std::string(runtime_->describe().details);
    }

    Result<std::string> run_one(const std::string& name) {
        const Clock::time_point begin = Clock::now();
        LoadedTrial trial = TRY(LoadedTrial::load(*runtime_, name, array_));
        const double loaded_s = std::chrono::duration<double>(Clock::now() - begin).count();
        const double seconds = TRY(trial.run());
        const int64_t compared = TRY(trial.compare());
        return fmt::format("{}: {} results right, built and loaded in {:.1f} s, run in {:.3f} ms", name, compared,
                           loaded_s, seconds * 1e3);
    }

    // Two designs in turn against one of them alone: what it takes to change.
    Result<std::string> change() {
        LoadedTrial product = TRY(LoadedTrial::load(*runtime_, kSmallProduct, array_));
        LoadedTrial attention = TRY(LoadedTrial::load(*runtime_, kSmallAttention, array_));
        const auto times_of = [&](bool in_turn) -> Result<double> {
            const Clock::time_point begin = Clock::now();
            for (int i = 0; i < kChanges; ++i) {
                TRY(product.run());
                TRY((in_turn ? attention : product).run());
            }
            return std::chrono::duration<double>(Clock::now() - begin).count() / kChanges;
        };
        const double alone_s = TRY(times_of(false));
        const double in_turn_s = TRY(times_of(true));
        TRY(product.compare());
        TRY(attention.compare());
        return fmt::format("two runs of one design {:.3f} ms, of two in turn {:.3f} ms", alone_s * 1e3,
                           in_turn_s * 1e3);
    }

    Result<double> best_of(LoadedTrial& trial, int runs) {
        double best = 0;
        for (int i = 0; i < runs; ++i) {
            const double seconds = TRY(trial.run());
            best = i == 0 ? seconds : std::min(best, seconds);
        }
        return best;
    }

    Result<std::string> read() {
        LoadedTrial trial = TRY(LoadedTrial::load(*runtime_, kReadingProduct, array_));
        const double seconds = TRY(best_of(trial, 5));
        TRY(trial.compare());
        return fmt::format("{:.1f} GB/s ({} in {:.2f} ms)", static_cast<double>(trial.bytes()) / seconds / 1e9,
                           format_bytes(trial.bytes()), seconds * 1e3);
    }

    Result<std::string> multiply() {
        LoadedTrial trial = TRY(LoadedTrial::load(*runtime_, kLargeProduct, array_));
        const double seconds = TRY(best_of(trial, 5));
        TRY(trial.compare());
        return fmt::format("{:.2f} TOPS ({} in {:.2f} ms)", 2.0 * 1024 * 5376 * 21504 / seconds / 1e12, kLargeProduct,
                           seconds * 1e3);
    }

    Result<std::string> load() {
        const char* const name = options_.emulator ? kSmallProduct : kLargeProduct;
        const double minutes = options_.minutes.value_or(kLoadMinutes);
        LoadedTrial trial = TRY(LoadedTrial::load(*runtime_, name, array_));
        const Clock::time_point end =
            Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(60 * minutes));
        double fastest = 0;
        double slowest = 0;
        int64_t runs = 0;
        do {
            const double seconds = TRY(trial.run());
            fastest = runs == 0 ? seconds : std::min(fastest, seconds);
            slowest = std::max(slowest, seconds);
            if (++runs % 1000 == 0) TRY(trial.compare());
        } while (Clock::now() < end);
        TRY(trial.compare());
        return fmt::format("{} runs of {} in {:.1f} minutes, {:.2f} to {:.2f} ms, right to the last", runs, name,
                           minutes, fastest * 1e3, slowest * 1e3);
    }

    SelftestOptions options_;
    std::string hardware_;
    std::string array_ = "npu1";
    std::unique_ptr<npu::Runtime> runtime_;
    std::vector<StepReport> reports_;
};

}  // namespace

Result<int> npu_selftest(const SelftestOptions& options) {
    using End = StepReport::End;
    Selftest selftest(options);
    const std::vector<StepReport> reports = selftest.run();
    const bool passed = std::ranges::none_of(reports, [](const StepReport& step) { return step.end == End::failed; });
    if (passed && !options.emulator) TRY(user::keep_npu_selftest(user::npu_gain_file(), selftest.hardware()));
    if (options.json) {
        nlohmann::ordered_json list = nlohmann::ordered_json::array();
        for (const StepReport& step : reports)
            list.push_back({{"step", step.name},
                            {"ok", step.end == End::fine},
                            {"left_out", step.end == End::left_out},
                            {"saw", step.saw}});
        const nlohmann::ordered_json report{
            {"version", TANDEM_VERSION}, {"passed", passed}, {"steps", std::move(list)}};
        print(report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
        return passed ? 0 : 1;
    }
    print("tandem " TANDEM_VERSION " npu selftest\n");
    for (const StepReport& step : reports) {
        const char* const end = step.end == End::fine ? "ok" : step.end == End::failed ? "FAILED" : "left out";
        print(fmt::format("{:<17} {:<8} {}\n", step.name, end, step.saw));
    }
    print(passed ? "passed\n" : "not passed: the line that failed says what is missing\n");
    return passed ? 0 : 1;
}

}  // namespace tandem::cli
