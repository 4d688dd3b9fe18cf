// Settings: what a user may choose about an answer; one table serves the options of `run` and the REPL's /set.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/sampling.h"
#include "text/grammar/compiled_grammar.h"

namespace tandem::user {

struct Settings {
    device::SamplingParams sampling{.temperature = 0.8F, .top_k = 40, .top_p = 0.95F, .min_p = 0.05F, .logit_bias = {}};
    std::optional<uint64_t> seed;  // none: another one for every answer
    int max_tokens = 0;            // 0: until the context is full
    std::string system;
    std::optional<bool> thinking;  // before the answer; none: what the model's template does
    std::vector<std::string> stop;
    text::CompiledGrammarPtr grammar;  // that answers are held to; null: none
    std::string grammar_source;        // what the user called it
};

struct Parameter {
    std::string_view name;   // "top_k"; the option is --top-k
    std::string_view value;  // empty: a switch, "on" or "off", with the options --name and --no-name
    std::string_view help;
    bool repeatable;  // every value adds to those before; an empty one forgets them
    Status (*set)(Settings& settings, std::string_view value);
    std::string (*show)(const Settings& settings);
};

std::span<const Parameter> parameters();
const Parameter* find_parameter(std::string_view name);  // null when there is none

// The sampling of the next answer: with the seed that was chosen, or one at random.
device::SamplingParams next_sampling(const Settings& settings);

}  // namespace tandem::user
