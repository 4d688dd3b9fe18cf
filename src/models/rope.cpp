#include "models/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <span>

namespace tandem::models {

namespace {

using Scaling = RopeSettings::Scaling;

constexpr Range kBaseRange{1.0001, 1e15};
constexpr Range kFactorRange{1e-3, 1e6};
constexpr Range kContextRange{1, 1 << 30};
constexpr float kStill = 1e30F;  // the divisor of a pair that does not turn

// By how much yarn's stretched attention is sharpened.
double yarn_magnitude(double factor, double multiplier = 1) {
    return factor <= 1 ? 1 : 0.1 * multiplier * std::log(factor) + 1;
}

Scaling parse_scaling(Settings& s, const std::string& name) {
    if (name.empty() || name == "default" || name == "none") return Scaling::none;
    if (name == "linear") return Scaling::linear;
    if (name == "llama3") return Scaling::llama3;
    if (name == "yarn") return Scaling::yarn;
    if (name == "longrope" || name == "su") return Scaling::longrope;
    s.reject(fmt::format("rope scaling '{}' is not supported (supported: linear, llama3, longrope, yarn)", name));
    return Scaling::none;
}

int read_dim(Settings& s, int head_dim, const RopeKeys& keys, const std::string& section) {
    int dim = s.count({keys.gguf_dim, ""}, head_dim, head_dim);
    const double part =
        s.real({"", section + ".partial_rotary_factor"}, {0, 1}, s.real({"", "partial_rotary_factor"}, {0, 1}, 1));
    if (!s.is_gguf()) dim = static_cast<int>(head_dim * part);
    if (dim < 2 || dim % 2 != 0) s.reject(fmt::format("rope turns {} elements of a head, not an even number", dim));
    return dim;
}

// rope_freqs.weight: what Llama 3's scaling comes to, worked out by whoever wrote the file, or which pairs turn at all;
// rope_factors_long.weight and rope_factors_short.weight: of longrope.
std::vector<float> read_divisors(Settings& s, const std::string& name, int rope_dim) {
    const format::TensorRecord* tensor = s.checkpoint().find(name);
    if (tensor == nullptr) return {};
    if (tensor->dtype != DType::f32 || tensor->shape != std::vector<int64_t>{rope_dim / 2}) {
        s.reject(fmt::format("tensor '{}' is not f32[{}]", name, rope_dim / 2));
        return {};
    }
    std::vector<float> divisors(static_cast<size_t>(rope_dim / 2));
    std::memcpy(divisors.data(), tensor->data.data(), tensor->data.size());
    for (const float divisor : divisors) {
        const bool good = (divisor >= 1e-6F && divisor <= 1e6F) || divisor == kStill;
        if (!good) s.reject(fmt::format("tensor '{}' has {}, expected 1e-06 to 1e+06, or 1e+30", name, divisor));
    }
    return divisors;
}

// By the context that the model was made for, so that keys mean the same however long a sequence gets; transformers
// goes by the length of the sequence at hand, and the keys it has kept then mean something else.
void choose_divisors(Settings& s, int context_length, RopeSettings& rope) {
    const auto count = static_cast<size_t>(rope.dim / 2);
    if (rope.long_divisors.size() != count || rope.short_divisors.size() != count) {
        s.reject(fmt::format("longrope has {} long and {} short factors, expected {} of both",
                             rope.long_divisors.size(), rope.short_divisors.size(), count));
        return;
    }
    rope.divisors = context_length > rope.original_context ? rope.long_divisors : rope.short_divisors;
}

// Only the first of a head's pairs turn, and their frequencies go down as if all did.
void read_proportional(Settings& s, const std::string& section, int head_dim, RopeSettings& rope) {
    const double factor = s.real({"", section + ".factor"}, kFactorRange, 1);
    const int turned = rope.dim / 2;
    rope.dim = head_dim;
    rope.divisors.assign(static_cast<size_t>(head_dim / 2), kStill);
    std::fill_n(rope.divisors.begin(), turned, static_cast<float>(factor));
}

void read_gguf_scaling(Settings& s, int context_length, RopeSettings& rope) {
    rope.factor = s.real({"rope.scaling.factor", ""}, {0, kFactorRange.most},
                         s.real({"rope.scale_linear", ""}, {0, kFactorRange.most}, 0));
    // A file that names a factor and no type means linear scaling; factor 0 is the old way to say none.
    rope.scaling = parse_scaling(s, s.text({"rope.scaling.type", ""}, rope.factor == 0 ? "none" : "linear"));
    if (rope.scaling == Scaling::llama3) s.reject("a GGUF file says llama3 scaling by rope_freqs.weight, not by name");
    if (rope.factor > 0 && rope.factor < kFactorRange.least) {
        s.reject(
            fmt::format("the factor of rope scaling is {}, expected at least {}", rope.factor, kFactorRange.least));
    }
    if (rope.factor == 0) rope.factor = 1;
    rope.query_growth = s.real({"attention.temperature_scale", ""}, {0, 1e3}, 0);
    rope.original_context = s.real({"rope.scaling.original_context_length", ""}, kContextRange, context_length);
    rope.long_divisors = read_divisors(s, "rope_factors_long.weight", rope.dim);
    rope.short_divisors = read_divisors(s, "rope_factors_short.weight", rope.dim);
    if (rope.scaling == Scaling::longrope || !rope.long_divisors.empty()) {
        rope.scaling = Scaling::longrope;  // which files do not always name
        rope.magnitude = s.real({"rope.scaling.attn_factor", ""}, kFactorRange, 1);
        return choose_divisors(s, context_length, rope);
    }
    if (rope.scaling != Scaling::yarn) return;
    rope.beta_fast = s.real({"rope.scaling.yarn_beta_fast", ""}, kFactorRange, 32);
    rope.beta_slow = s.real({"rope.scaling.yarn_beta_slow", ""}, kFactorRange, 1);
    const double multiplier = s.real({"rope.scaling.yarn_log_multiplier", ""}, {0, 1e3}, 0);
    rope.magnitude = s.real({"rope.scaling.attn_factor", ""}, kFactorRange, 1) * yarn_magnitude(rope.factor) /
                     yarn_magnitude(rope.factor, multiplier);
}

std::vector<float> read_factors(Settings& s, const std::string& path) {
    const std::vector<double> factors = s.reals({"", path}, kFactorRange);
    return {factors.begin(), factors.end()};
}

// The magnitude makes up for the scores of a longer context that spread thinner.
void read_hf_longrope(Settings& s, const std::string& section, int context_length, RopeSettings& rope) {
    const std::string_view original = "original_max_position_embeddings";
    rope.original_context = s.real({"", fmt::format("{}.{}", section, original)}, kContextRange,
                                   s.real({"", original}, kContextRange, context_length));
    rope.factor = s.real({"", section + ".factor"}, kFactorRange, context_length / rope.original_context);
    const double usual = rope.factor <= 1 || rope.original_context <= 1
                             ? 1
                             : std::sqrt(1 + std::log(rope.factor) / std::log(rope.original_context));
    rope.magnitude = s.real({"", section + ".attention_factor"}, kFactorRange, usual);
    rope.long_divisors = read_factors(s, section + ".long_factor");
    rope.short_divisors = read_factors(s, section + ".short_factor");
    choose_divisors(s, context_length, rope);
}

void read_hf_scaling(Settings& s, const std::string& section, const Dimensions& dims, RopeSettings& rope) {
    const int context_length = dims.context_length;
    const auto at = [&](std::string_view name) { return fmt::format("{}.{}", section, name); };
    const auto real = [&](std::string_view name, Range range, std::optional<double> fallback) {
        return s.real({"", at(name)}, range, fallback);
    };
    const std::string type = s.text({"", at("rope_type")}, s.text({"", at("type")}, "default"));
    if (type == "proportional") return read_proportional(s, section, dims.head_dim, rope);
    rope.scaling = parse_scaling(s, type);
    if (rope.scaling == Scaling::none) return;
    if (rope.scaling == Scaling::longrope) return read_hf_longrope(s, section, context_length, rope);
    rope.original_context = real("original_max_position_embeddings", kContextRange, context_length);
    const double stretched = context_length / rope.original_context;
    rope.factor = real("factor", kFactorRange, rope.scaling == Scaling::yarn ? std::optional(stretched) : std::nullopt);
    if (rope.scaling == Scaling::llama3) {
        rope.low_freq_factor = real("low_freq_factor", kFactorRange, std::nullopt);
        rope.high_freq_factor = real("high_freq_factor", kFactorRange, std::nullopt);
        if (rope.high_freq_factor <= rope.low_freq_factor) s.reject("high_freq_factor must be above low_freq_factor");
    }
    if (rope.scaling == Scaling::yarn) {
        rope.beta_fast = real("beta_fast", kFactorRange, 32);
        rope.beta_slow = real("beta_slow", kFactorRange, 1);
        rope.truncate = s.flag({"", at("truncate")}, true);
        const double mscale = real("mscale", {0, 1e6}, 0);
        const double mscale_all = real("mscale_all_dim", {0, 1e6}, 0);
        const double usual = mscale > 0 && mscale_all > 0
                                 ? yarn_magnitude(rope.factor, mscale) / yarn_magnitude(rope.factor, mscale_all)
                                 : yarn_magnitude(rope.factor);
        rope.magnitude = real("attention_factor", kFactorRange, usual);
        rope.query_growth = real("llama_4_scaling_beta", {0, 1e3}, 0);
    }
}

// Fast pairs keep their frequency, slow ones are slowed by the factor, those between are blended.
double llama3_divisor(const RopeSettings& rope, double frequency) {
    const double turns = rope.original_context * frequency / (2 * std::numbers::pi);  // in the original context
    if (turns > rope.high_freq_factor) return 1;
    if (turns < rope.low_freq_factor) return rope.factor;
    const double smooth = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
    return 1 / ((1 - smooth) / rope.factor + smooth);
}

// As llama3, but the blend is linear in the pair's number.
double yarn_divisor(const RopeSettings& rope, int pair) {
    const auto pair_that_turns = [&](double times) {
        return rope.dim * std::log(rope.original_context / (times * 2 * std::numbers::pi)) / (2 * std::log(rope.base));
    };
    double low = pair_that_turns(rope.beta_fast);
    double high = pair_that_turns(rope.beta_slow);
    if (rope.truncate) {
        low = std::floor(low);
        high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, rope.dim - 1.0);
    if (low == high) high += 0.001;
    const double slowed = std::clamp((pair - low) / (high - low), 0.0, 1.0);
    return 1 / (slowed / rope.factor + (1 - slowed));
}

double base_frequency(const RopeSettings& rope, int pair) {
    return std::pow(rope.base, -2.0 * pair / rope.dim);
}

double divisor(const RopeSettings& rope, int pair) {
    switch (rope.scaling) {
        case Scaling::none:
        case Scaling::longrope:  // its divisors say it all
            return 1;
        case Scaling::linear:
            return rope.factor;
        case Scaling::llama3:
            return llama3_divisor(rope, base_frequency(rope, pair));
        case Scaling::yarn:
            return yarn_divisor(rope, pair);
    }
    return 1;
}

// transformers 5 has it all in rope_parameters, per type of layer where they differ; 4 had rope_scaling.
std::string hf_section(const Settings& s, const RopeKeys& keys) {
    std::string of_layers = fmt::format("rope_parameters.{}", keys.layer_type);
    if (!keys.layer_type.empty() && s.has_value({"", of_layers})) return of_layers;
    if (!keys.scaled) return of_layers;
    return s.has_value({"", "rope_parameters"}) ? "rope_parameters" : "rope_scaling";
}

}  // namespace

RopeSettings read_rope(Settings& s, const Dimensions& dims, const RopeKeys& keys) {
    const std::string section = hf_section(s, keys);
    RopeSettings rope;
    rope.dim = read_dim(s, dims.head_dim, keys, section);
    rope.base = s.real({keys.gguf_base, section + ".rope_theta"}, kBaseRange,
                       s.real({"", keys.hf_base}, kBaseRange, keys.usual_base));
    if (!s.is_gguf()) {
        read_hf_scaling(s, section, dims, rope);
    } else if (keys.scaled) {
        read_gguf_scaling(s, dims.context_length, rope);
        if (rope.divisors.empty()) rope.divisors = read_divisors(s, "rope_freqs.weight", rope.dim);
    }
    return rope;
}

op::Rope make_rope(const RopeSettings& rope, int head_dim, op::RopeLayout layout) {
    op::Rope made{.head_dim = head_dim,
                  .layout = layout,
                  .magnitude = static_cast<float>(rope.magnitude),
                  .inv_freq = std::vector<float>(static_cast<size_t>(rope.dim / 2))};
    for (int pair = 0; pair < rope.dim / 2; ++pair) {
        const auto i = static_cast<size_t>(pair);
        const bool still = !rope.divisors.empty() && rope.divisors[i] == kStill;
        const double from_file = rope.divisors.empty() ? 1 : rope.divisors[i];
        made.inv_freq[i] =
            still ? 0.0F : static_cast<float>(base_frequency(rope, pair) / divisor(rope, pair) / from_file);
    }
    return made;
}

namespace {

void write_divisors(std::string name, std::vector<float> divisors, format::GgufWriter& writer) {
    const auto count = static_cast<int64_t>(divisors.size());
    writer.add({.name = std::move(name),
                .dtype = DType::f32,
                .shape = {count},
                .fill = [divisors = std::move(divisors)](uint64_t first, std::span<std::byte> out) -> Status {
                    std::ranges::copy(std::as_bytes(std::span(divisors)).subspan(first, out.size()), out.begin());
                    return Ok{};
                }});
}

}  // namespace

Status write_rope(const Settings& s, const RopeSettings& rope, format::GgufWriter& writer) {
    const auto set = [&](std::string_view key, auto value) {
        writer.set(fmt::format("{}.rope.{}", s.architecture(), key), value);
    };
    set("freq_base", static_cast<float>(rope.base));
    set("dimension_count", static_cast<uint32_t>(rope.dim));
    if (rope.scaling == Scaling::linear || rope.scaling == Scaling::yarn) {
        set("scaling.type", rope.scaling == Scaling::linear ? "linear" : "yarn");
        set("scaling.factor", static_cast<float>(rope.factor));
    }
    if (rope.scaling == Scaling::yarn) {
        if (!rope.truncate) return fail("{}: GGUF cannot say that yarn does not truncate", s.checkpoint().name());
        set("scaling.original_context_length", static_cast<uint32_t>(rope.original_context));
        set("scaling.yarn_beta_fast", static_cast<float>(rope.beta_fast));
        set("scaling.yarn_beta_slow", static_cast<float>(rope.beta_slow));
        set("scaling.attn_factor", static_cast<float>(rope.magnitude / yarn_magnitude(rope.factor)));
    }
    if (rope.query_growth > 0) {
        writer.set(fmt::format("{}.attention.temperature_scale", s.architecture()),
                   static_cast<float>(rope.query_growth));
    }
    if (rope.scaling == Scaling::longrope) {
        set("scaling.original_context_length", static_cast<uint32_t>(rope.original_context));
        set("scaling.attn_factor", static_cast<float>(rope.magnitude));
        write_divisors("rope_factors_long.weight", rope.long_divisors, writer);
        write_divisors("rope_factors_short.weight", rope.short_divisors, writer);
    } else if (rope.scaling == Scaling::llama3) {
        std::vector<float> divisors;
        for (int pair = 0; pair < rope.dim / 2; ++pair) divisors.push_back(static_cast<float>(divisor(rope, pair)));
        write_divisors("rope_freqs.weight", std::move(divisors), writer);
    } else if (!rope.divisors.empty()) {
        write_divisors("rope_freqs.weight", rope.divisors, writer);
    }
    return Ok{};
}

}  // namespace tandem::models
