// Stage: the part of a Program that a rank runs, and the micro-batches of steps on their way through it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/backend.h"
#include "device/host_memory.h"
#include "plan/micro_batch.h"
#include "ranks/parts.h"
#include "ranks/post.h"

namespace tandem::ranks {

// What a rank did in a step, or in all.
struct StageSeconds {
    double busy = 0;     // its device ran
    double waiting = 0;  // for what ranks before it hand over

    StageSeconds& operator+=(const StageSeconds& other) {
        busy += other.busy;
        waiting += other.waiting;
        return *this;
    }
};

struct StageSettings {
    Post& post;
    const std::vector<Part>& parts;  // of all ranks, in their order
    const graph::Weights& weights;   // of the whole model
    device::Backend& backend;
    std::shared_ptr<device::KvCache> cache;  // of this part's layers
    std::vector<std::string> results;        // of the whole Program; the last rank makes them
    graph::Extents limits;
    bool exact_rows = false;  // rows are handed over in f32
    bool ready = false;
    std::function<Status(double)> progress = {};
};

// The error of a rank that could not go on for what another one failed at.
inline constexpr std::string_view kOtherFailed = "another rank failed";

// How a step is run.
struct StepRun {
    const device::Batch& batch;
    int micro_rows = 1;                     // of a micro-batch
    device::FindAllowed find_allowed = {};  // the last rank needs it, the first calls it when it has handed over all
    // Of the first rank: gets the results of a micro-batch in the order in which they come.
    std::function<void(const plan::MicroBatch& part, int step, size_t result, std::span<const std::byte>)> on_result =
        {};
};

class Stage {
  public:
    static Result<std::unique_ptr<Stage>> open(StageSettings settings);

    // All ranks run the same steps in the same order. A rank whose device fails says so to those after it and goes on,
    // so that all are at the same place afterwards. `broken` is set when a message did not come: then nothing goes on.
    Status run(const StepRun& run, StageSeconds& seconds, bool& broken);

  private:
    struct Value {
        std::string name;
        graph::TensorType type;
        device::HostBuffer memory;
    };
    // What one rank takes of this one.
    struct Reader {
        int rank = 0;
        std::vector<size_t> values;  // of made_
    };
    // What this one takes of another.
    struct Maker {
        int rank = 0;
        std::vector<size_t> values;  // of taken_
    };

    explicit Stage(StageSettings settings) : settings_(std::move(settings)) {}

    const Part& part() const { return settings_.parts[static_cast<size_t>(rank_)]; }
    bool is_first() const { return rank_ == 0; }
    bool is_last() const { return rank_ + 1 == std::ssize(settings_.parts); }
    Status find_neighbours();
    Result<size_t> add_value(std::vector<Value>& values, const std::string& name, const graph::TensorType& type);
    Status compile();

    Result<Status> take_values(const device::Batch& batch, StageSeconds& seconds);
    void hand_over(const device::Batch& batch, const Status& status);
    void send_results(const Status& status);
    Result<Status> collect(const plan::MicroBatch& part, int step, const StepRun& run, std::vector<int32_t>& tokens);
    Status run_part(const device::Batch& batch, const device::FindAllowed& find_allowed, StageSeconds& seconds);

    StageSettings settings_;
    int rank_ = 0;
    std::vector<Value> taken_;
    std::vector<Value> made_;
    std::vector<Maker> makers_;
    std::vector<Reader> readers_;
    std::vector<std::string> compiled_results_;
    graph::Weights weights_;
    std::unique_ptr<device::Executable> executable_;  // null: this rank has nothing to do
};

}  // namespace tandem::ranks
