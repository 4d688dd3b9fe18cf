#include "base/threads.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem {

namespace {

void pause_briefly() {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

// How often a worker looks for the next loop before it sleeps: the loops of one token follow each other closely.
constexpr int kSpins = 2000;

}  // namespace

struct ThreadPool::Shared {
    std::vector<std::thread> workers;
    std::mutex mutex;
    std::condition_variable wake;
    std::atomic<uint64_t> generation{0};  // counts loops; workers wait for it to change
    std::atomic<bool> stop{false};

    // The loop under way. Written before `generation` changes, read after.
    const std::function<void(int64_t, int64_t, int)>* body = nullptr;
    int64_t count = 0;
    int64_t grain = 1;
    std::atomic<int64_t> next{0};
    // Open while there may be pieces left, with the number of workers inside. Only who is inside is waited for: on a
    // busy machine a worker may get its turn long after the others have done all there was.
    static constexpr uint32_t kOpen = 1U << 31;
    std::atomic<uint32_t> gate{0};

    bool enter() {
        uint32_t state = gate.load(std::memory_order_relaxed);
        while ((state & kOpen) != 0) {
            if (gate.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) return true;
        }
        return false;
    }

    void take_pieces(int thread) {
        for (;;) {
            const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
            if (begin >= count) return;
            (*body)(begin, std::min(begin + grain, count), thread);
        }
    }

    void work(int thread) {
        uint64_t seen = 0;
        for (;;) {
            for (int i = 0; i < kSpins && generation.load(std::memory_order_acquire) == seen; ++i) pause_briefly();
            if (generation.load(std::memory_order_acquire) == seen) {
                std::unique_lock lock(mutex);
                wake.wait(lock, [&] { return generation.load(std::memory_order_acquire) != seen; });
            }
            seen = generation.load(std::memory_order_acquire);
            if (stop.load()) return;
            if (!enter()) continue;
            take_pieces(thread);
            gate.fetch_sub(1, std::memory_order_release);
        }
    }

    void announce() {
        {
            const std::lock_guard lock(mutex);
            generation.fetch_add(1, std::memory_order_release);
        }
        wake.notify_all();
    }
};

ThreadPool::ThreadPool(int threads) : shared_(std::make_unique<Shared>()) {
    if (threads <= 0) threads = available_cores();
    for (int thread = 1; thread < threads; ++thread) {
        shared_->workers.emplace_back([this, thread] { shared_->work(thread); });
    }
}

ThreadPool::~ThreadPool() {
    shared_->stop.store(true);
    shared_->announce();
    for (std::thread& worker : shared_->workers) worker.join();
}

int ThreadPool::size() const {
    return static_cast<int>(shared_->workers.size()) + 1;
}

void ThreadPool::for_each_range(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t, int)>& body) {
    CHECK(grain > 0);
    if (count <= 0) return;
    if (shared_->workers.empty() || count <= grain) {
        body(0, count, 0);
        return;
    }
    Shared& s = *shared_;
    s.body = &body;
    s.count = count;
    s.grain = grain;
    s.next.store(0, std::memory_order_relaxed);
    s.gate.store(Shared::kOpen, std::memory_order_release);
    s.announce();
    s.take_pieces(0);
    s.gate.fetch_and(~Shared::kOpen, std::memory_order_relaxed);
    for (int spins = 0; s.gate.load(std::memory_order_acquire) != 0; ++spins) {
        if (spins < kSpins) {
            pause_briefly();
        } else {
            std::this_thread::yield();  // a worker may be waiting for the core we spin on
        }
    }
}

int available_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    return std::max(1, CPU_COUNT(&set));
}

}  // namespace tandem
