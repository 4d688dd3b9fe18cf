// Perplexity: how surprised a model is by a text; the measure that a change of arithmetic or quantization is judged by.
#pragma once

#include <functional>
#include <span>

#include "base/result.h"
#include "measure/scorer.h"

namespace tandem::measure {

struct Perplexity {
    int tokens = 0;         // predicted
    double nll_sum = 0;     // of natural logarithms of their probabilities, negated
    double nll_square = 0;  // sum of squares, for the error of the mean

    double mean() const { return tokens > 0 ? nll_sum / tokens : 0; }
    double perplexity() const;
    double standard_error() const;  // of mean()
};

// The text in windows as long as the scorer's context, each begun with `bos` where the model has one.
// `progress` hears how many of the tokens are done; it may be empty.
Result<Perplexity> measure_perplexity(Scorer& scorer, std::span<const text::TokenId> tokens,
                                      std::optional<text::TokenId> bos, const std::function<void(int done)>& progress);

}  // namespace tandem::measure
