#include "npu/host_schedule.h"

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
            if (transfers[i].wait) wait(channel, i);
        }
        for (const Fifo& fifo : design_.fifos) {
            const bool to_host = array_.kind(fifo.consumers.front()) == TileKind::shim;
            Channel& channel = channels_[fifo.name];
            if (to_host && !channel.queued.empty()) wait(channel, channel.queued.back());
        }
        return std::move(steps_);
    }

  private:
    struct Channel {
        std::deque<size_t> queued;  // transfers that may not be done yet
    };

    int shim_column(const std::string& name) const {
        const Fifo* fifo = find_fifo(design_, name);
        CHECK(fifo != nullptr, "a transfer of no FIFO");
        return array_.kind(fifo->producer) == TileKind::shim ? fifo->producer.column : fifo->consumers.front().column;
    }

    // Four channels with a queue of four each: there is always one of the sixteen descriptors left.
    void issue(Channel& channel, size_t transfer) {
        std::set<int>& taken = taken_[shim_column(design_.sequence.transfers[transfer].fifo)];
        int descriptor = 0;
        while (taken.count(descriptor) != 0) ++descriptor;
        CHECK(descriptor < array_.shim.descriptors, "more transfers under way than descriptors");
        taken.insert(descriptor);
        issued_[transfer] = steps_.size();
        steps_.push_back({.kind = HostStep::Kind::issue, .transfer = transfer, .descriptor = descriptor});
        channel.queued.push_back(transfer);
    }

    // A channel works in order: with this one, all before it are done.
    void wait(Channel& channel, size_t transfer) {
        steps_[issued_.at(transfer)].token = true;
        steps_.push_back({.kind = HostStep::Kind::wait, .transfer = transfer});
        std::set<int>& taken = taken_[shim_column(design_.sequence.transfers[transfer].fifo)];
        while (!channel.queued.empty() && channel.queued.front() <= transfer) {
            taken.erase(steps_[issued_.at(channel.queued.front())].descriptor);
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

}  // namespace tandem::npu
