#include "user/settings.h"

#include <algorithm>
#include <random>

#include "user/grammar.h"
#include "user/parse.h"

namespace tandem::user {

namespace {

constexpr double kEndless = std::numeric_limits<double>::max();

// Sets a float of the sampling parameters from text within a range.
template <auto member>
Status set_float(Settings& settings, std::string_view value, std::string_view what, Range<double> range) {
    settings.sampling.*member = static_cast<float>(TRY(parse_number(value, what, range)));
    return Ok{};
}

template <auto member>
std::string show_sampling(const Settings& settings) {
    return fmt::format("{}", settings.sampling.*member);
}

Status set_top_p(Settings& settings, std::string_view value) {
    const double top_p = TRY(parse_number(value, "top_p", {.least = 0, .most = 1}));
    if (top_p == 0) return fail("top_p 0: it must be above 0 and at most 1");
    settings.sampling.top_p = static_cast<float>(top_p);
    return Ok{};
}

Status set_repeat_penalty(Settings& settings, std::string_view value) {
    const double penalty = TRY(parse_number(value, "repeat_penalty", {.least = 0, .most = 100}));
    if (penalty == 0) return fail("repeat_penalty 0: it must be above 0; 1 changes nothing");
    settings.sampling.repetition_penalty = static_cast<float>(penalty);
    return Ok{};
}

Status set_top_k(Settings& settings, std::string_view value) {
    const int64_t top_k = TRY(parse_integer(value, "top_k", {.least = 0, .most = std::numeric_limits<int32_t>::max()}));
    settings.sampling.top_k = static_cast<int>(top_k);
    return Ok{};
}

Status set_seed(Settings& settings, std::string_view value) {
    if (value == "random") {
        settings.seed.reset();
        return Ok{};
    }
    const int64_t seed = TRY(parse_integer(value, "seed", {.least = 0, .most = std::numeric_limits<int64_t>::max()}));
    settings.seed = static_cast<uint64_t>(seed);
    return Ok{};
}

Status set_max_tokens(Settings& settings, std::string_view value) {
    const int64_t count =
        TRY(parse_integer(value, "max_tokens", {.least = 0, .most = std::numeric_limits<int32_t>::max()}));
    settings.max_tokens = static_cast<int>(count);
    return Ok{};
}

Status add_logit_bias(Settings& settings, std::string_view value) {
    auto& biases = settings.sampling.logit_bias;
    if (value.empty()) {
        biases.clear();
        return Ok{};
    }
    const auto bias = TRY(parse_logit_bias(value));
    std::erase_if(biases, [&](const auto& other) { return other.first == bias.first; });
    biases.push_back(bias);
    return Ok{};
}

std::string show_logit_bias(const Settings& settings) {
    std::string text;
    for (const auto& [id, value] : settings.sampling.logit_bias) text += fmt::format("{}={} ", id, value);
    return text.empty() ? "none" : text;
}

std::string show_stop(const Settings& settings) {
    std::string text;
    for (const std::string& stop : settings.stop) text += fmt::format("'{}' ", stop);
    return text.empty() ? "none" : text;
}

Status set_grammar(Settings& settings, std::string_view value) {
    const bool none = value.empty() || value == "none";
    settings.grammar = none ? nullptr : TRY(read_grammar(value));
    settings.grammar_source = value;
    return Ok{};
}

Status set_thinking(Settings& settings, std::string_view value) {
    if (value == "on" || value == "off") {
        settings.thinking = value == "on";
    } else if (value.empty() || value == "default") {
        settings.thinking.reset();
    } else {
        return fail("think '{}': it is on, off or default", value.substr(0, 40));
    }
    return Ok{};
}

std::string show_thinking(const Settings& settings) {
    if (!settings.thinking) return "default";
    return *settings.thinking ? "on" : "off";
}

using device::SamplingParams;

const Parameter kParameters[] = {
    {"system", "TEXT", "System message: how the model should behave", false,
     [](Settings& settings, std::string_view value) -> Status {
         settings.system = value;
         return Ok{};
     },
     [](const Settings& settings) { return settings.system.empty() ? "none" : settings.system; }},
    {"think", "", "Whether the model thinks before it answers, where its template lets one choose", false, set_thinking,
     show_thinking},
    {"temperature", "T", "How freely tokens are drawn: 0 always takes the likeliest (0.8)", false,
     [](Settings& settings, std::string_view value) {
         return set_float<&SamplingParams::temperature>(settings, value, "temperature", {.least = 0, .most = kEndless});
     },
     show_sampling<&SamplingParams::temperature>},
    {"top_k", "K", "Draw among the K likeliest; 0: among all (40)", false, set_top_k,
     show_sampling<&SamplingParams::top_k>},
    {"top_p", "P", "Draw among the likeliest that together have probability P, 0 < P <= 1 (0.95)", false, set_top_p,
     show_sampling<&SamplingParams::top_p>},
    {"min_p", "P", "Draw among those at least P times as likely as the likeliest, 0 <= P <= 1 (0.05)", false,
     [](Settings& settings, std::string_view value) {
         return set_float<&SamplingParams::min_p>(settings, value, "min_p", {.least = 0, .most = 1});
     },
     show_sampling<&SamplingParams::min_p>},
    {"repeat_penalty", "R", "Above 1 makes tokens that were seen less likely (1: off)", false, set_repeat_penalty,
     show_sampling<&SamplingParams::repetition_penalty>},
    {"presence_penalty", "A", "Taken from the logits of tokens that were seen (0: off)", false,
     [](Settings& settings, std::string_view value) {
         return set_float<&SamplingParams::presence_penalty>(settings, value, "presence_penalty",
                                                             {.least = -100, .most = 100});
     },
     show_sampling<&SamplingParams::presence_penalty>},
    {"frequency_penalty", "A", "Taken from the logit of a token for each time it was seen (0: off)", false,
     [](Settings& settings, std::string_view value) {
         return set_float<&SamplingParams::frequency_penalty>(settings, value, "frequency_penalty",
                                                              {.least = -100, .most = 100});
     },
     show_sampling<&SamplingParams::frequency_penalty>},
    {"seed", "N", "Same seed, same text; 'random' draws a new one for every answer (random)", false, set_seed,
     [](const Settings& settings) { return settings.seed ? fmt::format("{}", *settings.seed) : "random"; }},
    {"logit_bias", "ID=VALUE", "Added to the logit of token ID; may be given several times", true, add_logit_bias,
     show_logit_bias},
    {"stop", "TEXT", "End the answer where this text would appear; may be given several times", true,
     [](Settings& settings, std::string_view value) -> Status {
         if (value.empty()) {
             settings.stop.clear();
         } else {
             settings.stop.emplace_back(value);
         }
         return Ok{};
     },
     show_stop},
    {"grammar", "WHAT", "Hold the answer to a grammar: 'json' (any object), a JSON Schema, GBNF, or a file with either",
     false, set_grammar,
     [](const Settings& settings) { return settings.grammar ? settings.grammar_source : std::string("none"); }},
    {"max_tokens", "N", "Most tokens of an answer; 0: until the model ends it (EOS) or the context is full (0)", false,
     set_max_tokens, [](const Settings& settings) { return fmt::format("{}", settings.max_tokens); }},
};

}  // namespace

std::span<const Parameter> parameters() {
    return kParameters;
}

const Parameter* find_parameter(std::string_view name) {
    const auto* const found =
        std::find_if(std::begin(kParameters), std::end(kParameters), [&](const Parameter& parameter) {
            return std::equal(parameter.name.begin(), parameter.name.end(), name.begin(), name.end(),
                              [](char ours, char theirs) { return ours == (theirs == '-' ? '_' : theirs); });
        });
    return found == std::end(kParameters) ? nullptr : found;
}

device::SamplingParams next_sampling(const Settings& settings) {
    device::SamplingParams sampling = settings.sampling;
    if (settings.seed) {
        sampling.seed = *settings.seed;
    } else {
        std::random_device random;
        sampling.seed = random();  // 32 bits: enough to differ, short enough to type again
    }
    return sampling;
}

}  // namespace tandem::user
