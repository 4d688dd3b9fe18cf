#include "server/wake_queue.h"

#include <algorithm>
#include <utility>

namespace tandem::server {

namespace {

constexpr size_t kEnough = 8;  // tasks to wake a thread for, though more will come

}  // namespace

void WakeQueue::add(Task task, WakeBatch* batch) {
    size_t waiting = 0;
    {
        const std::lock_guard lock(mutex_);
        if (closed_) return;
        tasks_.push_back(std::move(task));
        waiting = tasks_.size();
    }
    if (batch == nullptr || waiting >= kEnough) wake();
    if (batch == nullptr) return;
    auto& queues = batch->queues_;
    const bool is_known =
        std::any_of(queues.begin(), queues.end(), [this](const auto& queue) { return queue.get() == this; });
    if (!is_known) queues.push_back(shared_from_this());
}

// Returns the turn in which all that was added is done. Here and below the lock is given back before a thread is woken:
// it may take the core at once, and would only wait for the lock.
uint64_t WakeQueue::wake() {
    uint64_t turn = 0;
    {
        const std::lock_guard lock(mutex_);
        if (closed_ || tasks_.empty() || std::exchange(woken_, true)) return turn_;
        turn = ++turn_;
    }
    hooks_.wake();
    return turn;
}

void WakeQueue::run() {
    std::vector<Task> tasks;
    uint64_t turn = 0;
    {
        const std::lock_guard lock(mutex_);
        woken_ = false;
        turn = turn_;
        tasks.swap(tasks_);
    }
    for (const Task& task : tasks) task();
    hooks_.follow([self = shared_from_this(), turn] { self->settle(turn); });
}

void WakeQueue::settle(uint64_t turn) {
    {
        const std::lock_guard lock(mutex_);
        settled_ = turn;
    }
    settles_.notify_all();
}

void WakeQueue::wait_for(uint64_t turn, std::chrono::steady_clock::time_point until) {
    std::unique_lock lock(mutex_);
    settles_.wait_until(lock, until, [&] { return closed_ || settled_ >= turn; });
}

void WakeQueue::close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    tasks_.clear();
    settles_.notify_all();
}

void WakeBatch::flush(std::chrono::microseconds patience) {
    std::vector<uint64_t> turns;
    turns.reserve(queues_.size());
    for (const std::shared_ptr<WakeQueue>& queue : queues_) turns.push_back(queue->wake());
    const auto until = std::chrono::steady_clock::now() + patience;
    for (size_t i = 0; i < queues_.size() && patience.count() > 0; ++i) queues_[i]->wait_for(turns[i], until);
    queues_.clear();
}

}  // namespace tandem::server
