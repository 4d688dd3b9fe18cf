// PipelineMaker: compiles pipelines on all cores in the background, while something else is brought to the device.
#pragma once

#include <atomic>
#include <functional>
#include <set>
#include <thread>

#include "base/result.h"
#include "vulkan/pipeline.h"

namespace tandem::vulkan {

class PipelineMaker {
  public:
    explicit PipelineMaker(PipelineCache& pipelines) : pipelines_(pipelines) {}
    PipelineMaker(const PipelineMaker&) = delete;
    PipelineMaker& operator=(const PipelineMaker&) = delete;
    ~PipelineMaker();  // leaves undone what has not begun

    // `find` says which; what it refers to stays until finish() or the end of this.
    void start(std::function<Result<std::set<PipelineKey>>()> find);
    // Waits for all that was started; `progress` is told how much of it is there, and ends it by an error.
    Status finish(const std::function<Status(double)>& progress);

  private:
    Status make_all(const std::set<PipelineKey>& keys);

    PipelineCache& pipelines_;
    std::thread thread_;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> done_{true};
    std::atomic<size_t> made_{0};
    std::atomic<size_t> total_{1};
    Status status_ = Ok{};
};

}  // namespace tandem::vulkan
