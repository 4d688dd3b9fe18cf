// A job of several ranks in one process: rank 0 is the caller's, the others are threads with a model of their own.
#pragma once

#include <gtest/gtest.h>

#include <thread>

#include "cpu/backend.h"
#include "models/model.h"
#include "ranks/backend.h"
#include "ranks/worker.h"
#include "unit/ranks/loopback.h"

namespace tandem::ranks {

inline std::unique_ptr<device::Backend> reference_cpu() {
    return cpu::make_backend({.threads = 1, .reference = true}).value();
}

struct JobOptions {
    int size = 2;
    RankOptions ranks = {};
    std::chrono::microseconds delay{0};
    std::chrono::milliseconds silence{60'000};
    std::function<std::unique_ptr<device::Backend>(int rank)> device = [](int /*rank*/) { return reference_cpu(); };
    std::function<std::string(int rank)> model_of_rank = {};  // another one; empty: the same
    std::function<Greeting(int rank, Greeting)> greeting = [](int /*rank*/, Greeting own) { return own; };
};

class TestJob {
  public:
    TestJob(const std::string& model, JobOptions options) : options_(std::move(options)), model_(model) {
        network = std::make_shared<Network>(options_.size, options_.delay);
        for (int rank = 1; rank < options_.size; ++rank) workers_.emplace_back([this, rank] { work_as(rank); });
        auto post = std::shared_ptr<Post>(open_post(0));
        auto met = Ranks::meet(post, options_.greeting(0, greeting_of(0)), options_.ranks);
        post.reset();
        if (met) {
            ranks = *met;
            backend = make_backend(ranks, options_.device(0));
        } else {
            error = met.error().message;
        }
    }
    ~TestJob() {
        backend.reset();
        ranks.reset();
        for (std::thread& worker : workers_) worker.join();
    }
    TestJob(const TestJob&) = delete;
    TestJob& operator=(const TestJob&) = delete;

    std::shared_ptr<Network> network;
    std::shared_ptr<Ranks> ranks;
    std::unique_ptr<device::Backend> backend;
    std::string error;  // of the meeting

    std::string worker_error(int rank) {
        const std::lock_guard lock(mutex_);
        return worker_errors_[rank];
    }

  private:
    static Greeting greeting_of(int rank) {
        return {.version = "1",
                .settings = "",
                .host = fmt::format("host{}", rank),
                .device = "cpu",
                .hardware = "test",
                .free_bytes = uint64_t{1} << 40,
                .error = ""};
    }

    std::unique_ptr<Post> open_post(int rank) {
        return Post::open(std::make_unique<Loopback>(network, rank), {.silence = options_.silence}).value();
    }

    void work_as(int rank) {
        const std::unique_ptr<Post> post = open_post(rank);
        post->name_host(0, "host0");
        const std::string other = options_.model_of_rank ? options_.model_of_rank(rank) : "";
        const auto checkpoint = format::Checkpoint::open(other.empty() ? model_ : other).value();
        const models::Model model = models::load(checkpoint).value();
        const std::unique_ptr<device::Backend> device = options_.device(rank);
        greet(*post, options_.greeting(rank, greeting_of(rank)));
        const Status worked = work(*post, {.program = model.program, .weights = model.weights, .backend = *device});
        const std::lock_guard lock(mutex_);
        if (!worked) worker_errors_[rank] = worked.error().message;
    }

    JobOptions options_;
    std::string model_;
    std::vector<std::thread> workers_;
    std::mutex mutex_;
    std::map<int, std::string> worker_errors_;
};

}  // namespace tandem::ranks
