#include "plan/split.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/check.h"
#include "base/units.h"

namespace tandem::plan {

namespace {

PartSeconds& operator+=(PartSeconds& sum, const PartSeconds& part) {
    sum.decode += part.decode;
    sum.prompt += part.prompt;
    return sum;
}

SplitStage stage_of(const PartBytes& bytes, const std::vector<SplitDevice>& devices, int device, int first, int end) {
    const SplitDevice& on = devices[static_cast<size_t>(device)];
    const auto layers = static_cast<int>(bytes.layers.size());
    SplitStage stage{.device = device, .first_layer = first, .end_layer = end, .bytes = on.work_bytes};
    for (int i = first; i < end; ++i) {
        stage.bytes += bytes.layers[static_cast<size_t>(i)];
        stage.seconds += on.layers[static_cast<size_t>(i)];
    }
    if (first == 0) {
        stage.bytes += bytes.first;
        stage.seconds += on.first;
    }
    if (end == layers) {
        stage.bytes += bytes.last;
        stage.seconds += on.last;
    } else {
        stage.seconds += on.hand_over;
    }
    if (first == 0 && end == layers) stage.bytes -= bytes.shared;
    return stage;
}

// The first layers on the first devices. Neither the slowest stage nor the sum tells alone what is best in the end.
struct Partial {
    double slowest = 0;
    double sum = 0;
    int before = -1;  // the Partial that it goes on from
    SplitStage stage = {};
};

class Search {
  public:
    Search(const PartBytes& bytes, const std::vector<SplitDevice>& devices, const SplitGoal& goal)
        : bytes_(bytes), devices_(devices), goal_(goal), reached_(bytes.layers.size() + 1) {
        partials_.push_back({});
        reached_[0] = {0};
    }

    std::vector<SplitStage> run() {
        for (int device = 0; device < std::ssize(devices_); ++device) add_device(device);
        const Partial* best = nullptr;
        for (const int each : reached_.back()) {
            const Partial& partial = partials_[static_cast<size_t>(each)];
            if (best == nullptr || seconds(partial) < seconds(*best)) best = &partial;
        }
        std::vector<SplitStage> stages;
        for (; best != nullptr && best->before >= 0; best = &partials_[static_cast<size_t>(best->before)])
            stages.push_back(best->stage);
        std::reverse(stages.begin(), stages.end());
        return stages;
    }

  private:
    double seconds(const Partial& partial) const { return partial.sum + (goal_.micro_batches - 1) * partial.slowest; }

    void add_device(int device) {
        const auto layers = static_cast<int>(bytes_.layers.size());
        std::vector<std::vector<int>> next(reached_.size());
        if (!goal_.all_devices) next = reached_;
        for (int first = 0; first < layers; ++first) {
            if (reached_[static_cast<size_t>(first)].empty()) continue;
            for (int end = first + 1; end <= layers; ++end) {
                const SplitStage stage = stage_of(bytes_, devices_, device, first, end);
                if (stage.bytes > devices_[static_cast<size_t>(device)].memory_bytes && end < layers) break;
                if (stage.bytes > devices_[static_cast<size_t>(device)].memory_bytes) continue;
                for (const int before : reached_[static_cast<size_t>(first)])
                    add(next[static_cast<size_t>(end)], before, stage);
            }
        }
        reached_ = std::move(next);
    }

    void add(std::vector<int>& front, int before, const SplitStage& stage) {
        const Partial& from = partials_[static_cast<size_t>(before)];
        const double took = goal_.decode_steps * stage.seconds.decode + stage.seconds.prompt;
        const Partial made{
            .slowest = std::max(from.slowest, took), .sum = from.sum + took, .before = before, .stage = stage};
        const auto beats = [](const Partial& a, const Partial& b) { return a.slowest <= b.slowest && a.sum <= b.sum; };
        for (const int other : front) {
            if (beats(partials_[static_cast<size_t>(other)], made)) return;
        }
        std::erase_if(front, [&](int other) { return beats(made, partials_[static_cast<size_t>(other)]); });
        front.push_back(static_cast<int>(partials_.size()));
        partials_.push_back(made);
    }

    const PartBytes& bytes_;
    const std::vector<SplitDevice>& devices_;
    const SplitGoal& goal_;
    std::vector<Partial> partials_;
    std::vector<std::vector<int>> reached_;  // per number of layers: those that nothing beats
};

std::string describe_limits(const std::vector<SplitDevice>& devices) {
    std::string text;
    for (const SplitDevice& device : devices) {
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", device.name, format_bytes(device.memory_bytes));
        if (device.work_bytes > 0) text += fmt::format(" less {} for its steps", format_bytes(device.work_bytes));
    }
    return text;
}

void check_sizes(const PartBytes& bytes, const std::vector<SplitDevice>& devices) {
    CHECK(!devices.empty() && !bytes.layers.empty(), "a split needs devices and layers");
    for (const SplitDevice& device : devices)
        CHECK(device.layers.size() == bytes.layers.size(), "every device has a time for every layer");
}

constexpr const char* kRemedy = "use a smaller --context, --kv q8_0 or weights of fewer bits";

}  // namespace

Result<std::vector<SplitStage>> split_layers(const PartBytes& bytes, const std::vector<SplitDevice>& devices,
                                             const SplitGoal& goal) {
    check_sizes(bytes, devices);
    CHECK(goal.micro_batches > 0, "nothing to run");
    if (goal.all_devices && devices.size() > bytes.layers.size())
        return fail("{} layers cannot be split over {} devices", bytes.layers.size(), devices.size());
    std::vector<SplitStage> stages = Search(bytes, devices, goal).run();
    if (!stages.empty()) return stages;
    const uint64_t whole = std::accumulate(bytes.layers.begin(), bytes.layers.end(), bytes.first + bytes.last);
    return fail("{} layers of {} together do not fit into the devices ({}): {}", bytes.layers.size(),
                format_bytes(whole - bytes.shared), describe_limits(devices), kRemedy);
}

Result<std::vector<SplitStage>> split_at(const PartBytes& bytes, const std::vector<SplitDevice>& devices,
                                         const std::vector<int>& cuts) {
    check_sizes(bytes, devices);
    CHECK(cuts.size() + 1 == devices.size(), "a cut between each two devices");
    std::vector<SplitStage> stages;
    for (size_t i = 0; i < devices.size(); ++i) {
        const int first = i == 0 ? 0 : cuts[i - 1];
        const int end = i == cuts.size() ? static_cast<int>(bytes.layers.size()) : cuts[i];
        stages.push_back(stage_of(bytes, devices, static_cast<int>(i), first, end));
        if (stages.back().bytes > devices[i].memory_bytes) {
            return fail("--split: layers {} to {} need {} on {}, which has {}: give it fewer, or {}", first, end - 1,
                        format_bytes(stages.back().bytes), devices[i].name, format_bytes(devices[i].memory_bytes),
                        kRemedy);
        }
    }
    return stages;
}

Result<std::vector<int>> parse_cuts(std::string_view text, int devices, int layers) {
    std::vector<int> cuts;
    const auto wrong = [&](std::string_view why) {
        return fail("--split {}: {}; {} devices and {} layers need {} ascending {} from 1 to {}, such as {}", text, why,
                    devices, layers, devices - 1, devices == 2 ? "number" : "numbers", layers - 1, layers / devices);
    };
    for (size_t begin = 0; begin <= text.size();) {
        const size_t comma = std::min(text.find(',', begin), text.size());
        const std::string_view piece = text.substr(begin, comma - begin);
        int cut = 0;
        const auto [end, error] = std::from_chars(piece.data(), piece.data() + piece.size(), cut);
        if (error != std::errc() || end != piece.data() + piece.size() || piece.empty())
            return wrong(fmt::format("'{}' is no number", piece));
        if (cut <= (cuts.empty() ? 0 : cuts.back()) || cut >= layers)
            return wrong(fmt::format("{} leaves a device without layers", cut));
        cuts.push_back(cut);
        begin = comma + 1;
    }
    if (std::ssize(cuts) != devices - 1) return wrong(fmt::format("{} cuts", cuts.size()));
    return cuts;
}

double pipelined_seconds(const std::vector<double>& stages, int micro_batches) {
    if (stages.empty()) return 0;
    return std::accumulate(stages.begin(), stages.end(), 0.0) +
           (micro_batches - 1) * *std::max_element(stages.begin(), stages.end());
}

}  // namespace tandem::plan
