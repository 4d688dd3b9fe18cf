#include "soak/rank_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

#include "cpu/backend.h"
#include "ranks/backend.h"
#include "ranks/mpi.h"
#include "ranks/worker.h"

namespace tandem::engine {

namespace {

ranks::Greeting soak_greeting() {
    return {.version = "soak",
            .settings = "",
            .host = "here",
            .device = "cpu",
            .hardware = "",
            .free_bytes = uint64_t{1} << 40,
            .error = ""};
}

Result<std::unique_ptr<device::Backend>> one_thread(bool exact) {
    return cpu::make_backend({.threads = 1, .reference = exact});
}

}  // namespace

double resident_megabytes() {
    std::ifstream file("/proc/self/statm");
    double total = 0;
    double resident = 0;
    file >> total >> resident;
    return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

Result<std::unique_ptr<ranks::Post>> join_ranks() {
    if (!ranks::launched_ranks()) return fail("--device ranks: start this by mpirun -np 3");
    return ranks::Post::open(TRY(ranks::open_mpi()), {.silence = std::chrono::minutes(5)});
}

Result<std::unique_ptr<device::Backend>> open_ranks(std::shared_ptr<ranks::Post> post, const RankSettings& settings) {
    auto all = TRY(ranks::Ranks::meet(std::move(post), soak_greeting(), {.exact_rows = settings.exact}));
    return ranks::make_backend(std::move(all), TRY(one_thread(settings.exact)));
}

Status work_as_rank(ranks::Post& post, const models::Model& model, const RankSettings& settings) {
    const std::unique_ptr<device::Backend> backend = TRY(one_thread(settings.exact));
    double warm = 0;
    std::mutex mutex;
    std::condition_variable_any ended;
    std::jthread look([&](const std::stop_token& stop) {
        std::unique_lock lock(mutex);
        ended.wait_for(lock, stop, std::chrono::duration<double>(settings.seconds / 4), [] { return false; });
        warm = resident_megabytes();
    });
    ranks::greet(post, soak_greeting());
    TRY(ranks::work(post, {.program = model.program, .weights = model.weights, .backend = *backend}));
    look.request_stop();
    look.join();
    fmt::print("rank {}: memory grew by {:.1f} MB\n", post.rank(), resident_megabytes() - warm);
    return Ok{};
}

}  // namespace tandem::engine
