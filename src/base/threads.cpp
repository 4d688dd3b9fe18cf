#include "base/threads.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
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
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

using Clock = std::chrono::steady_clock;

// How often somebody looks for what others do before the core is offered to them.
constexpr int kSpins = 2000;

// How long workers look for the next loop before they sleep: the next token follows soon, and waking takes as long.
constexpr std::chrono::microseconds kPatience{200};

constexpr size_t kLine = 64;  // of a cache: what one thread writes often is kept apart from what others read

}  // namespace

struct ThreadPool::Shared {
    std::vector<std::thread> workers;
    std::mutex mutex;
    std::condition_variable wake;
    std::atomic<bool> stop{false};
    std::atomic<int> awake{0};     // how many ask the workers not to sleep
    std::atomic<int> sleepers{0};  // workers that sleep, or are about to

    alignas(kLine) std::atomic<uint64_t> generation{0};  // counts loops; workers wait for it to change
    // The loop under way. Written before `generation` changes, read after.
    const std::function<void(int64_t, int64_t, int)>* body = nullptr;
    int64_t count = 0;
    int64_t grain = 1;

    alignas(kLine) std::atomic<int64_t> next{0};
    // Open while there may be pieces left, with the number of workers inside. Only who is inside is waited for: on a
    // busy machine a worker may get its turn long after the others have done all there was.
    static constexpr uint32_t kOpen = 1U << 31;
    alignas(kLine) std::atomic<uint32_t> gate{0};

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

    // Looks for a while, with the core offered to others, and sleeps unless somebody asks not to.
    void wait_for_other_than(uint64_t seen) {
        const auto changed = [&] { return generation.load() != seen; };
        for (int i = 0; i < kSpins && !changed(); ++i) pause_briefly();
        const Clock::time_point begin = Clock::now();
        while (!changed() && (awake.load(std::memory_order_relaxed) > 0 || Clock::now() - begin < kPatience))
            std::this_thread::yield();
        if (changed()) return;
        std::unique_lock lock(mutex);
        ++sleepers;  // before looking once more: whoever announces looks at this after it has changed the other
        wake.wait(lock, changed);
        --sleepers;
    }

    void work(int thread) {
        uint64_t seen = 0;
        for (;;) {
            wait_for_other_than(seen);
            seen = generation.load();
            if (stop.load()) return;
            if (!enter()) continue;
            take_pieces(thread);
            gate.fetch_sub(1, std::memory_order_release);
        }
    }

    void announce() {
        ++generation;
        if (sleepers.load() == 0) return;
        { const std::lock_guard lock(mutex); }  // one that is about to sleep does so now
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

ThreadPool::Awake::Awake(ThreadPool& pool) : pool_(pool) {
    pool_.shared_->awake.fetch_add(1, std::memory_order_relaxed);
}

ThreadPool::Awake::~Awake() {
    pool_.shared_->awake.fetch_sub(1, std::memory_order_relaxed);
}

int available_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    return std::max(1, CPU_COUNT(&set));
}

}  // namespace tandem
