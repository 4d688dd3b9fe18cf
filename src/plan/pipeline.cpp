#include "plan/pipeline.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/check.h"

namespace tandem::plan {

PipelineOrder::PipelineOrder(const PipelineShape& shape)
    : shape_(shape),
      reached_(static_cast<size_t>(shape.micro_batches), 0),
      running_(static_cast<size_t>(shape.micro_batches), false) {
    for (const int device : shape.device_of_segment) devices_ = std::max(devices_, device + 1);
}

std::optional<Task> PipelineOrder::next(int device) const {
    std::optional<Task> best;
    for (int m = 0; m < std::ssize(reached_); ++m) {
        const int reached = reached_[static_cast<size_t>(m)];
        if (reached == end() || running_[static_cast<size_t>(m)] || device_at(reached) != device) continue;
        if (m > 0 && reached_[static_cast<size_t>(m) - 1] <= reached) continue;
        if (m >= shape_.slots && reached_[static_cast<size_t>(m - shape_.slots)] < end()) continue;
        const Task task{.micro_batch = m, .segment = reached % segments(), .round = reached / segments()};
        if (!best || task.round < best->round) best = task;
    }
    return best;
}

bool PipelineOrder::done(int device) const {
    return std::all_of(reached_.begin(), reached_.end(), [&](int reached) {
        for (; reached < end(); ++reached) {
            if (device_at(reached) == device) return false;
        }
        return true;
    });
}

std::optional<Task> PipelineOrder::only() const {
    const int reached = reached_.front();
    if (reached_.size() != 1 || reached == end()) return std::nullopt;
    return Task{.micro_batch = 0, .segment = reached % segments(), .round = reached / segments()};
}

void PipelineOrder::finish(Task task) {
    running_[static_cast<size_t>(task.micro_batch)] = false;
    ++reached_[static_cast<size_t>(task.micro_batch)];
}

std::optional<PipelineFailure> run_pipeline(PipelineOrder& order, const std::function<Status(Task)>& run) {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<PipelineFailure> failure;
    const auto work = [&](int device) {
        std::unique_lock lock(mutex);
        while (!failure && !order.done(device)) {
            const std::optional<Task> task = order.next(device);
            if (!task) {
                changed.wait(lock);
                continue;
            }
            order.begin(*task);
            lock.unlock();
            Status ran = run(*task);
            lock.lock();
            order.finish(*task);
            if (!ran && !failure) failure = PipelineFailure{device, std::move(ran).error()};
            changed.notify_all();
        }
    };
    while (const std::optional<Task> task = order.only()) {  // nothing overlaps
        Status ran = run(*task);
        if (!ran) return PipelineFailure{order.device_of(*task), std::move(ran).error()};
        order.finish(*task);
    }
    std::vector<std::thread> others;
    for (int device = 1; device < order.devices(); ++device) {
        if (!order.done(device)) others.emplace_back(work, device);
    }
    work(0);
    for (std::thread& other : others) other.join();
    return failure;
}

PipelineTime simulate_pipeline(PipelineOrder& order, const std::function<double(Task)>& seconds) {
    struct Busy {
        std::optional<Task> task;
        double until = 0;
    };
    std::vector<Busy> devices(static_cast<size_t>(order.devices()));
    PipelineTime time{.seconds = 0, .busy = std::vector<double>(devices.size())};
    const auto left = [&] {
        for (int device = 0; device < order.devices(); ++device) {
            if (!order.done(device)) return true;
        }
        return false;
    };
    while (left()) {
        for (int device = 0; device < order.devices(); ++device) {
            Busy& busy = devices[static_cast<size_t>(device)];
            if (busy.task) continue;
            busy.task = order.next(device);
            if (!busy.task) continue;
            order.begin(*busy.task);
            const double took = seconds(*busy.task);
            busy.until = time.seconds + took;
            time.busy[static_cast<size_t>(device)] += took;
        }
        Busy* first = nullptr;
        for (Busy& busy : devices) {
            if (busy.task && (first == nullptr || busy.until < first->until)) first = &busy;
        }
        CHECK(first != nullptr, "a pipeline that cannot go on");
        time.seconds = first->until;
        order.finish(*first->task);
        first->task.reset();
    }
    return time;
}

}  // namespace tandem::plan
