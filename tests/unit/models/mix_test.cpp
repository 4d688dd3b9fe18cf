#include "models/mix.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace tandem::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

// The matrices of a model, as its file would have them.
struct Sizes {
    int layers;
    int64_t dim, q_dim, kv_dim, ffn_dim;
    bool tied = false;
    int64_t experts = 0;
    ModelTraits traits;
};

const Sizes kGemma1b{26, 1152, 1024, 256, 6912, true, 0, {"gemma3", 4, 1}};
const Sizes kGemma4b{34, 2560, 2048, 1024, 10240, true, 0, {"gemma3", 8, 4}};
const Sizes kLlama8b{32, 4096, 4096, 1024, 14336, false, 0, {"llama", 32, 8}};
const Sizes kLlama70b{80, 8192, 8192, 1024, 28672, false, 0, {"llama", 64, 8}};
const Sizes kQwen06b{28, 1024, 2048, 1024, 3072, true, 0, {"qwen3", 16, 8}};
const Sizes kMixtral{32, 4096, 4096, 1024, 14336, false, 8, {"llama", 32, 8}};
const Sizes kGptOss{24, 2880, 4096, 512, 2880, false, 32, {"gpt-oss", 64, 8}};

struct Matrix {
    std::string name;
    std::vector<int64_t> shape;
    DType dtype = DType::bf16;
};

std::vector<Matrix> tensors_of(const Sizes& sizes) {
    std::vector<Matrix> tensors = {{"token_embd.weight", {32000, sizes.dim}},
                                   {"output_norm.weight", {sizes.dim}, DType::f32}};
    if (!sizes.tied) tensors.push_back({"output.weight", {32000, sizes.dim}});
    for (int i = 0; i < sizes.layers; ++i) {
        const auto add = [&](std::string_view name, int64_t rows, int64_t cols, bool expert = false) {
            Matrix tensor{fmt::format("blk.{}.{}{}.weight", i, name, expert ? "_exps" : ""), {rows, cols}};
            if (expert) tensor.shape.insert(tensor.shape.begin(), sizes.experts);
            tensors.push_back(std::move(tensor));
        };
        const bool experts = sizes.experts > 0;
        add("attn_q", sizes.q_dim, sizes.dim);
        add("attn_k", sizes.kv_dim, sizes.dim);
        add("attn_v", sizes.kv_dim, sizes.dim);
        add("attn_output", sizes.dim, sizes.q_dim);
        add("ffn_gate", sizes.ffn_dim, sizes.dim, experts);
        add("ffn_up", sizes.ffn_dim, sizes.dim, experts);
        add("ffn_down", sizes.dim, sizes.ffn_dim, experts);
        if (experts)
            tensors.push_back({fmt::format("blk.{}.ffn_gate_inp.weight", i), {sizes.experts, sizes.dim}, DType::f32});
        tensors.push_back({fmt::format("blk.{}.attn_q_norm.weight", i), {128}, DType::f32});
    }
    return tensors;
}

std::map<std::string, ChosenType> chosen(const Sizes& sizes, const Recipe& recipe) {
    const std::vector<Matrix> tensors = tensors_of(sizes);
    std::vector<TensorShape> shapes;
    for (const Matrix& tensor : tensors) shapes.push_back({tensor.name, tensor.shape, tensor.dtype});
    const std::vector<ChosenType> types = choose_types(recipe, sizes.traits, shapes);
    std::map<std::string, ChosenType> by_name;
    for (size_t i = 0; i < tensors.size(); ++i) by_name[tensors[i].name] = types[i];
    return by_name;
}

// How many matrices get which type.
std::map<DType, int> counts(Sizes sizes, std::string_view mix, bool importance = false) {
    sizes.traits.importance = importance;
    std::map<DType, int> counted;
    for (const auto& [name, type] : chosen(sizes, *find_mix(mix))) {
        if (type.stored != DType::f32) ++counted[type.stored];
    }
    return counted;
}

// Which layers have a type for one of their matrices.
std::vector<int> layers_with(const Sizes& sizes, std::string_view mix, std::string_view matrix, DType type) {
    const auto types = chosen(sizes, *find_mix(mix));
    std::vector<int> layers;
    for (int i = 0; i < sizes.layers; ++i) {
        if (types.at(fmt::format("blk.{}.{}.weight", i, matrix)).stored == type) layers.push_back(i);
    }
    return layers;
}

// The figures are those of published files: llama.cpp lists the types of a file when it loads it.
TEST(Mix, OfLlama8bIsThatOfPublishedFiles) {
    using enum DType;
    EXPECT_THAT(counts(kLlama8b, "q4_k_m"), UnorderedElementsAre(Pair(q4_k, 193), Pair(q6_k, 33)));
    EXPECT_THAT(counts(kLlama8b, "q4_k_s"), UnorderedElementsAre(Pair(q4_k, 217), Pair(q5_k, 8), Pair(q6_k, 1)));
    EXPECT_THAT(counts(kLlama8b, "q5_k_m"), UnorderedElementsAre(Pair(q5_k, 193), Pair(q6_k, 33)));
    EXPECT_THAT(counts(kLlama8b, "q5_k_s"), UnorderedElementsAre(Pair(q5_k, 225), Pair(q6_k, 1)));
    EXPECT_THAT(counts(kLlama8b, "q6_k"), UnorderedElementsAre(Pair(q6_k, 226)));
    EXPECT_THAT(counts(kLlama8b, "q8_0"), UnorderedElementsAre(Pair(q8_0, 226)));
    EXPECT_THAT(counts(kLlama8b, "q4_0"), UnorderedElementsAre(Pair(q4_0, 225), Pair(q6_k, 1)));
    EXPECT_THAT(counts(kLlama8b, "f16"), UnorderedElementsAre(Pair(f16, 226)));
    EXPECT_THAT(counts(kLlama8b, "q3_k_s"), UnorderedElementsAre(Pair(q3_k, 225), Pair(q6_k, 1)));
    EXPECT_THAT(counts(kLlama8b, "q3_k_m"),
                UnorderedElementsAre(Pair(q3_k, 129), Pair(q4_k, 92), Pair(q5_k, 4), Pair(q6_k, 1)));
    EXPECT_THAT(counts(kLlama8b, "q3_k_l"), UnorderedElementsAre(Pair(q3_k, 129), Pair(q5_k, 96), Pair(q6_k, 1)));
    EXPECT_THAT(counts(kLlama8b, "q2_k"),
                UnorderedElementsAre(Pair(q2_k, 129), Pair(q3_k, 64), Pair(q4_k, 32), Pair(q6_k, 1)));
    EXPECT_THAT(counts(kLlama8b, "q2_k_s"), UnorderedElementsAre(Pair(q2_k, 189), Pair(q4_k, 36), Pair(q6_k, 1)));
    EXPECT_THAT(counts(kLlama8b, "iq4_xs"), UnorderedElementsAre(Pair(iq4_xs, 189), Pair(q5_k, 36), Pair(q6_k, 1)));
    EXPECT_THAT(counts(kLlama8b, "tq2_0"), UnorderedElementsAre(Pair(tq2_0, 224), Pair(q4_k, 1), Pair(q6_k, 1)));
    EXPECT_THAT(counts(kLlama8b, "iq3_m"), UnorderedElementsAre(Pair(iq3_s, 157), Pair(q4_k, 68), Pair(q6_k, 1)));
}

TEST(Mix, DependsOnAnImportanceMatrix) {
    using enum DType;
    EXPECT_THAT(counts(kLlama8b, "iq4_xs", true),
                UnorderedElementsAre(Pair(iq4_xs, 193), Pair(q5_k, 32), Pair(q6_k, 1)));
    EXPECT_THAT(counts(kLlama8b, "q4_0", true), UnorderedElementsAre(Pair(q4_0, 221), Pair(q4_1, 4), Pair(q6_k, 1)));
    EXPECT_THAT(counts(kLlama8b, "q4_k_m", true), counts(kLlama8b, "q4_k_m"));
}

TEST(Mix, OfGemmaPutsTheLogitsIntoTheEmbedding) {
    using enum DType;
    EXPECT_THAT(counts(kGemma4b, "q4_k_m"), UnorderedElementsAre(Pair(q4_k, 204), Pair(q6_k, 35)));
    EXPECT_THAT(counts(kGemma4b, "q4_0"), UnorderedElementsAre(Pair(q4_0, 238), Pair(q6_k, 1)));
    EXPECT_EQ(chosen(kGemma4b, *find_mix("q4_0")).at("token_embd.weight").stored, q6_k);
    EXPECT_THAT(layers_with(kGemma4b, "q4_k_m", "ffn_down", q6_k),
                ElementsAre(0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 29, 30, 31, 32, 33));
    // 2 heads to a key-value head are too few for more bits, 4 are not
    EXPECT_THAT(layers_with(kGemma4b, "iq4_xs", "attn_v", q5_k), ElementsAre());
    EXPECT_THAT(layers_with(kGemma4b, "q2_k", "attn_v", q3_k).size(), 34U);
    EXPECT_THAT(layers_with(kQwen06b, "q2_k", "attn_v", q3_k).size(), 28U);
    EXPECT_THAT(counts(kQwen06b, "q4_k_m"), UnorderedElementsAre(Pair(q4_k, 168), Pair(q6_k, 29)));
}

TEST(Mix, GivesRowsThatAreNoWholeBlocksTheNextBestType) {
    using enum DType;
    EXPECT_THAT(counts(kGemma1b, "q4_k_m"),
                UnorderedElementsAre(Pair(q5_0, 117), Pair(q8_0, 14), Pair(q4_k, 39), Pair(q6_k, 13)));
    const ChosenType value = chosen(kGemma1b, *find_mix("q4_k_m")).at("blk.0.attn_v.weight");
    EXPECT_EQ(value.wanted, q6_k);
    EXPECT_EQ(value.stored, q8_0);
    EXPECT_EQ(suited(q4_0, 64), q4_0);
    EXPECT_EQ(suited(q4_0, 33), f16);
    EXPECT_EQ(suited(q4_k, 1152), q5_0);
    EXPECT_EQ(suited(q5_k, 1152), q5_1);
    EXPECT_EQ(suited(q6_k, 1152), q8_0);
    EXPECT_EQ(suited(q3_k, 1152), q4_0);
    EXPECT_EQ(suited(iq3_s, 1152), iq4_nl);
    EXPECT_EQ(suited(q4_k, 97), f16);
    EXPECT_EQ(suited(f32, 97), f32);
}

TEST(Mix, OfExperts) {
    using enum DType;
    const auto types = chosen(kMixtral, *find_mix("q4_k_m"));
    EXPECT_EQ(types.at("blk.7.attn_v.weight").stored, q8_0);
    EXPECT_EQ(types.at("blk.7.attn_k.weight").stored, q8_0);
    EXPECT_EQ(types.at("blk.7.attn_output.weight").stored, q5_k);
    EXPECT_EQ(types.at("blk.7.ffn_gate_inp.weight").stored, f32);
    EXPECT_EQ(types.at("blk.7.ffn_down_exps.weight").stored, q4_k);
    EXPECT_EQ(types.at("blk.6.ffn_down_exps.weight").stored, q6_k);
    // The file that everybody has: all experts in MXFP4, the rest Q8_0.
    EXPECT_THAT(counts(kGptOss, "mxfp4_moe"), UnorderedElementsAre(Pair(mxfp4, 72), Pair(q8_0, 98)));
}

TEST(Mix, GivesTheFewValuesOf70bMoreBits) {
    using enum DType;
    EXPECT_EQ(layers_with(kLlama70b, "q4_k_m", "attn_v", q5_k).size() +
                  layers_with(kLlama70b, "q4_k_m", "attn_v", q6_k).size(),
              80U);
    EXPECT_EQ(layers_with(kLlama70b, "q3_k_s", "attn_v", q5_k).size(), 80U);
    EXPECT_EQ(layers_with(kLlama70b, "q4_k", "attn_v", q4_k).size(), 80U);  // the type alone
    EXPECT_EQ(layers_with(kLlama70b, "iq2_xs", "attn_v", q4_k).size(), 80U);
}

TEST(Mix, OfATypeIsThatTypeAndTheLogits) {
    using enum DType;
    EXPECT_THAT(counts(kLlama8b, "q4_k"), UnorderedElementsAre(Pair(q4_k, 225), Pair(q6_k, 1)));
    EXPECT_THAT(counts(kLlama8b, "Q5_K"), UnorderedElementsAre(Pair(q5_k, 225), Pair(q6_k, 1)));
    EXPECT_FALSE(find_mix("q4_x"));
    EXPECT_FALSE(find_mix("i32"));
}

TEST(Recipe, PutsWhatIsAskedForBeforeTheMix) {
    using enum DType;
    Recipe recipe(*find_mix("q4_k_m"));
    recipe.output = q8_0;
    recipe.tensors = {parse_tensor_rule("blk\\.(0|1)\\.ffn_down=q5_k").value(),
                      parse_tensor_rule("ffn_down=Q3_K").value()};
    auto types = chosen(kGemma4b, recipe);
    EXPECT_EQ(types.at("token_embd.weight").stored, q8_0);
    EXPECT_EQ(types.at("blk.1.ffn_down.weight").stored, q5_k);
    EXPECT_EQ(types.at("blk.2.ffn_down.weight").stored, q3_k);
    EXPECT_EQ(types.at("blk.11.attn_k.weight").stored, q4_k);
    EXPECT_EQ(types.at("blk.11.attn_q_norm.weight").stored, f32);
    recipe.embedding = q6_k;
    EXPECT_EQ(chosen(kGemma4b, recipe).at("token_embd.weight").stored, q6_k);
    types = chosen(kLlama8b, recipe);
    EXPECT_EQ(types.at("token_embd.weight").stored, q6_k);
    EXPECT_EQ(types.at("output.weight").stored, q8_0);
}

TEST(Recipe, RefusesPatternsThatAreNone) {
    EXPECT_THAT(parse_tensor_rule("ffn_down").error().message, HasSubstr("give PATTERN=TYPE"));
    EXPECT_THAT(parse_tensor_rule("=q4_0").error().message, HasSubstr("give PATTERN=TYPE"));
    EXPECT_THAT(parse_tensor_rule("ffn=q9").error().message, HasSubstr("'q9' is no type"));
    EXPECT_THAT(parse_tensor_rule("ffn=i32").error().message, HasSubstr("'i32' is no type"));
    EXPECT_THAT(parse_tensor_rule("(ffn=q4_0").error().message, HasSubstr("no regular expression"));
}

TEST(Mix, HasANumberThatNoOtherOfItsKindHas) {
    std::set<std::string_view> names;
    for (const Mix& mix : mixes()) {
        EXPECT_TRUE(names.insert(mix.name).second) << mix.name;
        EXPECT_GE(mix.file_type, 0) << mix.name;
    }
    EXPECT_EQ(file_type_name(15), "q4_k_m");
    EXPECT_EQ(file_type_name(14), "q4_k_s");
    EXPECT_EQ(file_type_name(2), "q4_0");
    EXPECT_EQ(file_type_name(38), "mxfp4_moe");
    EXPECT_EQ(file_type_name(5), std::nullopt);
    EXPECT_TRUE(can_encode(*find_mix("q4_k_m")));
}

}  // namespace
}  // namespace tandem::models
