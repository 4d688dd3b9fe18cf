// Pipeline: micro-batches on their way through segments of several devices, each device busy with one at a time.
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
    int round = 0;
};

struct PipelineShape {
    int micro_batches = 1;
    std::span<const int> device_of_segment;
    int slots = 2;   // micro-batches that can be on their way at once
    int rounds = 1;  // how often each goes through all segments: sequences that draw go on with what they drew
};

// Which tasks may begin. A micro-batch follows the one before it through every segment, since its rows attend to those
// before, and it begins when the one that had its memory is through.
class PipelineOrder {
  public:
    explicit PipelineOrder(const PipelineShape& shape);

    int devices() const { return devices_; }
    int device_of(Task task) const { return shape_.device_of_segment[static_cast<size_t>(task.segment)]; }
    // What the device should do next: the oldest micro-batch of the earliest round first.
    std::optional<Task> next(int device) const;
    // Nothing is left for the device, now or later.
    bool done(int device) const;

    void begin(Task task) { running_[static_cast<size_t>(task.micro_batch)] = true; }
    void finish(Task task);

    // The only task that may ever begin next; none: there are several, or all is done.
    std::optional<Task> only() const;

  private:
    int segments() const { return static_cast<int>(shape_.device_of_segment.size()); }
    int end() const { return segments() * shape_.rounds; }
    int device_at(int reached) const { return shape_.device_of_segment[static_cast<size_t>(reached % segments())]; }

    PipelineShape shape_;
    int devices_ = 0;
    std::vector<int> reached_;  // per micro-batch: how many tasks are behind it
    std::vector<bool> running_;
};

struct PipelineFailure {
    int device;
    Error error;
};

// Runs every task, those of each device but the first on a thread of its own where several can be under way; none
// begins after one has failed.
std::optional<PipelineFailure> run_pipeline(PipelineOrder& order, const std::function<Status(Task)>& run);

// How long that takes, and how long each device is busy, if a task takes `seconds(task)`.
struct PipelineTime {
    double seconds = 0;
    std::vector<double> busy;  // of each device
};
PipelineTime simulate_pipeline(PipelineOrder& order, const std::function<double(Task)>& seconds);

}  // namespace tandem::plan
