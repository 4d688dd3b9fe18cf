#include "npu/estimate.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <new>

#include "npu/check.h"
#include "npu/flow.h"
#include "npu/memory_map.h"
#include "npu/tile_use.h"

namespace tandem::npu {
namespace {

// Published floors, of a run among others and alone.
constexpr double kBatchedDispatchSeconds = 40e-6;
constexpr double kLoneDispatchSeconds = 120e-6;

// The counts of calls, each list of sizes called once.
class CallCosts {
  public:
    CallCosts(std::span<const Sample> samples, std::span<const Share> shares) : samples_(samples), shares_(shares) {}

    std::span<const Share> shares() const { return shares_; }

    Result<Counts> of(const Design& design, const Worker& worker, const Call& call) {
        const Kernel* kernel = find_kernel(call.kernel);
        if (kernel == nullptr) return fail("design '{}': there is no kernel '{}'", design.name, call.kernel);
        std::vector<KernelArgument> arguments;
        arguments.reserve(call.arguments.size());
        for (const auto& argument : call.arguments) arguments.push_back(argument_of(design, worker, argument));
        Key key{call.kernel, {}};
        for (const KernelArgument& argument : arguments)
            key.second.push_back(argument.is_value ? argument.value : argument.size_bytes);
        if (const auto known = costs_.find(key); known != costs_.end()) return known->second;
        std::vector<Memory> scratch;
        for (size_t i = 0; i < arguments.size(); ++i) {
            if (arguments[i].is_value) continue;
            scratch.push_back(zeros(arguments[i].size_bytes));
            arguments[i].data = scratch.back().get();
            const std::span<std::byte> bytes{scratch.back().get(), static_cast<size_t>(arguments[i].size_bytes)};
            if (const auto* object = std::get_if<ObjectArgument>(&call.arguments[i])) put_sample(object->fifo, bytes);
            if (const auto* buffer = std::get_if<BufferArgument>(&call.arguments[i])) put_sample(buffer->buffer, bytes);
        }
        TRY(check_call(*kernel, arguments));
        return costs_[key] = run_kernel(*kernel, arguments);
    }

  private:
    using Key = std::pair<std::string, std::vector<int64_t>>;
    struct Free {
        void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t{kBufferAlignment}); }
    };
    using Memory = std::unique_ptr<std::byte[], Free>;

    static Memory zeros(int64_t size_bytes) {
        const auto size = static_cast<size_t>(size_bytes);
        Memory memory(static_cast<std::byte*>(::operator new[](size, std::align_val_t{kBufferAlignment})));
        std::fill_n(memory.get(), size, std::byte{0});
        return memory;
    }

    void put_sample(const std::string& name, std::span<std::byte> object) const {
        const auto sample =
            std::find_if(samples_.begin(), samples_.end(), [&](const Sample& have) { return have.name == name; });
        if (sample == samples_.end()) return;
        std::copy_n(sample->object.begin(), std::min(sample->object.size(), object.size()), object.begin());
    }

    // Of a design that was checked: all names are there.
    template <typename Argument>
    static KernelArgument argument_of(const Design& design, const Worker& worker, const Argument& argument) {
        if (const auto* number = std::get_if<int32_t>(&argument)) return {.value = *number, .is_value = true};
        if (const auto* buffer = std::get_if<BufferArgument>(&argument))
            return {.size_bytes = find_buffer(worker, buffer->buffer)->type.size_bytes()};
        return {.size_bytes = find_fifo(design, std::get<ObjectArgument>(argument).fifo)->object.size_bytes()};
    }

    std::span<const Sample> samples_;
    std::span<const Share> shares_;
    std::map<Key, Counts> costs_;
};

uint64_t working_calls(std::span<const Share> shares, Tile tile, const std::string& kernel, uint64_t calls) {
    for (const Share& share : shares) {
        if (share.tile == tile && share.kernel == kernel) return std::min(share.calls, calls);
    }
    return calls;
}

Status add_calls(const Design& design, const Worker& worker, const std::vector<Statement>& body, uint64_t times,
                 CallCosts& costs, TileActivity& activity) {
    for (const Statement& statement : body) {
        if (const auto* call = std::get_if<Call>(&statement)) {
            const Counts counts = TRY(costs.of(design, worker, *call));
            const uint64_t working = working_calls(costs.shares(), worker.tile, call->kernel, times);
            activity.calls += times;
            const Array& array = *find_array(design.array);
            activity.cycles +=
                counts.cycles(issue_rates(design, worker, array, *call, *find_kernel(call->kernel))) * working;
            activity.counts.add(counts, working);
        } else if (const auto* loop = std::get_if<Loop>(&statement)) {
            TRY(add_calls(design, worker, loop->body, times * static_cast<uint64_t>(loop->count), costs, activity));
        }
    }
    return Ok{};
}

double ddr_seconds(const Activity& activity, const Array& array) {
    double slowest = 0;
    std::array<double, 2> together{};
    for (const HostActivity& channel : activity.host) {
        const auto size_bytes = static_cast<double>(channel.size_bytes);
        slowest = std::max(slowest, size_bytes / (array.shim_channel_gb_s * 1e9));
        together[channel.to_array ? 0 : 1] += size_bytes;
    }
    return std::max(slowest, std::max(together[0], together[1]) / (array.ddr_gb_s * 1e9));
}

// One object from the host to a core, through a mem tile, and one back.
double end_seconds(const Activity& activity, const Array& array, double clock_hz) {
    std::array<double, 2> largest{};
    for (const HostActivity& channel : activity.host) {
        double& bytes = largest[channel.to_array ? 0 : 1];
        bytes = std::max(bytes, static_cast<double>(channel.object_bytes));
    }
    const double stream_bytes_s = static_cast<double>(array.stream_bytes_per_cycle) * clock_hz;
    return (largest[0] + largest[1]) * (1 / (array.shim_channel_gb_s * 1e9) + 1 / stream_bytes_s);
}

}  // namespace

Result<Activity> foresee(const Design& design, std::span<const Sample> samples, std::span<const Share> shares) {
    const Array* array = find_array(design.array);
    TRY(check(design));
    const Flow flow = TRY(flow_of(design, *array));
    Activity activity;
    CallCosts costs(samples, shares);
    activity.tiles.reserve(design.workers.size());
    for (const Worker& worker : design.workers) {
        TileActivity tile{.tile = worker.tile, .calls = 0, .cycles = 0, .counts = {}};
        TRY(add_calls(design, worker, worker.body, static_cast<uint64_t>(flow.rounds.at(worker.tile)), costs, tile));
        activity.tiles.push_back(tile);
    }
    for (const Fifo& fifo : design.fifos) {
        if (!shares_memory(fifo, *array)) activity.add_stream(fifo, static_cast<uint64_t>(flow.objects.at(fifo.name)));
    }
    return activity;
}

std::string_view name(Bound bound) {
    switch (bound) {
        case Bound::compute:
            return "compute";
        case Bound::local_loads:
            return "local loads";
        case Bound::streams:
            return "streams";
        case Bound::ddr:
            return "DDR";
    }
    CHECK(false, "no such bound");
}

Bound Estimate::bound() const {
    const std::array times{compute_s, local_loads_s, streams_s, ddr_s};
    return static_cast<Bound>(std::max_element(times.begin(), times.end()) - times.begin());
}

double Estimate::seconds() const {
    return std::max({compute_s, local_loads_s, streams_s, ddr_s}) + ends_s + dispatch_s;
}

double Estimate::tops() const {
    return 2 * static_cast<double>(macs) / seconds() / 1e12;
}

Estimate estimate(const Activity& activity, const Array& array, const EstimateOptions& options) {
    const double clock_hz = (options.clock_mhz > 0 ? options.clock_mhz : array.clock_mhz) * 1e6;
    Estimate made;
    for (const TileActivity& tile : activity.tiles) {
        made.macs += tile.counts.macs;
        made.compute_s =
            std::max(made.compute_s, options.outlook.compute * static_cast<double>(tile.cycles) / clock_hz);
        made.local_loads_s =
            std::max(made.local_loads_s, static_cast<double>(tile.counts.load_bytes) /
                                             (static_cast<double>(array.local_load_bytes_per_cycle) * clock_hz));
    }
    for (const StreamActivity& stream : activity.streams)
        made.streams_s = std::max(made.streams_s, static_cast<double>(stream.size_bytes) /
                                                      (static_cast<double>(array.stream_bytes_per_cycle) * clock_hz));
    made.ddr_s = ddr_seconds(activity, array) / options.outlook.ddr;
    made.ends_s = end_seconds(activity, array, clock_hz);
    made.dispatch_s = options.batched ? kBatchedDispatchSeconds : kLoneDispatchSeconds;
    made.utilization =
        static_cast<double>(made.macs) / (made.seconds() * clock_hz * array.macs_per_cycle_i8 * array.compute_tiles());
    return made;
}

}  // namespace tandem::npu
