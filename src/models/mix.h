// Mixes: which type every tensor of a quantized file gets, under the names that llama.cpp's quantize has given them.
#pragma once

#include <cstdint>
#include <optional>
#include <regex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace tandem::models {

// What a matrix does in a model; some suffer more from few bits than others.
enum class Role : uint8_t { q, k, v, attention_output, gate, up, down, embedding, output, other };

// Which layers a rule is for, of n: the first 2, 4, n/16 or n/8; those between n/8 and 7n/8; the first and last eighth
// and every third between them.
enum class Layers : uint8_t { all, first_2, first_4, first_sixteenth, first_eighth, middle, ends_and_thirds };

// Which models a rule is for: those with 4 or more heads to a key-value head, with 4 or more experts too, with exactly
// 8 experts, of 70 billion weights; and whether there is an importance matrix.
enum class When : uint8_t {
    always,
    grouped,
    grouped_or_experts,
    eight_experts,
    seventy_billion,
    importance,
    no_importance
};

struct Rule {
    Role role;
    DType type;
    Layers layers = Layers::all;
    When when = When::always;
};

struct Mix {
    std::string_view name;
    int file_type;                      // of general.file_type
    DType base;                         // of matrices that no rule is for
    DType output;                       // of the matrix that makes the logits, the embedding too where that is the same
    DType embedding;                    // where it is not
    std::optional<DType> experts = {};  // of all matrices of experts
    std::span<const Rule> rules = {};   // the first that suits counts
};

// All that have a name in llama.cpp, then each other type by itself: "q4_k" is q4_k_m without its rules.
std::span<const Mix> mixes();
std::optional<Mix> find_mix(std::string_view name);  // "q4_k_m", "Q4_K_M"
// All matrices in one type, but for the one that makes the logits.
Mix plain_mix(DType type);
// Whether all its types can be written.
bool can_encode(const Mix& mix);
// What general.file_type calls a file; nothing for a number that nobody uses.
std::optional<std::string_view> file_type_name(int64_t file_type);

// "attn_v=q8_0": the type of all tensors in whose names the regular expression (ECMAScript) is found.
struct TensorRule {
    std::string pattern;
    std::regex expression;
    DType type;
};
Result<TensorRule> parse_tensor_rule(std::string_view text);

// A mix and what is to differ from it.
struct Recipe {
    Recipe(DType type) : mix(plain_mix(type)) {}  // NOLINT(google-explicit-constructor): a type is a recipe
    Recipe(const Mix& of) : mix(of) {}            // NOLINT(google-explicit-constructor): and so is a mix

    Mix mix;
    std::optional<DType> embedding = {};  // before all others
    std::optional<DType> output = {};     // then this one, for the embedding too where that makes the logits
    std::vector<TensorRule> tensors = {};
};

// What mixes want to know of a model; how many layers and experts it has, its tensors tell.
struct ModelTraits {
    std::string architecture = {};
    int heads = 0;
    int kv_heads = 0;
    bool importance = false;  // there is an importance matrix
};

struct TensorShape {
    std::string_view name;
    std::span<const int64_t> shape;  // outermost first
    DType dtype;                     // that it has
};

// Whether a tensor is a matrix of weights that bears fewer bits: neither a norm nor a router nor one of the small ones.
bool is_quantizable(const TensorShape& tensor);

// The type itself, or the next larger one whose blocks are rows of `cols` a whole number of.
DType suited(DType type, int64_t cols);

struct ChosenType {
    DType wanted;  // by the recipe
    DType stored;  // suits the rows
};
// One for each of the tensors, which must be all of the model.
std::vector<ChosenType> choose_types(const Recipe& recipe, const ModelTraits& model,
                                     std::span<const TensorShape> tensors);

}  // namespace tandem::models
