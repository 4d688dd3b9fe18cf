// Pipeline: micro-batches on their way through segments of two devices, each device busy with one at a time.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"

namespace tandem::plan {

struct Task {
    int micro_batch = 0;
    int segment = 0;
};

// Which tasks may begin. A micro-batch follows the one before it through every segment, since its rows attend to those
// before, and it begins when the one that had its memory is through.
class PipelineOrder {
  public:
    // `slots`: micro-batches that can be on their way at once.
    PipelineOrder(int micro_batches, std::span<const int> device_of_segment, int slots);

    // What the device should do next: the oldest micro-batch first.
    std::optional<Task> next(int device) const;
    // Nothing is left for the device, now or later.
    bool done(int device) const;

    void begin(Task task) { running_[static_cast<size_t>(task.micro_batch)] = true; }
    void finish(Task task);

  private:
    int segments() const { return static_cast<int>(devices_.size()); }

    std::span<const int> devices_;
    int slots_;
    std::vector<int> reached_;  // per micro-batch: the segment that is next
    std::vector<bool> running_;
};

struct PipelineFailure {
    int device;
    Error error;
};

// Micro-batches that are on their way at once: one on each device.
inline constexpr int kSlots = 2;

// Runs every task, those of device 1 on a thread of its own; none begins after one has failed.
std::optional<PipelineFailure> run_pipeline(PipelineOrder& order, const std::function<Status(Task)>& run);

// How long that takes, and how long each device is busy, if a task takes `seconds(task)`.
struct PipelineTime {
    double seconds = 0;
    double busy[2] = {0, 0};
};
PipelineTime simulate_pipeline(PipelineOrder& order, const std::function<double(Task)>& seconds);

}  // namespace tandem::plan
