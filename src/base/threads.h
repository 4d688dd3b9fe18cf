// A fixed pool of threads that share the iterations of a loop with the calling thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace tandem {

class ThreadPool {
  public:
    // `threads` counts the caller too; 0 takes one per core the process may use.
    explicit ThreadPool(int threads = 0);
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;
    ~ThreadPool();

    int size() const;

    // Calls body(begin, end, thread) over [0, count) in pieces of about `grain`, thread in [0, size()); returns
    // when all are done. The pieces go to whoever is free, so a result must not depend on who took which.
    // One caller at a time; body must not call for_each_range itself.
    void for_each_range(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t, int)>& body);

    // While there is one, workers look for the next loop without sleeping: for a caller whose loops follow each other.
    class Awake {
      public:
        explicit Awake(ThreadPool& pool);
        Awake(const Awake&) = delete;
        Awake& operator=(const Awake&) = delete;
        ~Awake();

      private:
        ThreadPool& pool_;
    };

  private:
    struct Shared;
    std::unique_ptr<Shared> shared_;
};

// Cores this process may run on (its affinity mask), at least 1.
int available_cores();

}  // namespace tandem
