#include "vulkan/pipeline_maker.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <vector>

#include "base/threads.h"

namespace tandem::vulkan {

PipelineMaker::~PipelineMaker() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
}

void PipelineMaker::start(std::function<Result<std::set<PipelineKey>>()> find) {
    done_ = false;
    thread_ = std::thread([this, find = std::move(find)] {
        const Result<std::set<PipelineKey>> keys = find();
        status_ = keys ? make_all(*keys) : Status(keys.error());
        done_ = true;
    });
}

// The compiler of a driver takes as long for one kernel as a core needs, so each core takes the next.
Status PipelineMaker::make_all(const std::set<PipelineKey>& keys) {
    const std::vector<PipelineKey> all(keys.begin(), keys.end());
    total_ = std::max<size_t>(all.size(), 1);
    std::atomic<size_t> next{0};
    std::mutex mutex;  // of `failure`
    Status failure = Ok{};
    const auto work = [&] {
        for (size_t at = next++; at < all.size() && !stopping_; at = next++) {
            const Result<VkPipeline> made = pipelines_.get(all[at]);
            ++made_;
            if (made) continue;
            const std::lock_guard lock(mutex);
            failure = made.error();
            stopping_ = true;
        }
    };
    std::vector<std::thread> threads;
    for (int i = 1; i < available_cores(); ++i) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
    return failure;
}

Status PipelineMaker::finish(const std::function<Status(double)>& progress) {
    constexpr std::chrono::milliseconds kLook{50};
    while (progress && !done_) {
        TRY(progress(static_cast<double>(made_) / static_cast<double>(total_)));
        std::this_thread::sleep_for(kLook);
    }
    if (thread_.joinable()) thread_.join();
    return status_;
}

}  // namespace tandem::vulkan
