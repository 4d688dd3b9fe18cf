// The ranks of a job as one device: rank 0 plans, and each rank runs its layers with its own cache on its own device.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/backend.h"
#include "device/rates.h"
#include "plan/learned.h"
#include "plan/several.h"
#include "plan/speeds.h"
#include "ranks/post.h"
#include "ranks/stage.h"

namespace tandem::ranks {

// Of a rank, as it introduces itself.
struct Greeting {
    std::string version;   // of the program; all have the same
    std::string settings;  // that have to be the same
    std::string host;
    std::string device;  // "cpu"
    std::string hardware;
    uint64_t free_bytes = 0;
    std::string error;  // why it cannot take part
};

// What a rank has and did.
struct StageReport {
    int rank = 0;
    std::string host;
    std::string device;
    int first_layer = 0;
    int end_layer = 0;
    uint64_t weight_bytes = 0;
    StageSeconds seconds = {};     // in all steps
    StageSeconds last = {};        // in the last one
    double hop_seconds = 0;        // to the rank after it, of the last one to rank 0
    uint64_t sent_bytes = 0;       // to the rank after it, of the last one to rank 0
    uint64_t last_sent_bytes = 0;  // of it, in the last step

    std::string layers() const;  // "layers 0 to 11"
};

struct RankOptions {
    std::string split = "layers";  // by what devices do and have, or "20,42"
    std::function<Result<device::Rates>()> measure_rates = {};
    int prompt_rows = 64;  // of a micro-batch of a prompt, at least
    bool exact_rows = false;
};

// The job as rank 0 sees it. From any thread.
class Ranks {
  public:
    // Waits for all ranks' greetings; fails, and ends the job, when one cannot take part or is not like the others.
    static Result<std::shared_ptr<Ranks>> meet(std::shared_ptr<Post> post, const Greeting& own, RankOptions options);
    Ranks(const Ranks&) = delete;
    Ranks& operator=(const Ranks&) = delete;
    // Tells the others that the job is at its end.
    ~Ranks();

    Post& post() { return *post_; }
    const RankOptions& options() const { return options_; }
    std::vector<StageReport> report() const;
    uint64_t steps() const;
    double step_seconds() const;  // of all steps, from their begin to their end
    // Whether all ranks have the same device and processor.
    bool are_alike() const;
    // Each rank's share of the last step; with what it should have taken where the speeds of a rank's device are known.
    plan::StepShares last_step(const plan::Speeds* speeds) const;

    // For the device of rank 0.
    void order(std::span<const std::byte> bytes);
    // For so many sequences that draw together.
    Result<std::vector<int>> choose_cuts(const graph::Program& program, int sequences);
    // Waits for what each of the others has done; the first error, with the rank's name.
    Status await_done(StageSeconds own);
    void note_parts(const graph::Program& program, const std::vector<Part>& parts, const graph::Weights& weights);
    void note_step(const device::Batch& batch, int micro_rows, DType kv_dtype, double seconds);
    uint64_t free_bytes() const;  // that all may use, as much of each as of the smallest
    uint32_t next_id() { return ++last_id_; }

  private:
    Ranks(std::shared_ptr<Post> post, RankOptions options) : post_(std::move(post)), options_(std::move(options)) {}

    Result<std::vector<device::Rates>> measure_all();

    std::shared_ptr<Post> post_;
    RankOptions options_;
    std::vector<Greeting> greetings_;
    uint32_t last_id_ = 0;

    mutable std::mutex mutex_;  // of what follows
    std::vector<StageReport> stages_;
    graph::Program program_;                // that was compiled last
    std::vector<graph::Program> programs_;  // of each rank
    uint64_t steps_ = 0;
    double step_seconds_ = 0;
    struct LastStep {
        graph::StepShape whole;
        std::vector<graph::StepShape> pieces;  // micro-batches
        int times = 1;
        double seconds = 0;
    } last_;
};

// Of the others: introduces itself to rank 0.
void greet(Post& post, const Greeting& own);

// `local` is the device of rank 0.
std::unique_ptr<device::Backend> make_backend(std::shared_ptr<Ranks> ranks, std::unique_ptr<device::Backend> local);

}  // namespace tandem::ranks
