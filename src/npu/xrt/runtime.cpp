#include "npu/xrt/runtime.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/file.h"
#include "npu/design.h"
#include "npu/xrt/buffer.h"
#include "npu/xrt/context.h"
#include "npu/xrt/discovery.h"
#include "npu/xrt/guard.h"
#include "npu/xrt/xclbin.h"

namespace tandem::npu {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kRunInstructions = 3;  // the operation code of a runtime sequence
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

class XrtDesign;

// What the designs of a device share: the few contexts it has, the last used first.
struct XrtDevice {
    xrt::device device;
    std::string kernel;  // of every design
    std::vector<XrtDesign*> open;
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
    ~XrtDesign() override { close(); }

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
        TRY(open());
        RunReport report;
        xrt::run run = TRY(prepare(arguments, report));
        const Clock::time_point begin = Clock::now();
        const ert_cmd_state state = TRY(guarded("running '" + name_ + "'", [&] {
            run.start();
            return run.wait(std::max(timeout, std::chrono::milliseconds{1}));  // none would be for ever
        }));
        if (state != ERT_CMD_STATE_COMPLETED) {
            close();  // whatever it still does ends with its context
            return state_error(name_, state);
        }
        report.seconds = seconds_since(begin);
        TRY(finish(arguments, report));
        return report;
    }

    // A run with its arguments in place, and what follows when it is done. Both add to what was copied.
    Result<xrt::run> prepare(std::span<Buffer* const> arguments, RunReport& report) {
        TRY(check_arguments(arguments));
        for (Buffer* argument : arguments) report.copied_bytes += TRY(buffer(argument).to_device());
        return guarded("setting the arguments of '" + name_ + "'", [&] {
            xrt::run run(context_->kernel);
            run.set_arg(0, kRunInstructions);
            run.set_arg(1, instructions_);
            run.set_arg(2, static_cast<uint32_t>(instruction_bytes_.size() / sizeof(uint32_t)));
            for (size_t i = 0; i < arguments.size(); ++i)
                run.set_arg(XclbinKernel::kFirstBuffer + static_cast<int>(i), buffer(arguments[i]).bo());
            return run;
        });
    }

    Status finish(std::span<Buffer* const> arguments, RunReport& report) {
        for (size_t i = 0; i < arguments.size(); ++i) {
            if (written_[i]) report.copied_bytes += TRY(buffer(arguments[i]).from_device());
        }
        return Ok{};
    }

    // Of the device's contexts one becomes this design's; the one that was unused for longest gives way.
    Status open() {
        std::vector<XrtDesign*>& all = device_->open;
        const auto mine = std::find(all.begin(), all.end(), this);
        if (mine != all.end()) {
            std::rotate(all.begin(), mine, mine + 1);
            return Ok{};
        }
        while (all.size() >= XrtContext::kMost) all.back()->close();
        Status opened = guarded("loading " + files_.xclbin.string(), [&] {
            context_.emplace(device_->device, xrt::xclbin(files_.xclbin.string()), device_->kernel);
            instructions_ = xrt::bo(device_->device, instruction_bytes_.size(), xrt::bo::flags::cacheable,
                                    static_cast<xrt::memory_group>(context_->kernel.group_id(1)));
            std::memcpy(instructions_.map(), instruction_bytes_.data(), instruction_bytes_.size());
            instructions_.sync(XCL_BO_SYNC_BO_TO_DEVICE);
        });
        if (!opened) {
            close();
            return opened;
        }
        all.insert(all.begin(), this);
        return Ok{};
    }

    void close() {
        std::erase(device_->open, this);
        instructions_ = {};
        context_.reset();
    }

    const XrtContext& context() const { return *context_; }
    const std::string& name() const { return name_; }

  private:
    static XrtBuffer& buffer(Buffer* argument) { return static_cast<XrtBuffer&>(*argument); }

    Status check_xclbin() const {
        const MappedFile file = TRY(MappedFile::open(files_.xclbin));
        const Xclbin xclbin = TRY(read_xclbin(file.bytes(), files_.xclbin.string()));
        const std::vector<std::string> names = TRY(kernel_names(xclbin));
        if (std::find(names.begin(), names.end(), device_->kernel) == names.end())
            return fail("{}: has no kernel '{}' (it has: {}): build the design again", files_.xclbin.string(),
                        device_->kernel, fmt::join(names, ", "));
        return Ok{};
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

    std::shared_ptr<XrtDevice> device_;
    std::string name_;
    std::vector<bool> written_;    // of the arguments
    std::vector<uint64_t> sizes_;  // of the arguments, in bytes
    BuiltDesign files_;
    std::vector<std::byte> instruction_bytes_;
    std::optional<XrtContext> context_;
    xrt::bo instructions_;
};

class XrtRuntime final : public Runtime {
  public:
    XrtRuntime(XrtOptions options, xrt::device device)
        : options_(std::move(options)),
          device_(std::make_shared<XrtDevice>(XrtDevice{std::move(device), options_.kernel, {}})) {
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

    Result<std::shared_ptr<Buffer>> part(const std::shared_ptr<Buffer>& whole, uint64_t offset,
                                         uint64_t size_bytes) override {
        return std::shared_ptr<Buffer>(
            TRY(XrtBuffer::part(std::static_pointer_cast<XrtBuffer>(whole), offset, size_bytes)));
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
        xrt::runlist list = TRY(guarded("making a run list", [&] { return xrt::runlist(design.context().hardware); }));
        for (const Launch& launch : launches) {
            const xrt::run run = TRY(design.prepare(launch.arguments, report));
            TRY(guarded("adding to a run list", [&] { list.add(run); }));
        }
        const Clock::time_point begin = Clock::now();
        const Result<std::cv_status> done = guarded("running '" + design.name() + "'", [&] {
            list.execute();
            return list.wait(std::max(timeout, std::chrono::milliseconds{1}));
        });
        if (!done || *done == std::cv_status::timeout) {
            design.close();
            return done ? state_error(design.name(), ERT_CMD_STATE_TIMEOUT) : done.error();
        }
        report.seconds = seconds_since(begin);
        for (const Launch& launch : launches) TRY(design.finish(launch.arguments, report));
        return report;
    }
#endif

    XrtOptions options_;
    std::shared_ptr<XrtDevice> device_;
    device::Description description_;
};

}  // namespace

Result<std::unique_ptr<Runtime>> open_xrt(XrtOptions options) {
    CHECK(options.built != nullptr);
    xrt::device device = TRY(guarded(fmt::format("opening device {}", options.device),
                                     [&] { return xrt::device(static_cast<unsigned>(options.device)); }));
    return std::unique_ptr<Runtime>(std::make_unique<XrtRuntime>(std::move(options), std::move(device)));
}

}  // namespace tandem::npu
