// The rows of mixes(): what llama.cpp's quantize chooses, as data.
#include <algorithm>
#include <array>

#include "models/mix.h"

namespace tandem::models {

namespace {

std::span<const Mix> named_mixes() {
    using enum DType;
    using enum Layers;
    using enum When;

    // Where there are 8 experts (Mixtral), attention is a small part and gets more bits.
    static constexpr Rule kV8{Role::v, q8_0, all, eight_experts};
    static constexpr Rule kK8{Role::k, q8_0, all, eight_experts};
    static constexpr Rule kOutput8{Role::attention_output, q5_k, all, eight_experts};
    static constexpr Rule kVGrouped4{Role::v, q4_k, all, grouped};
    static constexpr Rule kV70b{Role::v, q5_k, all, seventy_billion};

    static constexpr std::array kBare = {kV8, kK8};
    static constexpr std::array kQ3_K_S = {kV8, kK8, kOutput8, kV70b};
    static constexpr std::array kQ4_0 = {kV8, kK8, Rule{Role::down, q4_1, first_eighth, importance}};
    static constexpr std::array kQ5_0 = {kV8, kK8, Rule{Role::down, q5_1, first_eighth, importance}};
    static constexpr std::array kQ2_K = {kV8,
                                         kK8,
                                         kOutput8,
                                         kV70b,
                                         kVGrouped4,
                                         Rule{Role::v, q3_k},
                                         Rule{Role::down, q3_k},
                                         Rule{Role::attention_output, q3_k}};
    static constexpr std::array kQ2_K_S = {kV8, kK8, kV70b, kVGrouped4, Rule{Role::down, q4_k, first_eighth}};
    static constexpr std::array kQ3_K_M = {kV8,
                                           kK8,
                                           kOutput8,
                                           Rule{Role::v, q5_k, first_2},
                                           kV70b,
                                           Rule{Role::v, q4_k},
                                           Rule{Role::down, q5_k, first_sixteenth},
                                           Rule{Role::down, q4_k},
                                           Rule{Role::attention_output, q4_k}};
    static constexpr std::array kQ3_K_L = {kV8,
                                           kK8,
                                           Rule{Role::v, q5_k},
                                           Rule{Role::down, q5_k},
                                           Rule{Role::attention_output, q3_k, all, eight_experts},
                                           Rule{Role::attention_output, q5_k}};
    static constexpr std::array kQ4_K_S = {
        kV8, kK8, kOutput8, kV70b, Rule{Role::v, q5_k, first_4}, Rule{Role::down, q5_k, first_eighth}};
    static constexpr std::array kQ4_K_M = {
        kV8, kK8, kOutput8, Rule{Role::v, q6_k, ends_and_thirds}, kV70b, Rule{Role::down, q6_k, ends_and_thirds}};
    static constexpr std::array kQ5_K_M = {kV8, kK8, Rule{Role::v, q6_k, ends_and_thirds},
                                           Rule{Role::down, q6_k, ends_and_thirds}};
    static constexpr std::array kIq4 = {kV8, kK8, kOutput8, Rule{Role::v, q5_k, all, grouped},
                                        Rule{Role::down, q5_k, first_eighth, no_importance}};
    static constexpr std::array kIq3_S = {kV8, kK8, kOutput8, kV70b, kVGrouped4};
    static constexpr std::array kIq3_M = {kV8,
                                          kK8,
                                          kOutput8,
                                          kV70b,
                                          Rule{Role::v, q4_k},
                                          Rule{Role::down, q4_k, first_eighth},
                                          Rule{Role::down, q4_k, ends_and_thirds, eight_experts},
                                          Rule{Role::attention_output, q4_k}};
    static constexpr std::array kIq3_Xs = {kV8,
                                           kK8,
                                           kOutput8,
                                           kV70b,
                                           kVGrouped4,
                                           Rule{Role::k, iq3_xxs},
                                           Rule{Role::q, iq3_xxs},
                                           Rule{Role::gate, iq3_xxs, middle},
                                           Rule{Role::up, iq3_xxs, middle}};
    static constexpr std::array kIq3_Xxs = {kV8,
                                            kK8,
                                            kOutput8,
                                            kV70b,
                                            kVGrouped4,
                                            Rule{Role::v, iq3_s, all, no_importance},
                                            Rule{Role::k, iq2_s},
                                            Rule{Role::q, iq2_s},
                                            Rule{Role::down, q4_k, first_eighth, no_importance},
                                            Rule{Role::down, q3_k, all, no_importance},
                                            Rule{Role::attention_output, iq3_s}};
    static constexpr Rule kVExperts4{Role::v, q4_k, all, grouped_or_experts};
    static constexpr Rule kK4{Role::k, q4_k, all, eight_experts};
    static constexpr std::array kIq2_M = {kVExperts4,
                                          kK4,
                                          kOutput8,
                                          Rule{Role::v, iq3_s},
                                          Rule{Role::down, iq3_s, first_eighth},
                                          Rule{Role::attention_output, iq3_s}};
    static constexpr std::array kIq2_Xs = {kVExperts4, kK4, kOutput8, Rule{Role::v, q2_k},
                                           Rule{Role::down, q2_k, first_eighth}};
    static constexpr std::array kIq1 = {kVExperts4,
                                        kK4,
                                        kOutput8,
                                        Rule{Role::v, q2_k},
                                        Rule{Role::down, q2_k, first_eighth},
                                        Rule{Role::attention_output, iq2_xxs}};

    // name, number, base, output, embedding, experts, rules
    static constexpr Mix kMixes[] = {
        {"f32", 0, f32, f32, f32, {}, {}},
        {"f16", 1, f16, f16, f16, {}, {}},
        {"bf16", 32, bf16, bf16, bf16, {}, {}},
        {"q8_0", 7, q8_0, q8_0, q8_0, {}, kBare},
        {"q6_k", 18, q6_k, q6_k, q6_k, {}, kBare},
        {"q5_k_m", 17, q5_k, q6_k, q5_k, {}, kQ5_K_M},
        {"q5_k_s", 16, q5_k, q6_k, q5_k, {}, kBare},
        {"q5_1", 9, q5_1, q6_k, q5_1, {}, kBare},
        {"q5_0", 8, q5_0, q6_k, q5_0, {}, kQ5_0},
        {"q4_k_m", 15, q4_k, q6_k, q4_k, {}, kQ4_K_M},
        {"q4_k_s", 14, q4_k, q6_k, q4_k, {}, kQ4_K_S},
        {"q4_1", 3, q4_1, q6_k, q4_1, {}, kBare},
        {"q4_0", 2, q4_0, q6_k, q4_0, {}, kQ4_0},
        {"iq4_nl", 25, iq4_nl, q6_k, iq4_nl, {}, kIq4},
        {"iq4_xs", 30, iq4_xs, q6_k, iq4_xs, {}, kIq4},
        {"mxfp4_moe", 38, q8_0, q8_0, q8_0, mxfp4, kBare},
        {"q3_k_l", 13, q3_k, q6_k, q3_k, {}, kQ3_K_L},
        {"q3_k_m", 12, q3_k, q6_k, q3_k, {}, kQ3_K_M},
        {"q3_k_s", 11, q3_k, q6_k, q3_k, {}, kQ3_K_S},
        {"iq3_m", 27, iq3_s, q6_k, iq3_s, {}, kIq3_M},
        {"iq3_s", 26, iq3_s, q6_k, iq3_s, {}, kIq3_S},
        {"iq3_xs", 22, iq3_s, q6_k, iq3_s, {}, kIq3_Xs},
        {"iq3_xxs", 23, iq3_xxs, q5_k, iq3_s, {}, kIq3_Xxs},
        {"q2_k", 10, q2_k, q6_k, q2_k, {}, kQ2_K},
        {"q2_k_s", 21, q2_k, q6_k, q2_k, {}, kQ2_K_S},
        {"iq2_m", 29, iq2_s, q5_k, iq3_s, {}, kIq2_M},
        {"iq2_s", 28, iq2_xs, q5_k, iq3_s, {}, kIq2_M},
        {"iq2_xs", 20, iq2_xs, q5_k, q2_k, {}, kIq2_Xs},
        {"iq2_xxs", 19, iq2_xxs, q5_k, q2_k, {}, kIq2_Xs},
        {"q2_0", 41, q2_0, q6_k, q4_k, {}, kBare},
        {"tq2_0", 37, tq2_0, q6_k, q4_k, {}, kBare},
        {"tq1_0", 36, tq1_0, q6_k, q4_k, {}, kBare},
        {"iq1_m", 31, iq1_m, q5_k, q2_k, {}, kIq1},
        {"iq1_s", 24, iq1_s, q5_k, q2_k, {}, kIq1},
    };
    return kMixes;
}

}  // namespace

std::span<const Mix> mixes() {
    static const std::vector<Mix> all = [] {
        std::vector<Mix> made(named_mixes().begin(), named_mixes().end());
        for (const DType type : kAllDTypes) {
            const auto has_name = [type](const Mix& mix) { return mix.name == name(type); };
            if (type != DType::i32 && std::ranges::none_of(made, has_name)) made.push_back(plain_mix(type));
        }
        return made;
    }();
    return all;
}

}  // namespace tandem::models
