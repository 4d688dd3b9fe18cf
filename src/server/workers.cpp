#include "server/workers.h"

#include <exception>

#include "base/log.h"

namespace tandem::server {

Workers::Workers(int threads) {
    threads_.reserve(static_cast<size_t>(threads));
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

Workers::~Workers() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        wake_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
}

void Workers::post(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    wake_.notify_one();
}

void Workers::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        wake_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
        if (stopping_) return;
        std::function<void()> task = std::move(tasks_.front());
        tasks_.pop_front();
        lock.unlock();
        try {
            task();
        } catch (const std::exception& error) {
            log::error("a request failed in a way nobody foresaw: {}", error.what());
        }
        task = nullptr;  // with all it holds, before the lock
        lock.lock();
    }
}

}  // namespace tandem::server
