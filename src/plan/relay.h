// Relay: segments of a Program, each compiled for its device; a step's micro-batches go from one to the next,
// overlapping.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/backend.h"
#include "device/host_memory.h"
#include "graph/segment.h"
#include "plan/micro_batch.h"
#include "plan/pipeline.h"
#include "plan/timeline.h"

namespace tandem::plan {

struct RelayDevice {
    device::Backend* backend = nullptr;      // outlives the Relay
    std::shared_ptr<device::KvCache> cache;  // that the segments' numbers of layers mean
};

struct RelayArguments {
    std::vector<graph::Segment> segments;  // of the devices by their numbers
    std::vector<RelayDevice> devices;
    const graph::Weights& weights;
    const device::CompileOptions& options;  // limits are those of a micro-batch
    std::shared_ptr<Timeline> timeline = nullptr;
};

// What a device did of a step.
struct DeviceTime {
    double busy_s = 0;
    int tasks = 0;
};

// Values that cross lie in whole pages of host memory that all devices were given; nobody copies them.
class Relay {
  public:
    static Outcome<std::unique_ptr<Relay>, PipelineFailure> compile(RelayArguments arguments);
    ~Relay();

    // All steps of the batch, in micro-batches of at most `rows` rows, which the limits allow.
    std::optional<PipelineFailure> run(const device::Batch& batch, int rows, const device::FindAllowed& find_allowed);

    // Of the last run, as those of an Executable.
    std::span<const std::byte> result(size_t index) const { return results_[index].bytes; }
    const std::vector<DeviceTime>& device_times() const { return device_times_; }
    double seconds() const { return seconds_; }

    // Whether tokens are drawn, so that a batch may have several steps.
    bool draws() const;
    Result<std::vector<device::StageTime>> profile(const device::Batch& batch, int rows);

  private:
    // What one micro-batch needs on its way: memory for the values that cross, and executables over it.
    struct Slot {
        device::HostBuffer memory;
        std::vector<device::SharedValue> shared;
        std::vector<std::unique_ptr<device::Executable>> executables;  // per segment
    };
    // Where a result of the whole is made.
    struct ResultPlace {
        int segment = 0;
        size_t index = 0;  // among the segment's results
        size_t row_bytes = 0;
        bool drawn = false;            // tokens, of which those of all steps are kept
        std::vector<std::byte> bytes;  // of the last run
    };

    explicit Relay(RelayArguments arguments);
    Status place_crossings(Slot& slot) const;
    Outcome<Ok, PipelineFailure> compile_slot(Slot& slot, const RelayArguments& arguments);
    void find_results();
    Slot& slot_of(Task task) { return slots_[static_cast<size_t>(task.micro_batch) % slots_.size()]; }
    Status run_task(Task task, MicroBatch& part, const device::FindAllowed& find_allowed);
    void keep_results(Task task, const MicroBatch& part);
    void go_on_with_drawn(Task task, MicroBatch& part);

    std::vector<graph::Segment> segments_;
    std::vector<int> device_of_segment_;
    std::vector<std::string> device_names_;
    std::vector<std::string> wanted_;
    graph::Extents limits_;
    std::shared_ptr<Timeline> timeline_;
    std::vector<Slot> slots_;
    std::vector<ResultPlace> results_;
    size_t outputs_ = 0;  // of the last run
    int rounds_ = 1;      //
    std::vector<DeviceTime> device_times_;
    double seconds_ = 0;
};

}  // namespace tandem::plan
