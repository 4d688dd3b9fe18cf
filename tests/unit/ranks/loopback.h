// Loopback: ranks as threads of one process, whose messages may take their time and which may be lost.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "ranks/transport.h"

namespace tandem::ranks {

class Network {
  public:
    using Clock = std::chrono::steady_clock;

    explicit Network(int size, std::chrono::microseconds delay = {}) : size_(size), delay_(delay) {}

    int size() const { return size_; }
    // Nothing comes from it or reaches it from now on.
    void lose(int rank) {
        const std::lock_guard lock(mutex_);
        lost_.insert(rank);
    }
    bool aborted() const {
        const std::lock_guard lock(mutex_);
        return aborted_;
    }
    int closed() const {
        const std::lock_guard lock(mutex_);
        return closed_;
    }

    void send(int from, int to, std::span<const std::byte> bytes) {
        const std::lock_guard lock(mutex_);
        if (lost_.contains(from) || lost_.contains(to)) return;
        queues_[to].push_back({Clock::now() + delay_, {from, {bytes.begin(), bytes.end()}}});
    }
    std::optional<Transport::Incoming> receive(int to) {
        const std::lock_guard lock(mutex_);
        auto& queue = queues_[to];
        if (lost_.contains(to) || queue.empty() || queue.front().first > Clock::now()) return std::nullopt;
        Transport::Incoming next = std::move(queue.front().second);
        queue.pop_front();
        return next;
    }
    void abort() {
        const std::lock_guard lock(mutex_);
        aborted_ = true;
    }
    void close() {
        const std::lock_guard lock(mutex_);
        ++closed_;
    }

  private:
    const int size_;
    const std::chrono::microseconds delay_;
    mutable std::mutex mutex_;
    std::map<int, std::deque<std::pair<Clock::time_point, Transport::Incoming>>> queues_;  // by who gets it
    std::set<int> lost_;
    bool aborted_ = false;
    int closed_ = 0;
};

class Loopback final : public Transport {
  public:
    Loopback(std::shared_ptr<Network> network, int rank) : network_(std::move(network)), rank_(rank) {}

    Status open() override { return Ok{}; }
    int rank() const override { return rank_; }
    int size() const override { return network_->size(); }
    Result<uint64_t> send(int to, std::span<const std::byte> bytes) override {
        network_->send(rank_, to, bytes);
        return uint64_t{0};
    }
    Result<bool> sent(uint64_t /*ticket*/) override { return true; }
    Result<std::optional<Incoming>> receive() override { return network_->receive(rank_); }
    void abort(int /*exit_code*/) override { network_->abort(); }
    void close() override { network_->close(); }

  private:
    std::shared_ptr<Network> network_;
    int rank_;
};

}  // namespace tandem::ranks
