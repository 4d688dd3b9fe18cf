// Ambition: how far ahead it is worth guessing for one sequence.
#pragma once

#include <algorithm>

namespace tandem::engine {

// Guesses get longer while they are right. A sequence whose guesses are mostly wrong makes none any more.
class Ambition {
  public:
    int length() const { return given_up_ ? 0 : length_; }

    void learn(int drafted, int accepted) {
        if (drafted == 0) return;
        length_ = accepted == drafted ? std::min(length_ + 2, kMost) : std::max(1, accepted + 1);
        drafted_ += drafted;
        accepted_ += accepted;
        given_up_ = drafted_ >= kTrial && accepted_ * 3 < drafted_;
        if (drafted_ < 2 * kTrial) return;
        drafted_ /= 2;  // what was long ago counts less
        accepted_ /= 2;
    }

  private:
    static constexpr int kMost = 8;
    static constexpr int kTrial = 32;  // guesses before they are judged

    int length_ = 3;
    int drafted_ = 0;
    int accepted_ = 0;
    bool given_up_ = false;
};

}  // namespace tandem::engine
