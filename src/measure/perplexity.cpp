#include "measure/perplexity.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tandem::measure {

namespace {

// -log softmax(logits)[token], in double: a sum over a large vocabulary.
double negative_log_likelihood(std::span<const float> logits, text::TokenId token) {
    const float largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (float logit : logits) sum += std::exp(static_cast<double>(logit - largest));
    return std::log(sum) + static_cast<double>(largest) - static_cast<double>(logits[static_cast<size_t>(token)]);
}

}  // namespace

double Perplexity::perplexity() const {
    return std::exp(mean());
}

double Perplexity::standard_error() const {
    if (tokens < 2) return 0;
    const double variance = nll_square / tokens - mean() * mean();
    return std::sqrt(std::max(0.0, variance) / (tokens - 1));
}

Result<Perplexity> measure_perplexity(Scorer& scorer, std::span<const text::TokenId> tokens,
                                      std::optional<text::TokenId> bos, const std::function<void(int done)>& progress) {
    const size_t lead = bos ? 1 : 0;
    const auto stride = static_cast<size_t>(scorer.context()) - lead;
    if (scorer.context() < 2) return fail("context {}: perplexity needs at least 2", scorer.context());
    Perplexity total;
    for (size_t begin = 0; begin < tokens.size(); begin += stride) {
        const auto piece = tokens.subspan(begin, std::min(stride, tokens.size() - begin));
        std::vector<text::TokenId> window;
        if (bos) window.push_back(*bos);
        window.insert(window.end(), piece.begin(), piece.end());
        if (window.size() < 2) break;  // a lone token predicts nothing
        TRY(scorer.score(window, [&](int position, std::span<const float> logits) -> Status {
            const size_t predicted = static_cast<size_t>(position) + 1;
            if (predicted >= window.size()) return Ok{};
            const double nll = negative_log_likelihood(logits, window[predicted]);
            ++total.tokens;
            total.nll_sum += nll;
            total.nll_square += nll * nll;
            return Ok{};
        }));
        if (progress) progress(static_cast<int>(begin + piece.size()));
    }
    if (total.tokens == 0)
        return fail("perplexity needs a text of at least two tokens, this one has {}", tokens.size());
    return total;
}

}  // namespace tandem::measure
