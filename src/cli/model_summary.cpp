#include "cli/model_summary.h"

#include <span>

#include "cli/text_output.h"
#include "models/mix.h"

namespace tandem::cli {

namespace {

using Json = nlohmann::ordered_json;

// A size under the names both formats have for it; the GGUF one comes after the architecture.
struct SizeKey {
    std::string_view name;
    std::string_view gguf;
    const char* config;
};

constexpr SizeKey kSizes[] = {
    {"layers", "block_count", "num_hidden_layers"},
    {"dim", "embedding_length", "hidden_size"},
    {"ffn dim", "feed_forward_length", "intermediate_size"},
    {"experts", "expert_count", "num_local_experts"},
    {"experts", "", "num_experts"},
    {"experts", "", "n_routed_experts"},
    {"used experts", "expert_used_count", "num_experts_per_tok"},
    {"expert dim", "expert_feed_forward_length", "moe_intermediate_size"},
    {"heads", "attention.head_count", "num_attention_heads"},
    {"kv heads", "attention.head_count_kv", "num_key_value_heads"},
    {"head dim", "attention.key_length", "head_dim"},
    {"window", "attention.sliding_window", "sliding_window"},
    {"context", "context_length", "max_position_embeddings"},
    {"vocabulary", "vocab_size", "vocab_size"},
};

std::optional<int64_t> gguf_size(const format::GgufFile& gguf, const std::string& architecture, const SizeKey& key) {
    if (key.gguf.empty()) return std::nullopt;
    if (auto size = gguf.get_int(architecture + "." + std::string(key.gguf))) return size;
    if (key.gguf != "vocab_size") return std::nullopt;
    const format::GgufValue* const tokens = gguf.find("tokenizer.ggml.tokens");
    const auto list = tokens != nullptr ? tokens->as_array() : std::nullopt;
    return list ? std::optional(static_cast<int64_t>(list->count)) : std::nullopt;
}

void describe_gguf(ModelSummary& summary, const format::GgufFile& gguf) {
    summary.format = fmt::format("GGUF v{}{}", gguf.version(),
                                 gguf.parts() > 1 ? fmt::format(", {} parts", gguf.parts()) : std::string());
    summary.family = gguf.get_string("general.architecture").value_or("");
    summary.name = gguf.get_string("general.name").value_or(summary.name);
    summary.file_bytes = gguf.file_bytes();
    if (const auto file_type = gguf.get_int("general.file_type"))
        summary.quantization = models::file_type_name(*file_type).value_or("");
    for (const SizeKey& key : kSizes) {
        if (const auto size = gguf_size(gguf, summary.family, key)) summary.sizes.emplace_back(key.name, *size);
    }
}

// In models that also see or hear, the sizes are those of their text part.
const nlohmann::json* find_config(const nlohmann::json& config, const char* key) {
    if (const auto found = config.find(key); found != config.end()) return &*found;
    const auto text = config.find("text_config");
    if (text == config.end() || !text->is_object()) return nullptr;
    const auto found = text->find(key);
    return found == text->end() ? nullptr : &*found;
}

void describe_config(ModelSummary& summary, const nlohmann::json& config) {
    summary.format = "Hugging Face";
    const nlohmann::json* const type = find_config(config, "model_type");
    if (type != nullptr && type->is_string()) summary.family = type->get<std::string>();
    for (const SizeKey& key : kSizes) {
        const nlohmann::json* const value = find_config(config, key.config);
        if (value != nullptr && value->is_number_integer()) summary.sizes.emplace_back(key.name, value->get<int64_t>());
    }
}

Json to_json(const format::GgufValue& value) {
    if (const auto text = value.as_string()) return Json(std::string(*text));
    if (const auto flag = value.as_bool()) return Json(*flag);
    if (const auto integer = value.as_int()) return Json(*integer);
    if (const auto number = value.as_float()) return Json(*number);
    Json list = Json::array();
    if (const auto array = value.as_array()) {
        for (const format::GgufValue& element : *array) list.push_back(to_json(element));
    }
    return list;
}

constexpr size_t kShownText = 80;
constexpr uint64_t kShownElements = 6;

std::string to_line(const format::GgufValue& value) {
    if (const auto text = value.as_string()) return escape_short(*text, kShownText);
    if (const auto flag = value.as_bool()) return *flag ? "true" : "false";
    if (const auto integer = value.as_int()) return fmt::format("{}", *integer);
    if (const auto number = value.as_float()) {
        return value.type == format::GgufType::f32 ? fmt::format("{}", static_cast<float>(*number))
                                                   : fmt::format("{}", *number);
    }
    const auto array = value.as_array();
    if (!array) return {};
    std::string line = fmt::format("{} x {}:", array->count, name(array->type));
    uint64_t shown = 0;
    for (const format::GgufValue& element : *array) {
        if (shown++ == kShownElements) return line + " ...";
        const bool nested = element.type == format::GgufType::array;
        line += " " + (nested ? std::string("[...]") : escape_short(to_line(element), kShownText / 4));
    }
    return line;
}

}  // namespace

double ModelSummary::bits_per_weight() const {
    return total.elements > 0 ? 8.0 * static_cast<double>(total.size_bytes) / static_cast<double>(total.elements) : 0;
}

ModelSummary summarize(const format::Checkpoint& checkpoint) {
    ModelSummary summary;
    summary.name = checkpoint.name();
    summary.file_bytes = checkpoint.tensor_bytes();
    if (checkpoint.gguf() != nullptr) {
        describe_gguf(summary, *checkpoint.gguf());
    } else {
        describe_config(summary, *checkpoint.config());
    }
    const auto count = [&](const std::string& type, const auto& tensor) {
        for (TypeTotal* total : {&summary.total, &summary.by_type[type]}) {
            ++total->tensors;
            total->elements += static_cast<uint64_t>(tensor.elements());
            total->size_bytes += tensor.data.size();
        }
    };
    for (const format::TensorRecord& tensor : checkpoint.tensors()) count(std::string(name(tensor.dtype)), tensor);
    for (const format::ForeignTensor& tensor : checkpoint.foreign_tensors()) count(tensor.type, tensor);
    return summary;
}

nlohmann::ordered_json metadata_json(const format::Checkpoint& checkpoint) {
    if (checkpoint.config() != nullptr) return *checkpoint.config();
    Json::object_t object;
    for (const format::GgufEntry& entry : checkpoint.gguf()->metadata()) {
        object.push_back({std::string(entry.key), to_json(entry.value)});  // the reader saw to it that keys differ
    }
    return object;
}

std::vector<std::pair<std::string, std::string>> metadata_lines(const format::Checkpoint& checkpoint) {
    std::vector<std::pair<std::string, std::string>> lines;
    if (checkpoint.config() != nullptr) {
        for (const auto& [key, value] : checkpoint.config()->items()) {
            const std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
            lines.emplace_back(escape_short(key, kShownText), escape_short(text, kShownText));
        }
        return lines;
    }
    for (const format::GgufEntry& entry : checkpoint.gguf()->metadata()) {
        lines.emplace_back(escape_short(entry.key, kShownText), to_line(entry.value));
    }
    return lines;
}

}  // namespace tandem::cli
