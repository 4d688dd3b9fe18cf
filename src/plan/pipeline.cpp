#include "plan/pipeline.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/check.h"

namespace tandem::plan {

PipelineOrder::PipelineOrder(int micro_batches, std::span<const int> device_of_segment, int slots)
    : devices_(device_of_segment),
      slots_(slots),
      reached_(static_cast<size_t>(micro_batches), 0),
      running_(static_cast<size_t>(micro_batches), false) {}

std::optional<Task> PipelineOrder::next(int device) const {
    for (int m = 0; m < std::ssize(reached_); ++m) {
        const int segment = reached_[static_cast<size_t>(m)];
        if (segment == segments() || running_[static_cast<size_t>(m)]) continue;
        if (devices_[static_cast<size_t>(segment)] != device) continue;
        if (m > 0 && reached_[static_cast<size_t>(m) - 1] <= segment) continue;
        if (m >= slots_ && reached_[static_cast<size_t>(m - slots_)] < segments()) continue;
        return Task{.micro_batch = m, .segment = segment};
    }
    return std::nullopt;
}

bool PipelineOrder::done(int device) const {
    return std::all_of(reached_.begin(), reached_.end(), [&](int reached) {
        return std::find(devices_.begin() + reached, devices_.end(), device) == devices_.end();
    });
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
    if (order.done(1)) {
        work(0);
    } else {
        std::thread other(work, 1);
        work(0);
        other.join();
    }
    return failure;
}

PipelineTime simulate_pipeline(PipelineOrder& order, const std::function<double(Task)>& seconds) {
    struct Busy {
        std::optional<Task> task;
        double until = 0;
    };
    std::array<Busy, 2> devices;
    PipelineTime time;
    while (!order.done(0) || !order.done(1)) {
        for (int device = 0; device < 2; ++device) {
            Busy& busy = devices[static_cast<size_t>(device)];
            if (busy.task) continue;
            busy.task = order.next(device);
            if (!busy.task) continue;
            order.begin(*busy.task);
            const double took = seconds(*busy.task);
            busy.until = time.seconds + took;
            time.busy[device] += took;
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
