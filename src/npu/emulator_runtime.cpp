#include "npu/emulator_runtime.h"

#include <algorithm>
#include <vector>

#include "npu/array.h"
#include "npu/emulator.h"
#include "npu/estimate.h"
#include "npu/host_schedule.h"

namespace tandem::npu {
namespace {

// What all designs of one emulated device share.
struct EmulatedDevice {
    const Array* array = nullptr;
    EmulatorOptions options;
    int64_t runs = 0;

    Status begin_run() {
        if (options.fails_after >= 0 && runs >= options.fails_after)
            return fail("the NPU is gone: the emulated device was told to fail after {} runs", options.fails_after);
        ++runs;
        return Ok{};
    }
};

// Memory as a device sees that does not see the host's caches: what was written and not said to be is not there.
class EmulatedBuffer final : public Buffer {
  public:
    using Buffer::Buffer;

    // Before a run that reads it: has it changed since it was last flushed, without a word?
    Status flush(uint64_t size_bytes) {
        const uint64_t sum = sum_of(size_bytes);
        if (!is_written() && size_bytes == summed_bytes_ && sum != sum_)
            return fail(
                "the host wrote to a buffer of {} bytes without marking it: the NPU would read what was there "
                "before",
                bytes().size());
        if (is_written() || size_bytes != summed_bytes_) {
            sum_ = sum;
            summed_bytes_ = size_bytes;
        }
        mark_flushed();
        return Ok{};
    }

  private:
    // Of whole words here and there: every page has some.
    uint64_t sum_of(uint64_t size_bytes) const {
        constexpr uint64_t kStep = 509;  // a prime, so that no column of a matrix is left out
        uint64_t sum = 0;
        for (uint64_t at = 0; at < size_bytes; at += kStep) sum = sum * 31 + static_cast<uint64_t>(bytes()[at]);
        return sum;
    }

    uint64_t sum_ = 0;
    uint64_t summed_bytes_ = 0;
};

class EmulatedDesign final : public LoadedDesign {
  public:
    EmulatedDesign(Emulator emulator, std::shared_ptr<EmulatedDevice> device)
        : emulator_(std::move(emulator)), device_(std::move(device)) {}

    Result<RunReport> run(std::span<Buffer* const> arguments, std::chrono::milliseconds /*timeout*/) override {
        return run_one(arguments, false);
    }

    Result<RunReport> run_one(std::span<Buffer* const> arguments, bool batched) {
        TRY(device_->begin_run());
        const Design& design = emulator_.design();
        std::vector<std::span<std::byte>> spans;
        spans.reserve(arguments.size());
        for (size_t i = 0; i < arguments.size(); ++i) {
            spans.push_back(arguments[i]->bytes());
            if (i >= design.sequence.arguments.size() || reads(design, i) == 0) continue;
            const auto size = static_cast<uint64_t>(design.sequence.arguments[i].type.size_bytes());
            // All buffers of this runtime are its own.
            if (size <= arguments[i]->bytes().size()) TRY(static_cast<EmulatedBuffer&>(*arguments[i]).flush(size));
        }
        const Activity activity = TRY(emulator_.run(spans));
        const Estimate made =
            estimate(activity, *device_->array, {.clock_mhz = device_->options.clock_mhz, .batched = batched});
        return RunReport{.seconds = made.seconds(), .estimated = true};
    }

  private:
    // How many transfers read the argument.
    static int64_t reads(const Design& design, size_t argument) {
        return std::count_if(
            design.sequence.transfers.begin(), design.sequence.transfers.end(), [&](const Transfer& transfer) {
                return static_cast<size_t>(transfer.argument) == argument && !goes_to_host(design, transfer);
            });
    }

    Emulator emulator_;
    std::shared_ptr<EmulatedDevice> device_;
};

class EmulatorRuntime final : public Runtime {
  public:
    explicit EmulatorRuntime(std::shared_ptr<EmulatedDevice> device) : device_(std::move(device)) {
        description_.kind = device::Kind::npu;
        description_.name = "npu";
        description_.hardware = fmt::format("emulator of {}, {}", device_->array->name, device_->array->description);
        description_.details =
            fmt::format("{} cores, times are estimates for {:.0f} MHz", device_->array->compute_tiles(),
                        device_->options.clock_mhz > 0 ? device_->options.clock_mhz : device_->array->clock_mhz);
    }

    std::string_view name() const override { return "npu emulator"; }
    const device::Description& describe() const override { return description_; }

    Result<std::shared_ptr<Buffer>> import_memory(std::span<std::byte> memory, BufferOptions options) override {
        if (memory.empty() || memory.size() % kPageBytes != 0 ||
            reinterpret_cast<uintptr_t>(memory.data()) % kPageBytes != 0)
            return fail("memory of {} bytes for the NPU is not whole pages of {}", memory.size(), kPageBytes);
        return std::shared_ptr<Buffer>(std::make_shared<EmulatedBuffer>(memory, std::move(options.keeper)));
    }

    Result<std::unique_ptr<LoadedDesign>> load(const Design& design) override {
        if (design.array != device_->array->name)
            return fail("design '{}': it is for '{}', not for '{}'", design.name, design.array, device_->array->name);
        Emulator emulator = TRY(Emulator::make(design));
        return std::unique_ptr<LoadedDesign>(std::make_unique<EmulatedDesign>(std::move(emulator), device_));
    }

    Result<RunReport> run_all(std::span<const Launch> launches, std::chrono::milliseconds /*timeout*/) override {
        RunReport sum{.seconds = 0, .estimated = true};
        for (const Launch& launch : launches) {
            // All designs of this runtime are its own.
            auto& design = static_cast<EmulatedDesign&>(*launch.design);
            sum.seconds += TRY(design.run_one(launch.arguments, launches.size() > 1)).seconds;
        }
        return sum;
    }

  private:
    std::shared_ptr<EmulatedDevice> device_;
    device::Description description_;
};

}  // namespace

Result<std::unique_ptr<Runtime>> make_emulator_runtime(EmulatorOptions options) {
    auto device = std::make_shared<EmulatedDevice>();
    device->array = TRY(array_named(options.array));
    device->options = std::move(options);
    return std::unique_ptr<Runtime>(std::make_unique<EmulatorRuntime>(std::move(device)));
}

}  // namespace tandem::npu
