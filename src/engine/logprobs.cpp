#include "engine/logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tandem::engine {

TokenLogprobs log_probabilities(std::span<const float> logits, TokenId token, int top) {
    const float largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;  // in double: of a large vocabulary
    for (float logit : logits) sum += std::exp(static_cast<double>(logit - largest));
    const double log_total = std::log(sum) + static_cast<double>(largest);
    const auto of = [&](TokenId id) {
        const double logprob = static_cast<double>(logits[static_cast<size_t>(id)]) - log_total;
        return TokenProbability{.token = id, .logprob = static_cast<float>(logprob)};
    };

    TokenLogprobs result{.chosen = of(token), .top = {}};
    if (top <= 0) return result;
    std::vector<TokenId> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    const auto kept =
        order.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(static_cast<size_t>(top), order.size()));
    std::partial_sort(order.begin(), kept, order.end(), [&](TokenId a, TokenId b) {
        const float x = logits[static_cast<size_t>(a)];
        const float y = logits[static_cast<size_t>(b)];
        return x != y ? x > y : a < b;
    });
    result.top.reserve(static_cast<size_t>(kept - order.begin()));
    std::transform(order.begin(), kept, std::back_inserter(result.top), of);
    return result;
}

}  // namespace tandem::engine
