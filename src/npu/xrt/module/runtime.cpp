#include "npu/xrt/runtime.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "base/file.h"
#include "base/module.h"
#include "npu/design.h"
#include "npu/xrt/discovery.h"
#include "npu/xrt/module.h"
#include "npu/xrt/module/buffer.h"
#include "npu/xrt/module/context.h"
#include "npu/xrt/module/guard.h"
#include "npu/xrt/xclbin.h"

namespace tandem::npu {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kRunInstructions = 3;  // the operation code of a runtime sequence
constexpr int kFirstBuffer = 3;           // argument: before it that code, the instructions and their count
constexpr size_t kMaxInstructionBytes = size_t{16} << 20;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Which arguments the design writes: those that a shim tile drains into.
std::vector<bool> written_arguments(const Design& design) {
    std::vector<bool> written(design.sequence.arguments.size());
    for (const Transfer& transfer : design.sequence.transfers) {
        const Fifo* fifo = find_fifo(design, transfer.fifo);
        CHECK(fifo != nullptr && transfer.argument >= 0, "the design was not checked");
        if (fifo->producer.row != 0) written.at(static_cast<size_t>(transfer.argument)) = true;
    }
    return written;
}

// What the designs of a device share: the contexts, one for each name, which stay open. A model has two of them.
struct XrtDevice {
    xrt::device device;
    std::string kernel;  // of every design
    std::map<std::string, std::shared_ptr<XrtContext>> contexts = {};
};

class XrtDesign final : public LoadedDesign {
  public:
    XrtDesign(std::shared_ptr<XrtDevice> device, const Design& design, BuiltDesign files)
        : device_(std::move(device)),
          name_(design.name),
          written_(written_arguments(design)),
          files_(std::move(files)) {
        sizes_.reserve(design.sequence.arguments.size());
        for (const HostArgument& argument : design.sequence.arguments)
            sizes_.push_back(static_cast<uint64_t>(argument.type.size_bytes()));
    }

    // Reads the files and opens a context, so that what is wrong with either is known before the first run.
    Status load() {
        TRY(check_xclbin());
        const MappedFile file = TRY(MappedFile::open(files_.instructions));
        const std::span<const std::byte> bytes = file.bytes();
        if (bytes.empty() || bytes.size() % sizeof(uint32_t) != 0 || bytes.size() > kMaxInstructionBytes)
            return fail("{}: {} bytes are no instructions of an NPU: build the design again",
                        files_.instructions.string(), bytes.size());
        instruction_bytes_.assign(bytes.begin(), bytes.end());
        return open();
    }

    Result<RunReport> run(std::span<Buffer* const> arguments, std::chrono::milliseconds timeout) override {
        TRY(check_arguments(arguments));
        TRY(open());
        RunReport report;
        const Result<ert_cmd_state> state = run_once(arguments, timeout, report);
        if (!state || *state != ERT_CMD_STATE_COMPLETED) {
            close();  // whatever it still does ends with its context
            return state ? state_error(name_, *state) : state.error();
        }
        TRY(finish(arguments, report));
        return report;
    }

    // A run with its arguments in place, and what follows when it is done. Both add to what was copied and flushed.
    Result<xrt::run> prepare(std::span<Buffer* const> arguments, RunReport& report) {
        for (Buffer* argument : arguments) TRY(buffer(argument).to_device(report));
        return guarded("setting the arguments of '" + name_ + "'", [&] {
            xrt::run run(context().kernel);
            run.set_arg(0, kRunInstructions);
            run.set_arg(1, instructions_);
            run.set_arg(2, static_cast<uint32_t>(instruction_bytes_.size() / sizeof(uint32_t)));
            for (size_t i = 0; i < arguments.size(); ++i)
                run.set_arg(kFirstBuffer + static_cast<int>(i), buffer(arguments[i]).bo());
            return run;
        });
    }

    Status check_arguments(std::span<Buffer* const> arguments) const {
        if (arguments.size() != sizes_.size())
            return fail("'{}' takes {} buffers, not {}", name_, sizes_.size(), arguments.size());
        for (size_t i = 0; i < sizes_.size(); ++i) {
            if (arguments[i]->bytes().size() < sizes_[i])
                return fail("'{}' takes {} bytes as its buffer {}, not {}", name_, sizes_[i], i,
                            arguments[i]->bytes().size());
        }
        return Ok{};
    }

    Status finish(std::span<Buffer* const> arguments, RunReport& report) {
        for (size_t i = 0; i < arguments.size(); ++i) {
            if (written_[i]) TRY(buffer(arguments[i]).from_device(sizes_[i], report));
        }
        return Ok{};
    }

    // The context of its name, and instructions of its own in it. After a failure there may be a new one.
    Status open() {
        if (!context_.expired()) return Ok{};
        Status opened = guarded("loading " + files_.xclbin.string(), [&] {
            if (!XrtContext::kSeveral) device_->contexts.clear();
            std::shared_ptr<XrtContext>& context = device_->contexts[name_];
            if (!context)
                context =
                    std::make_shared<XrtContext>(device_->device, xrt::xclbin(files_.xclbin.string()), device_->kernel);
            context_ = context;
            instructions_ = xrt::bo(device_->device, instruction_bytes_.size(), xrt::bo::flags::cacheable,
                                    static_cast<xrt::memory_group>(context->kernel.group_id(1)));
            std::memcpy(instructions_.map(), instruction_bytes_.data(), instruction_bytes_.size());
            instructions_.sync(XCL_BO_SYNC_BO_TO_DEVICE);
        });
        if (!opened) close();
        return opened;
    }

    // For all designs that share it: each finds that it is gone, and opens what is there next.
    void close() {
        instructions_ = {};
        device_->contexts.erase(name_);
    }

    const XrtContext& context() const { return *device_->contexts.at(name_); }
    const std::string& name() const { return name_; }

  private:
    static XrtBuffer& buffer(Buffer* argument) { return static_cast<XrtBuffer&>(*argument); }

    Result<ert_cmd_state> run_once(std::span<Buffer* const> arguments, std::chrono::milliseconds timeout,
                                   RunReport& report) {
        xrt::run run = TRY(prepare(arguments, report));
        const Clock::time_point begin = Clock::now();
        const ert_cmd_state state = TRY(guarded("running '" + name_ + "'", [&] {
            run.start();
            return run.wait(std::max(timeout, std::chrono::milliseconds{1}));  // none would be for ever
        }));
        report.seconds = seconds_since(begin);
        return state;
    }

    Status check_xclbin() const {
        const MappedFile file = TRY(MappedFile::open(files_.xclbin));
        const Xclbin xclbin = TRY(read_xclbin(file.bytes(), files_.xclbin.string()));
        const std::vector<std::string> names = TRY(kernel_names(xclbin));
        if (std::find(names.begin(), names.end(), device_->kernel) == names.end())
            return fail("{}: has no kernel '{}' (it has: {}): build the design again", files_.xclbin.string(),
                        device_->kernel, fmt::join(names, ", "));
        return Ok{};
    }

    std::shared_ptr<XrtDevice> device_;
    std::string name_;
    std::vector<bool> written_;    // of the arguments
    std::vector<uint64_t> sizes_;  // of the arguments, in bytes
    BuiltDesign files_;
    std::vector<std::byte> instruction_bytes_;
    std::weak_ptr<XrtContext> context_;  // the device's
    xrt::bo instructions_;
};

class XrtRuntime final : public Runtime {
  public:
    XrtRuntime(XrtOptions options, xrt::device device)
        : options_(std::move(options)),
          device_(std::make_shared<XrtDevice>(XrtDevice{.device = std::move(device), .kernel = options_.kernel})) {
        const std::optional<NpuDevice> npu = discover(System::here()).device;
        description_ = {.kind = device::Kind::npu,
                        .name = "npu",
                        .hardware = npu ? npu->hardware : "no NPU, but another device of XRT",
                        .details = npu ? fmt::format("{}, {}, XRT", npu->array, npu->node) : "XRT"};
    }

    std::string_view name() const override { return "npu"; }
    const device::Description& describe() const override { return description_; }

    Result<std::shared_ptr<Buffer>> import_memory(std::span<std::byte> memory, BufferOptions options) override {
        return std::shared_ptr<Buffer>(TRY(XrtBuffer::create(device_->device, memory, std::move(options))));
    }

    Result<std::unique_ptr<LoadedDesign>> load(const Design& design) override {
        BuiltDesign files = TRY(options_.built(design));
        auto loaded = std::make_unique<XrtDesign>(device_, design, std::move(files));
        TRY(loaded->load());
        return std::unique_ptr<LoadedDesign>(std::move(loaded));
    }

#ifdef TANDEM_XRT_RUNLIST
    // Runs of one design after another are one list.
    Result<RunReport> run_all(std::span<const Launch> launches, std::chrono::milliseconds timeout) override {
        const Clock::time_point end = Clock::now() + timeout;
        RunReport sum;
        while (!launches.empty()) {
            const auto other = std::find_if(launches.begin(), launches.end(),
                                            [&](const Launch& launch) { return launch.design != launches[0].design; });
            const auto count = static_cast<size_t>(other - launches.begin());
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
            const RunReport report = TRY(run_list(launches.first(count), left));
            sum.seconds += report.seconds;
            sum.copied_bytes += report.copied_bytes;
            sum.flushed_bytes += report.flushed_bytes;
            launches = launches.subspan(count);
        }
        return sum;
    }
#endif

  private:
#ifdef TANDEM_XRT_RUNLIST
    Result<RunReport> run_list(std::span<const Launch> launches, std::chrono::milliseconds timeout) {
        auto& design = static_cast<XrtDesign&>(*launches[0].design);
        TRY(design.open());
        RunReport report;
        const Status done = execute(design, launches, timeout, report);
        if (!done) {
            design.close();
            return done.error();
        }
        for (const Launch& launch : launches) TRY(design.finish(launch.arguments, report));
        return report;
    }

    static Status execute(XrtDesign& design, std::span<const Launch> launches, std::chrono::milliseconds timeout,
                          RunReport& report) {
        xrt::runlist list = TRY(guarded("making a run list", [&] { return xrt::runlist(design.context().hardware); }));
        for (const Launch& launch : launches) {
            TRY(design.check_arguments(launch.arguments));
            const xrt::run run = TRY(design.prepare(launch.arguments, report));
            TRY(guarded("adding to a run list", [&] { list.add(run); }));
        }
        const Clock::time_point begin = Clock::now();
        const std::cv_status status = TRY(guarded("running '" + design.name() + "'", [&] {
            list.execute();
            return list.wait(std::max(timeout, std::chrono::milliseconds{1}));
        }));
        report.seconds = seconds_since(begin);
        if (status == std::cv_status::timeout) return state_error(design.name(), ERT_CMD_STATE_TIMEOUT);
        return Ok{};
    }
#endif

    XrtOptions options_;
    std::shared_ptr<XrtDevice> device_;
    device::Description description_;
};

Result<std::unique_ptr<Runtime>> open_device(XrtOptions options) {
    CHECK(options.built != nullptr);
    xrt::device device = TRY(guarded(fmt::format("opening device {}", options.device),
                                     [&] { return xrt::device(static_cast<unsigned>(options.device)); }));
    return std::unique_ptr<Runtime>(std::make_unique<XrtRuntime>(std::move(options), std::move(device)));
}

}  // namespace
}  // namespace tandem::npu

TANDEM_MODULE_VERSION()

TANDEM_MODULE_EXPORT void tandem_open_xrt(tandem::npu::XrtOptions options,
                                          tandem::Result<std::unique_ptr<tandem::npu::Runtime>>& result) {
    result = tandem::npu::open_device(std::move(options));
}
static_assert(std::is_same_v<decltype(tandem_open_xrt), tandem::npu::OpenXrt>);
