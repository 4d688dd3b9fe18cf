// The job of ranks that mpirun or Slurm started this process for, if it did: `--split` asks for it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "models/model.h"
#include "ranks/backend.h"
#include "ranks/post.h"
#include "user/devices.h"

namespace tandem::cli {

inline constexpr int kExitLost = 75;  // as EX_TEMPFAIL: a rank was lost, and the job may be started again

class RankJob {
  public:
    // Null when there is none to join: no --split, or one for the devices of this process. Rank 0 of one that `watches`
    // must call watch(): until then the signals of which it speaks wait. A --split that is for ranks is taken out of
    // `options`: devices know nothing of it.
    static Result<std::unique_ptr<RankJob>> join(user::DeviceOptions& options, bool watches = false);
    RankJob(const RankJob&) = delete;
    RankJob& operator=(const RankJob&) = delete;
    ~RankJob();

    bool is_first() const { return post_->rank() == 0; }

    // Of rank 0: all ranks as one device, `local` its own.
    Result<std::unique_ptr<device::Backend>> together(std::unique_ptr<device::Backend> local, user::Devices& devices);
    // Of the others, until the job ends; the exit code. `open` gives the model and is called once.
    Result<int> work(const std::function<Result<const models::Model*>()>& open);
    // With the model of a file, a directory or a name.
    Result<int> work(const std::string& model);

    // What the ranks have and did; empty before a model is there. From any thread.
    std::vector<ranks::StageReport> report() const;
    // Each rank's share of the last step; predicted where all are alike and rank 0's device was measured (`doctor`).
    plan::StepShares last_step() const;
    // As `tandem bench` prints it.
    std::string report_text() const;
    std::string failure() const { return post_->failure(); }

    // Of rank 0: calls `stop` when answers should come to their end: on SIGUSR1, and, with all of them failing, on
    // SIGTERM, which mpirun sends when a rank has died, or when one has fallen silent. Until unwatch().
    void watch(std::function<void()> stop);
    void unwatch();

  private:
    RankJob(user::DeviceOptions options, std::string split, std::shared_ptr<ranks::Post> post)
        : options_(std::move(options)), split_(std::move(split)), post_(std::move(post)) {}
    ranks::Greeting greeting(const device::Backend* backend, const std::string& error) const;

    user::DeviceOptions options_;
    std::string split_;
    std::shared_ptr<ranks::Post> post_;
    mutable std::mutex mutex_;
    std::shared_ptr<ranks::Ranks> ranks_;
    std::optional<plan::Speeds> speeds_;  // of a rank's device
    bool has_met_ = false;
    std::atomic<bool> unwatched_ = false;
    std::thread watcher_;
};

// The device for a model: with the other ranks, where there is a job.
Result<std::unique_ptr<device::Backend>> open_device(user::Devices& devices, RankJob* job, uint64_t weight_bytes);

}  // namespace tandem::cli
