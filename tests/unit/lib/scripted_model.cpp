#include "unit/lib/scripted_model.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <span>

#include "golden/model_files.h"

namespace tandem {

namespace {

using Json = nlohmann::json;

constexpr float kCertain = 100;  // of a logit: nothing else is ever drawn
constexpr int kInner = 32;
constexpr int kBytes = 256;  // tokens of single bytes come first

// Byte-level BPE has a letter for each byte.
std::string byte_letter(int byte, int& next) {
    const bool is_own = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int code = is_own ? byte : next++;
    if (code < 0x80) return {static_cast<char>(code)};
    return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

golden::HfModel::Tensor tensor(std::vector<int64_t> shape, const std::vector<float>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return {.shape = std::move(shape), .bytes = {bytes.begin(), bytes.end()}};
}

// The tokens that a script has beside those of bytes.
std::vector<std::string> tokens_of(const Script& script) {
    std::vector<std::string> tokens = script.controls;
    for (const std::string& piece : script.pieces) {
        if (std::find(tokens.begin(), tokens.end(), piece) == tokens.end()) tokens.push_back(piece);
    }
    tokens.push_back(script.stop);
    return tokens;
}

void add_weights(golden::HfModel& model, const std::vector<int>& follower, int dim) {
    const auto vocab = static_cast<int>(follower.size());
    const auto zeros = [](int rows, int cols) {
        return tensor({rows, cols}, std::vector<float>(static_cast<size_t>(rows) * static_cast<size_t>(cols)));
    };
    std::vector<float> embedding(static_cast<size_t>(vocab) * static_cast<size_t>(dim));
    std::vector<float> head = embedding;
    for (int token = 0; token < vocab; ++token) {
        embedding[static_cast<size_t>(token * dim + token)] = 1;
        head[static_cast<size_t>(follower[static_cast<size_t>(token)] * dim + token)] = kCertain;
    }
    const std::vector<float> ones(static_cast<size_t>(dim), 1);
    const std::string layer = "model.layers.0.";
    model.tensors["model.embed_tokens.weight"] = tensor({vocab, dim}, embedding);
    model.tensors["lm_head.weight"] = tensor({vocab, dim}, head);
    for (const std::string& norm :
         {std::string("model.norm"), layer + "input_layernorm", layer + "post_attention_layernorm"})
        model.tensors[norm + ".weight"] = tensor({dim}, ones);
    for (const char* const name : {"self_attn.q", "self_attn.k", "self_attn.v", "mlp.gate", "mlp.up"})
        model.tensors[layer + name + "_proj.weight"] = zeros(kInner, dim);
    for (const char* const name : {"self_attn.o", "mlp.down"})
        model.tensors[layer + name + "_proj.weight"] = zeros(dim, kInner);
}

Json tokenizer_of(const Script& script, const std::vector<std::string>& tokens) {
    Json vocab = Json::object();
    for (int byte = 0, next = kBytes; byte < kBytes; ++byte) vocab[byte_letter(byte, next)] = byte;
    Json added = Json::array();
    for (size_t i = 0; i < tokens.size(); ++i) {
        const bool is_control = tokens[i] == script.stop || std::find(script.controls.begin(), script.controls.end(),
                                                                      tokens[i]) != script.controls.end();
        added.push_back({{"id", kBytes + i},
                         {"content", tokens[i]},
                         {"special", is_control},
                         {"single_word", false},
                         {"lstrip", false},
                         {"rstrip", false},
                         {"normalized", false}});
    }
    const Json byte_level = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
    return {{"version", "1.0"},
            {"added_tokens", added},
            {"normalizer", nullptr},
            {"pre_tokenizer", byte_level},
            {"post_processor", nullptr},
            {"decoder", byte_level},
            {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
}

}  // namespace

void write_scripted_model(const Script& script, const std::filesystem::path& folder) {
    const std::vector<std::string> tokens = tokens_of(script);
    const auto id_of = [&](const std::string& token) {
        return kBytes + static_cast<int>(std::find(tokens.begin(), tokens.end(), token) - tokens.begin());
    };
    const int vocab = kBytes + static_cast<int>(tokens.size());
    const int dim = (vocab + kInner - 1) / kInner * kInner;
    std::vector<int> follower(static_cast<size_t>(vocab), id_of(script.pieces.front()));
    for (size_t i = 0; i < script.pieces.size(); ++i) {
        const bool is_last = i + 1 == script.pieces.size();
        follower[static_cast<size_t>(id_of(script.pieces[i]))] = id_of(is_last ? script.stop : script.pieces[i + 1]);
    }
    golden::HfModel model;
    model.config = {{"architectures", {"LlamaForCausalLM"}},
                    {"model_type", "llama"},
                    {"vocab_size", vocab},
                    {"hidden_size", dim},
                    {"intermediate_size", kInner},
                    {"num_hidden_layers", 1},
                    {"num_attention_heads", 1},
                    {"num_key_value_heads", 1},
                    {"head_dim", kInner},
                    {"max_position_embeddings", 1024},
                    {"rms_norm_eps", 1e-6},
                    {"tie_word_embeddings", false},
                    {"eos_token_id", id_of(script.stop)}};
    add_weights(model, follower, dim);
    golden::write_hf(model, folder);
    std::ofstream(folder / "tokenizer.json") << tokenizer_of(script, tokens);
    std::ofstream(folder / "tokenizer_config.json")
        << Json{{"eos_token", script.stop}, {"chat_template", script.chat_template}};
}

}  // namespace tandem
