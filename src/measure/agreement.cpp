#include "measure/agreement.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "measure/stage.h"

namespace tandem::measure {

namespace {

constexpr int kTokens = 8;  // of the prompt that the reference runs, before it decodes one more

double log_sum(std::span<const float> logits, float largest) {
    double sum = 0;
    for (float logit : logits) sum += std::exp(static_cast<double>(logit) - static_cast<double>(largest));
    return std::log(sum) + static_cast<double>(largest);
}

// The logits after the prompt and after one more token.
struct Reference {
    std::vector<float> prompt;
    std::vector<float> decode;
};

Result<Reference> run_reference(const models::Model& model, device::Backend& backend, std::optional<DType> kv_dtype) {
    const auto stage = TRY(Stage::open(
        model, backend, {.positions = kTokens + 1, .rows = kTokens, .result = "logits", .kv_dtype = kv_dtype}));
    Reference reference;
    TRY(stage->step(0, kTokens, kTokens - 1));
    const auto prompt = stage->result<float>();
    reference.prompt.assign(prompt.begin(), prompt.end());
    TRY(stage->step(kTokens, 1, 0));
    const auto decode = stage->result<float>();
    reference.decode.assign(decode.begin(), decode.end());
    return reference;
}

void keep_worst(Distance& worst, const Distance& distance) {
    worst.kl = std::max(worst.kl, distance.kl);
    worst.difference = std::max(worst.difference, distance.difference);
    worst.same_top = worst.same_top && distance.same_top;
    worst.finite = worst.finite && distance.finite;
}

Distance worst_row(std::span<const float> rows, std::span<const float> reference) {
    Distance worst;
    for (size_t at = 0; at < rows.size(); at += reference.size())
        keep_worst(worst, compare_logits(rows.subspan(at, reference.size()), reference));
    return worst;
}

}  // namespace

Distance compare_logits(std::span<const float> logits, std::span<const float> reference) {
    Distance distance;
    const auto finite = [](float value) { return std::isfinite(value); };
    distance.finite =
        std::all_of(logits.begin(), logits.end(), finite) && std::all_of(reference.begin(), reference.end(), finite);
    if (!distance.finite) {
        distance.same_top = false;
        return distance;
    }
    const auto top = std::max_element(logits.begin(), logits.end());
    const auto reference_top = std::max_element(reference.begin(), reference.end());
    const double log_total = log_sum(logits, *top);
    const double reference_log_total = log_sum(reference, *reference_top);
    double largest = 0;
    double difference = 0;
    for (size_t i = 0; i < reference.size(); ++i) {
        const double p = static_cast<double>(reference[i]) - reference_log_total;
        const double q = static_cast<double>(logits[i]) - log_total;
        distance.kl += std::exp(p) * (p - q);
        largest = std::max(largest, std::abs(static_cast<double>(reference[i])));
        difference = std::max(difference, std::abs(static_cast<double>(reference[i]) - static_cast<double>(logits[i])));
    }
    distance.kl = std::max(0.0, distance.kl);  // rounding may leave a little less
    distance.difference = largest > 0 ? difference / largest : difference;
    distance.same_top = top - logits.begin() == reference_top - reference.begin();
    return distance;
}

Result<std::vector<AgreementRow>> check_agreement(const models::Model& model, device::Backend& device,
                                                  device::Backend& reference_device, const AgreementOptions& options) {
    const Reference reference = TRY(run_reference(model, reference_device, options.kv_dtype));
    std::vector<AgreementRow> rows;
    for (int prompt : options.prompts) {
        const int chunk = std::clamp(prompt, kTokens, std::max(kTokens, options.chunk));
        const auto stage = TRY(Stage::open(
            model, device, {.positions = chunk, .rows = chunk, .result = "logits", .kv_dtype = options.kv_dtype}));
        TRY(stage->step(0, chunk, kTokens - 1));
        rows.push_back({fmt::format("prompt of {}", prompt), worst_row(stage->result<float>(), reference.prompt)});
    }
    for (int sequences : options.decode) {
        const auto stage = TRY(Stage::open(model, device,
                                           {.sequences = sequences,
                                            .positions = kTokens + 1,
                                            .rows = kTokens,
                                            .result = "logits",
                                            .kv_dtype = options.kv_dtype}));
        TRY(stage->step(0, kTokens, kTokens - 1));
        Distance worst = worst_row(stage->result<float>(), reference.prompt);
        TRY(stage->step(kTokens, 1, 0));
        keep_worst(worst, worst_row(stage->result<float>(), reference.decode));
        rows.push_back({fmt::format("decode, {} sequence{}", sequences, sequences == 1 ? "" : "s"), worst});
    }
    return rows;
}

}  // namespace tandem::measure
