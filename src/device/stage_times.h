// StageTimes: what the parts of a step took, added up by their names.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "device/backend.h"

namespace tandem::device {

class StageTimes {
  public:
    void add(std::string_view name, double seconds, uint64_t weight_bytes = 0) {
        StageTime& total = by_name_[std::string(name)];
        total.name = name;
        total.count += 1;
        total.seconds += seconds;
        total.weight_bytes += weight_bytes;
    }

    std::vector<StageTime> list() const {
        std::vector<StageTime> times;
        times.reserve(by_name_.size());
        for (const auto& [name, total] : by_name_) times.push_back(total);
        return times;
    }

  private:
    std::map<std::string, StageTime> by_name_;
};

}  // namespace tandem::device
