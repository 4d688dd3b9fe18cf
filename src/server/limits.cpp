#include "server/limits.h"

#include <algorithm>
#include <cmath>

namespace tandem::server {

namespace {

constexpr size_t kMostBuckets = 4096;  // before idle ones are forgotten

ApiError too_many(std::string message, int retry_after_s) {
    return {.status = 429,
            .type = "rate_limit_error",
            .message = std::move(message),
            .code = "rate_limit_exceeded",
            .retry_after_s = retry_after_s};
}

}  // namespace

Limits::Limits(LimitRules rules) : rules_(rules), most_tokens_(std::max(1.0, rules.requests_per_minute)) {}

void Limits::refill(Bucket& bucket, TimePoint now) const {
    const double seconds = std::chrono::duration<double>(now - bucket.filled).count();
    bucket.tokens = std::min(most_tokens_, bucket.tokens + seconds * rules_.requests_per_minute / 60);
    bucket.filled = now;
}

// What is idle and full is as good as new.
void Limits::forget_idle(TimePoint now) {
    for (auto& entry : state_->buckets) refill(entry.second, now);
    std::erase_if(state_->buckets, [&](const auto& entry) {
        return entry.second.under_way == 0 && entry.second.tokens >= most_tokens_;
    });
}

Reply<Limits::Ticket> Limits::enter(const std::string& who, TimePoint now) {
    const std::lock_guard lock(state_->mutex);
    if (state_->buckets.size() >= kMostBuckets && !state_->buckets.contains(who)) forget_idle(now);
    const Bucket full{.tokens = most_tokens_, .filled = now};
    Bucket& bucket = state_->buckets.try_emplace(who, full).first->second;
    refill(bucket, now);
    if (rules_.concurrent > 0 && bucket.under_way >= rules_.concurrent) {
        return too_many(fmt::format("{} requests of this key are under way, the most it may have: wait for one to end",
                                    bucket.under_way),
                        1);
    }
    if (rules_.requests_per_minute > 0) {
        constexpr double kRounding = 1e-9;  // whoever waits as long as was said must get in
        if (bucket.tokens < 1 - kRounding) {
            const double wait_s = std::ceil((1 - bucket.tokens) * 60 / rules_.requests_per_minute);
            const int retry_after_s = static_cast<int>(std::clamp(wait_s, 1.0, 1e9));
            return too_many(fmt::format("this key may make {:g} requests a minute and has used them up: there is one "
                                        "more in {} s",
                                        rules_.requests_per_minute, retry_after_s),
                            retry_after_s);
        }
        bucket.tokens -= 1;
    }
    ++bucket.under_way;
    return Ticket(nullptr, [state = state_, who](void*) {
        const std::lock_guard inner(state->mutex);
        --state->buckets.at(who).under_way;
    });
}

}  // namespace tandem::server
