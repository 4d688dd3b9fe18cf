// Several devices that run one Program together, each some of its layers, with the weights and the cache of those.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "device/backend.h"
#include "plan/micro_batch.h"
#include "plan/timeline.h"

namespace tandem::plan {

// What each device did of a step.
struct StepShares {
    struct Share {
        std::string device;
        std::string part;  // "layers 0 to 11"
        double busy_s = 0;
        double predicted_s = 0;   // of what it did; 0: not known
        uint64_t sent_bytes = 0;  // over a network to the next one
    };
    std::vector<Share> devices;
    double seconds = 0;  // of the whole step
    double alone_s = 0;  // that one of the devices should take for it; 0: not known

    // The share of the time in which the devices, taken together, had nothing to do.
    double bubble() const;
    // Against as many devices that each do all of it for others, where alone_s is known.
    double efficiency() const { return alone_s / (seconds * static_cast<double>(devices.size())); }
};

// Those of the last step, for whoever wants to know.
class LastShares {
  public:
    void set(StepShares shares) {
        const std::lock_guard lock(mutex_);
        shares_ = std::move(shares);
    }
    StepShares get() const {
        const std::lock_guard lock(mutex_);
        return shares_;
    }

  private:
    mutable std::mutex mutex_;
    StepShares shares_;
};

struct SeveralOptions {
    // "20,42": the layers with which the second and later devices begin; empty: by measured time and by memory, where a
    // device that would make it slower is left out.
    std::string cuts = {};
    int micro_rows = kMicroRows;  // of a prompt's micro-batch, at most
    // Groups that sequences which draw are divided into; 0: one for each device where that was measured to be faster.
    int groups = 0;
    std::function<void(std::string_view)> note = {};
    std::shared_ptr<Timeline> timeline = nullptr;  // where spans go, if wanted
    std::shared_ptr<LastShares> shares = nullptr;  // told after each step, if wanted
};

// The layers are in the order of the devices, of which there are two at least. One that is there twice shares its
// memory and its time.
std::unique_ptr<device::Backend> make_several(std::vector<std::unique_ptr<device::Backend>> devices,
                                              SeveralOptions options);

}  // namespace tandem::plan
