// Forecast: how long steps of a Program take on a device, by the device's Speeds, and what of it takes the time.
#pragma once

#include <string_view>

#include "graph/program.h"
#include "plan/speeds.h"

namespace tandem::plan {

struct Forecast {
    double seconds = 0;
    int tokens = 0;  // that come of it, or that are read by it
    // In which the device could do it at best: the larger of its reading and its computing. 0: no limit is known, as to
    // reading what fits the caches.
    double limit_s = 0;

    // What it is made of.
    double reading_s = 0;      // weights, as products of one row would
    double computing_s = 0;    // the products take longer by
    double attention_s = 0;    //
    double activation_s = 0;   // norms, activations, sampling
    double dispatch_s = 0;     // parts that wait for one another
    double weight_bytes = 0;   // that are read
    double cache_bytes = 0;    //
    double product_flops = 0;  //

    double tokens_per_s() const { return tokens / seconds; }
    double most_tokens_per_s() const { return limit_s > 0 ? tokens / limit_s : 0; }  // at best; 0: not known
    std::string_view limited_by() const;                                             // the largest part

    Forecast& operator+=(const Forecast& next);  // one after another
};

// A step of a Program or of a part of one, with all that it makes.
Forecast forecast_step(const graph::Program& part, const graph::StepShape& step, const Speeds& speeds);

// A step in which each of the sequences, with `context` positions behind it, draws a token.
Forecast forecast_decode(const graph::Program& program, int sequences, int context, DType kv_dtype,
                         const Speeds& speeds);

// A prompt in chunks of at most so many rows, to its first token.
Forecast forecast_prompt(const graph::Program& program, int tokens, int chunk, DType kv_dtype, const Speeds& speeds);

// The fewest sequences together that draw so many tokens a second, of at most `most`; 0: none do.
int sequences_for(const graph::Program& program, double tokens_per_s, int context, DType kv_dtype, const Speeds& speeds,
                  int most);

}  // namespace tandem::plan
