#include "npu/host_schedule.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>

#include "base/check.h"

namespace tandem::npu {
namespace {

class HostScheduler {
  public:
    HostScheduler(const Design& design, const Array& array) : design_(design), array_(array) {}

    std::vector<HostStep> run() {
        const std::vector<Transfer>& transfers = design_.sequence.transfers;
        for (size_t i = 0; i < transfers.size(); ++i) {
            Channel& channel = channels_[transfers[i].fifo];
            if (std::ssize(channel.queued) == array_.shim.queue) wait(channel, channel.queued.front());
            issue(channel, i);
            if (!transfers[i].wait) continue;
            wait_for_results();
            wait(channel, i);
        }
        wait_for_results();
        return std::move(steps_);
    }

  private:
    struct Channel {
        std::deque<size_t> queued;  // transfers that may not be done yet
        bool to_host = false;
    };

    int shim_column(const std::string& name) const {
        const Fifo* fifo = find_fifo(design_, name);
        CHECK(fifo != nullptr, "a transfer of no FIFO");
        return array_.kind(fifo->producer) == TileKind::shim ? fifo->producer.column : fifo->consumers.front().column;
    }

    // Four channels with a queue of four each: there is always one of the sixteen descriptors left.
    void issue(Channel& channel, size_t transfer) {
        const Transfer& moved = design_.sequence.transfers[transfer];
        std::set<int>& taken = taken_[shim_column(moved.fifo)];
        int descriptor = 0;
        while (taken.count(descriptor) != 0) ++descriptor;
        CHECK(descriptor < array_.shim.descriptors, "more transfers under way than descriptors");
        taken.insert(descriptor);
        issued_[transfer] = steps_.size();
        channel.to_host = goes_to_host(design_, moved);
        steps_.push_back(
            {.kind = HostStep::Kind::issue, .transfer = transfer, .descriptor = descriptor, .token = channel.to_host});
        channel.queued.push_back(transfer);
    }

    void wait_for_results() {
        for (auto& [fifo, channel] : channels_) {
            if (channel.to_host && !channel.queued.empty()) wait(channel, channel.queued.back());
        }
    }

    // A channel works in order, so that with this one all before it are done; but each token has to be taken.
    void wait(Channel& channel, size_t transfer) {
        while (!channel.queued.empty() && channel.queued.front() <= transfer) {
            const size_t first = channel.queued.front();
            HostStep& issued = steps_[issued_.at(first)];
            issued.token = issued.token || first == transfer;
            taken_[shim_column(design_.sequence.transfers[first].fifo)].erase(issued.descriptor);
            if (issued.token) steps_.push_back({.kind = HostStep::Kind::wait, .transfer = first});
            channel.queued.pop_front();
        }
    }

    const Design& design_;
    const Array& array_;
    std::vector<HostStep> steps_;
    std::map<std::string, Channel> channels_;
    std::map<size_t, size_t> issued_;  // step of a transfer
    std::map<int, std::set<int>> taken_;
};

}  // namespace

std::vector<HostStep> host_schedule(const Design& design, const Array& array) {
    return HostScheduler(design, array).run();
}

Status check_tokens(const Design& design, const Array& array, const std::vector<HostStep>& steps) {
    std::map<std::string, std::deque<HostStep>> queues;  // of each channel what may not be done yet
    for (const HostStep& step : steps) {
        const Transfer& transfer = design.sequence.transfers[step.transfer];
        std::deque<HostStep>& queue = queues[transfer.fifo];
        if (step.kind == HostStep::Kind::issue) {
            queue.push_back(step);
            queue.back().token = step.token || goes_to_host(design, transfer);
            if (std::ssize(queue) <= array.shim.queue) continue;
            return fail("transfer {} of FIFO '{}' is one more than the {} that its channel queues: wait for one before",
                        step.transfer, transfer.fifo, array.shim.queue);
        }
        while (!queue.empty() && !queue.front().token) queue.pop_front();  // done before the one that is waited for
        if (queue.empty()) return fail("a wait for FIFO '{}' takes a token that no transfer gives", transfer.fifo);
        queue.pop_front();
    }
    for (const auto& [fifo, queue] : queues) {
        const auto left = std::ranges::count_if(queue, &HostStep::token);
        if (left > 0)
            return fail("{} tokens of FIFO '{}' are left, which the next run would take for its own", left, fifo);
    }
    return Ok{};
}

bool goes_to_host(const Design& design, const Transfer& transfer) {
    const Fifo* const fifo = find_fifo(design, transfer.fifo);
    CHECK(fifo != nullptr, "a transfer of no FIFO");
    return fifo->producer.row != 0;
}

}  // namespace tandem::npu
