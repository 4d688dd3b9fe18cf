// Agreement: whether a device gives a model the logits that another one, the reference, gives it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/backend.h"
#include "models/model.h"

namespace tandem::measure {

// How far the logits of a row are from the reference's.
struct Distance {
    double kl = 0;          // Kullback-Leibler divergence of the distributions, in nats
    double difference = 0;  // largest, relative to the largest logit
    bool same_top = true;   // the likeliest token is the same
    bool finite = true;
};

// Two devices that both round activations to 8 bits stay far below these; a product that is wrong is far above.
struct Tolerance {
    double kl = 0.05;
    double difference = 0.15;

    bool holds(const Distance& distance) const {
        return distance.finite && distance.kl <= kl && distance.difference <= difference;
    }
};

Distance compare_logits(std::span<const float> logits, std::span<const float> reference);

struct AgreementRow {
    std::string what;   // "prompt of 512", "decode, 8 sequences"
    Distance distance;  // of its row that is furthest off
};

struct AgreementOptions {
    std::vector<int> decode;   // numbers of sequences that step together
    std::vector<int> prompts;  // lengths; one row of the first tokens is compared, on which the rest has no influence
    int chunk = 2048;
    std::optional<DType> kv_dtype;
};

// Runs a few tokens on the reference, and on the device the same tokens in steps of every size asked for.
Result<std::vector<AgreementRow>> check_agreement(const models::Model& model, device::Backend& device,
                                                  device::Backend& reference, const AgreementOptions& options);

}  // namespace tandem::measure
