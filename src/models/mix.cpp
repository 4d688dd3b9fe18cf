#include "models/mix.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "format/quant.h"

namespace tandem::models {

namespace {

bool equal_names(std::string_view a, std::string_view lower) {
    return std::ranges::equal(a, lower, [](char x, char y) { return (x >= 'A' && x <= 'Z' ? x + 32 : x) == y; });
}

bool has_part(std::string_view name, std::string_view part) {
    return name.find(part) != std::string_view::npos;
}

Role role_of(std::string_view name) {
    struct Part {
        std::string_view text;
        Role role;
    };
    // What makes the values counts for v, together with queries and keys or not.
    static constexpr Part kParts[] = {
        {"attn_qkv.weight", Role::v}, {"attn_kv_b.weight", Role::v}, {"attn_v.weight", Role::v},
        {"attn_k.weight", Role::k},   {"attn_q.weight", Role::q},    {"attn_output.weight", Role::attention_output},
        {"ffn_up", Role::up},         {"ffn_gate", Role::gate},      {"ffn_down", Role::down}};
    if (name == "output.weight") return Role::output;
    if (name == "token_embd.weight" || name == "per_layer_token_embd.weight") return Role::embedding;
    for (const Part& part : kParts) {
        if (has_part(name, part.text)) return part.role;
    }
    return Role::other;
}

// The number in "blk.12.attn_v.weight"; -1 where there is none.
int layer_of(std::string_view name) {
    int layer = -1;
    if (!name.starts_with("blk.")) return layer;
    name.remove_prefix(4);
    std::from_chars(name.data(), name.data() + name.size(), layer);
    return layer;
}

// What the rules ask about a tensor.
struct Place {
    Role role = Role::other;
    bool is_expert = false;  // a matrix for each expert, in one tensor
    int layer = 0;           // of those that have such a tensor
    int layers = 0;
};

bool suits(Layers which, const Place& place) {
    const int i = place.layer;
    const int n = place.layers;
    switch (which) {
        case Layers::all:
            return true;
        case Layers::first_2:
            return i < 2;
        case Layers::first_4:
            return i < 4;
        case Layers::first_sixteenth:
            return i < n / 16;
        case Layers::first_eighth:
            return i < n / 8;
        case Layers::middle:
            return i >= n / 8 && i < 7 * n / 8;
        case Layers::ends_and_thirds:
            return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
    }
    return false;
}

class Chooser {
  public:
    Chooser(const Recipe& recipe, const ModelTraits& model, std::span<const TensorShape> tensors)
        : recipe_(recipe), model_(model), places_(tensors.size()) {
        for (size_t i = 0; i < tensors.size(); ++i) look_at(tensors[i], places_[i]);
        count_layers(tensors);
    }

    DType wanted(const TensorShape& tensor, size_t index) const {
        const Place& place = places_[index];
        const bool makes_logits = place.role == Role::output || (tied_ && place.role == Role::embedding);
        if (place.role == Role::embedding && recipe_.embedding) return *recipe_.embedding;
        if (makes_logits && recipe_.output) return *recipe_.output;
        for (const TensorRule& rule : recipe_.tensors) {
            if (std::regex_search(tensor.name.begin(), tensor.name.end(), rule.expression)) return rule.type;
        }
        const Mix& mix = recipe_.mix;
        if (makes_logits) return tensor.shape.back() % info(mix.base).block == 0 ? mix.output : DType::q8_0;
        // Those that were trained as MXFP4 would only lose.
        if (place.is_expert && tensor.dtype == DType::mxfp4 && is_quantized(mix.base)) return DType::mxfp4;
        if (place.is_expert && mix.experts) return *mix.experts;
        if (place.role == Role::embedding) return mix.embedding;
        return by_rules(place);
    }

  private:
    void look_at(const TensorShape& tensor, Place& place) {
        place.role = role_of(tensor.name);
        place.is_expert = tensor.shape.size() == 3 && tensor.shape.front() > 1;
        place.layer = layer_of(tensor.name);
        layers_ = std::max(layers_, place.layer + 1);
        if (place.is_expert && has_part(tensor.name, "_exps.")) experts_ = tensor.shape.front();
        tied_ = tied_ && place.role != Role::output;
    }

    // v counts the layers that have one; the others too, unless there are experts: then they go by the layer's number.
    void count_layers(std::span<const TensorShape> tensors) {
        for (const Role role : {Role::v, Role::down, Role::gate, Role::up}) {
            std::vector<size_t> of_role;
            for (size_t i = 0; i < places_.size(); ++i) {
                if (places_[i].role == role && is_quantizable(tensors[i])) of_role.push_back(i);
            }
            std::ranges::sort(of_role, {}, [&](size_t i) { return std::tuple(places_[i].layer, tensors[i].name); });
            for (size_t at = 0; at < of_role.size(); ++at) {
                Place& place = places_[of_role[at]];
                if (role == Role::v || experts_ <= 1) place.layer = static_cast<int>(at);
                place.layers = role == Role::v ? static_cast<int>(of_role.size()) : layers_;
            }
        }
    }

    bool holds(When when) const {
        const bool grouped = model_.kv_heads > 0 && model_.heads / model_.kv_heads >= 4;
        switch (when) {
            case When::always:
                return true;
            case When::grouped:
                return grouped;
            case When::grouped_or_experts:
                return grouped || experts_ >= 4;
            case When::eight_experts:
                return experts_ == 8;
            case When::seventy_billion:
                return is_70b();
            case When::importance:
                return model_.importance;
            case When::no_importance:
                return !model_.importance;
        }
        return false;
    }

    DType by_rules(const Place& place) const {
        const Mix& mix = recipe_.mix;
        const auto rule = std::ranges::find_if(mix.rules, [&](const Rule& each) {
            return each.role == place.role && suits(each.layers, place) && holds(each.when);
        });
        return rule == mix.rules.end() ? mix.base : rule->type;
    }

    // There the values are an eighth of the queries: more bits for them cost next to nothing.
    bool is_70b() const {
        const bool llama = model_.architecture == "llama" && model_.heads != model_.kv_heads;
        return layers_ == 80 && (llama || model_.architecture == "qwen2");
    }

    const Recipe& recipe_;
    const ModelTraits& model_;
    std::vector<Place> places_;  // of the tensors
    int layers_ = 0;
    int64_t experts_ = 0;
    bool tied_ = true;  // the embedding makes the logits
};

}  // namespace

std::optional<Mix> find_mix(std::string_view name) {
    for (const Mix& mix : mixes()) {
        if (equal_names(name, mix.name)) return mix;
    }
    return std::nullopt;
}

Mix plain_mix(DType type) {
    const bool few_bits = is_quantized(type) && type != DType::q8_0;
    return {.name = name(type),
            .file_type = info(type).file_type,
            .base = type,
            .output = few_bits ? DType::q6_k : type,
            .embedding = type};
}

bool can_encode(const Mix& mix) {
    return format::has_encoder(mix.base) && format::has_encoder(mix.output) && format::has_encoder(mix.embedding) &&
           (!mix.experts || format::has_encoder(*mix.experts)) &&
           std::ranges::all_of(mix.rules, [](const Rule& rule) { return format::has_encoder(rule.type); });
}

std::optional<std::string_view> file_type_name(int64_t file_type) {
    for (const Mix& mix : mixes()) {
        if (mix.file_type == file_type) return mix.name;
    }
    return std::nullopt;
}

Result<TensorRule> parse_tensor_rule(std::string_view text) {
    const size_t equals = text.rfind('=');
    if (equals == std::string_view::npos || equals == 0)
        return fail("'{}': give PATTERN=TYPE, such as ffn_down=q6_k", text);
    const std::string pattern(text.substr(0, equals));
    const std::optional<DType> type = parse_dtype(text.substr(equals + 1));
    if (!type || !format::has_encoder(*type))
        return fail("'{}': '{}' is no type that can be written", text, text.substr(equals + 1));
    try {
        return TensorRule{.pattern = pattern, .expression = std::regex(pattern), .type = *type};
    } catch (const std::regex_error& error) {
        return fail("'{}': no regular expression: {}", pattern, error.what());
    }
}

bool is_quantizable(const TensorShape& tensor) {
    // Small, and they decide much.
    static constexpr std::string_view kKept[] = {
        "ffn_gate_inp.",        "ffn_gate_tid2eid.", "altup",          "laurel",
        "per_layer_model_proj", "position_embd",     "token_types.",   "ssm_conv1d",
        "shortconv.conv",       "indexer.k_proj",    "indexer.q_proj", "time_mix_",
        "attn_rel_b.",          "patch_embd",        "patch_merger",   ".rel_pos"};
    return tensor.dtype != DType::i32 && tensor.shape.size() >= 2 && tensor.name.ends_with(".weight") &&
           !tensor.name.ends_with("norm.weight") &&
           std::ranges::none_of(kKept, [&](std::string_view part) { return has_part(tensor.name, part); });
}

DType suited(DType type, int64_t cols) {
    while (cols % info(type).block != 0) type = info(type).spare;
    return type;
}

std::vector<ChosenType> choose_types(const Recipe& recipe, const ModelTraits& model,
                                     std::span<const TensorShape> tensors) {
    const Chooser chooser(recipe, model, tensors);
    std::vector<ChosenType> types;
    types.reserve(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
        const TensorShape& tensor = tensors[i];
        const DType wanted = is_quantizable(tensor) ? chooser.wanted(tensor, i) : tensor.dtype;
        types.push_back({wanted, suited(wanted, tensor.shape.empty() ? 1 : tensor.shape.back())});
    }
    return types;
}

}  // namespace tandem::models
