// WakeQueue: has a thread that serves connections look at those that have news, all of a step in one go.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace tandem::server {

class WakeQueue;

// A step of a model has news for many connections. To wake their thread for each would cost more than to send the
// tokens: what is added with a batch waits for its flush(), or until there is a lot of it. Of one thread.
class WakeBatch {
  public:
    // Returns when all of it is done, but after so long at the latest.
    void flush(std::chrono::microseconds patience);

  private:
    friend class WakeQueue;

    std::vector<std::shared_ptr<WakeQueue>> queues_;  // that got tasks
};

class WakeQueue : public std::enable_shared_from_this<WakeQueue> {
  public:
    using Task = std::function<void()>;
    struct Hooks {
        std::function<void()> wake;             // from any thread: has the queue's thread call run() soon
        std::function<void(Task task)> follow;  // from run(): has the thread call the task, after all those before it
    };
    explicit WakeQueue(Hooks hooks) : hooks_(std::move(hooks)) {}

    // From any thread. What `task` has its thread do is to be done at once, without waiting for anything. Without a
    // batch the thread is woken now.
    void add(Task task, WakeBatch* batch = nullptr);
    void run();
    void close();

  private:
    friend class WakeBatch;

    uint64_t wake();
    void settle(uint64_t turn);
    void wait_for(uint64_t turn, std::chrono::steady_clock::time_point until);

    Hooks hooks_;
    std::mutex mutex_;  // of what follows
    std::condition_variable settles_;
    std::vector<Task> tasks_;
    uint64_t turn_ = 0;     // of run(), that the thread was woken for last
    uint64_t settled_ = 0;  // the last turn that is done
    bool woken_ = false;    // and has not begun
    bool closed_ = false;
};

}  // namespace tandem::server
