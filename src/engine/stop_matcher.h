// StopMatcher: lets streamed text through until a stop string appears, and never lets out the start of one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::engine {

class StopMatcher {
  public:
    // Empty stop strings are ignored.
    explicit StopMatcher(std::vector<std::string> stops);

    // Takes the next text; returns what may be shown. After a stop string was met nothing more is.
    std::string push(std::string_view text);
    // The text held back because it could have become a stop string.
    std::string finish();

    bool stopped() const { return stopped_; }
    const std::string& met() const { return met_; }  // the stop string; empty before

  private:
    std::vector<std::string> stops_;
    std::string pending_;
    bool stopped_ = false;
    std::string met_;
};

}  // namespace tandem::engine
