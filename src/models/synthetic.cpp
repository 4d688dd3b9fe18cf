#include "models/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "format/gguf_writer.h"
#include "format/quant.h"

namespace tandem::models {

namespace {

using format::GgufWriter;
using format::TensorSink;

// SplitMix64: small, seedable and the same everywhere.
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t next() {
        uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31);
    }

    // In [-1, 1).
    float symmetric() { return static_cast<float>(static_cast<int64_t>(next()) >> 40) * 0x1p-23F; }

  private:
    uint64_t state_;
};

// A stock of encoded pieces of rows; a matrix is drawn from it, which is as fast as copying.
struct Pieces {
    size_t bytes = 0;  // of one
    std::vector<std::byte> data;

    size_t count() const { return data.size() / bytes; }
};

Pieces make_pieces(DType type, int cols, uint64_t seed) {
    const int block = info(type).block;
    const int length = block > 1 || cols % 32 != 0 ? block : 32;
    const int count = 4096;
    const float amplitude = std::sqrt(3.0F / static_cast<float>(cols));  // a row of random signs then adds up to 1
    Random random(seed);
    std::vector<float> values(static_cast<size_t>(length) * count);
    for (float& value : values) value = amplitude * random.symmetric();
    Pieces pieces{.bytes = row_bytes(type, length), .data = {}};
    pieces.data.resize(pieces.bytes * count);
    format::encode_row(type, values.data(), pieces.data.data(), static_cast<int64_t>(values.size()));
    return pieces;
}

class Maker {
  public:
    explicit Maker(const SyntheticSpec& spec) : spec_(spec), random_(spec.seed) {}

    Status write(const std::filesystem::path& path) {
        set_metadata();
        set_tokenizer();
        add_tensors();
        return writer_.write(path);
    }

  private:
    void set(std::string_view key, auto value) { writer_.set(fmt::format("{}.{}", spec_.family, key), value); }
    void set(std::string_view key, int value) { set(key, static_cast<uint32_t>(value)); }

    void set_metadata() {
        writer_.set("general.architecture", spec_.family);
        writer_.set("general.name", fmt::format("random {}", spec_.family));
        set("context_length", spec_.context_length);
        set("embedding_length", spec_.dim);
        set("block_count", spec_.layers);
        set("feed_forward_length", spec_.ffn_dim);
        set("attention.head_count", spec_.heads);
        set("attention.head_count_kv", spec_.kv_heads);
        set("attention.key_length", spec_.head_dim);
        set("attention.value_length", spec_.head_dim);
        set("attention.layer_norm_rms_epsilon", 1e-6F);
        set("rope.freq_base", spec_.family == "gemma3" ? 1e6F : 1e4F);
        if (spec_.window > 0) set("attention.sliding_window", spec_.window);
    }

    void set_tokenizer() {
        constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6;
        std::vector<std::string> tokens = {"<pad>", "<eos>", "<bos>", "<unk>"};
        std::vector<int32_t> types = {kControl, kControl, kControl, kUnknown};
        const auto vocab = static_cast<size_t>(spec_.vocab);
        for (int byte = 0; byte < 256 && vocab >= 260; ++byte) {
            tokens.push_back(fmt::format("<0x{:02X}>", byte));
            types.push_back(kByte);
        }
        while (tokens.size() < vocab) tokens.push_back(fmt::format("\u2581w{}", tokens.size()));
        tokens.resize(vocab);
        types.resize(vocab, kNormal);
        std::vector<float> scores(vocab);
        for (size_t i = 0; i < vocab; ++i) scores[i] = -static_cast<float>(i);
        writer_.set("tokenizer.ggml.model", "llama");
        writer_.set("tokenizer.ggml.tokens", tokens);
        writer_.set("tokenizer.ggml.scores", scores);
        writer_.set("tokenizer.ggml.token_type", types);
        writer_.set("tokenizer.ggml.padding_token_id", uint32_t{0});
        writer_.set("tokenizer.ggml.eos_token_id", uint32_t{1});
        writer_.set("tokenizer.ggml.bos_token_id", uint32_t{2});
        writer_.set("tokenizer.ggml.unknown_token_id", uint32_t{3});
    }

    void add_tensors() {
        const bool gemma = spec_.family == "gemma3";
        const bool qk_norm = gemma || spec_.family == "qwen3";
        const int q_dim = spec_.heads * spec_.head_dim;
        const int kv_dim = spec_.kv_heads * spec_.head_dim;
        matrix("token_embd.weight", spec_.vocab, spec_.dim);
        vector("output_norm.weight", spec_.dim, 1.0F);
        for (int i = 0; i < spec_.layers; ++i) {
            const auto name = [&](std::string_view rest) { return fmt::format("blk.{}.{}", i, rest); };
            vector(name("attn_norm.weight"), spec_.dim, 1.0F);
            matrix(name("attn_q.weight"), q_dim, spec_.dim);
            matrix(name("attn_k.weight"), kv_dim, spec_.dim);
            matrix(name("attn_v.weight"), kv_dim, spec_.dim);
            matrix(name("attn_output.weight"), spec_.dim, q_dim);
            vector(name("ffn_norm.weight"), spec_.dim, 1.0F);
            matrix(name("ffn_gate.weight"), spec_.ffn_dim, spec_.dim);
            matrix(name("ffn_up.weight"), spec_.ffn_dim, spec_.dim);
            matrix(name("ffn_down.weight"), spec_.dim, spec_.ffn_dim);
            if (qk_norm) {
                vector(name("attn_q_norm.weight"), spec_.head_dim, 1.0F);
                vector(name("attn_k_norm.weight"), spec_.head_dim, 1.0F);
            }
            if (gemma) {
                vector(name("post_attention_norm.weight"), spec_.dim, 1.0F);
                vector(name("post_ffw_norm.weight"), spec_.dim, 1.0F);
            }
            if (spec_.family == "qwen2") {
                vector(name("attn_q.bias"), q_dim, 0.0F);
                vector(name("attn_k.bias"), kv_dim, 0.0F);
                vector(name("attn_v.bias"), kv_dim, 0.0F);
            }
        }
    }

    // Numbers near `middle`.
    void vector(std::string name, int count, float middle) {
        std::vector<float> values(static_cast<size_t>(count));
        for (float& value : values) value = middle + 0.1F * random_.symmetric();
        writer_.add({.name = std::move(name),
                     .dtype = DType::f32,
                     .shape = {count},
                     .source = [values](const TensorSink& sink) {
                         return sink(std::as_bytes(std::span<const float>(values)));
                     }});
    }

    void matrix(std::string name, int rows, int cols) {
        std::shared_ptr<const Pieces>& pieces = pieces_[cols];
        if (!pieces) pieces = std::make_shared<Pieces>(make_pieces(spec_.type, cols, random_.next()));
        const uint64_t seed = random_.next();
        const uint64_t total = static_cast<uint64_t>(rows) * row_bytes(spec_.type, cols);
        writer_.add({.name = std::move(name),
                     .dtype = spec_.type,
                     .shape = {rows, cols},
                     .source = [stock = pieces, seed, total](const TensorSink& sink) {
                         return draw(*stock, seed, total, sink);
                     }});
    }

    static Status draw(const Pieces& stock, uint64_t seed, uint64_t total, const TensorSink& sink) {
        Random random(seed);
        const size_t at_once = std::max<size_t>(1, (size_t{4} << 20) / stock.bytes);
        std::vector<std::byte> out;
        for (uint64_t left = total / stock.bytes; left > 0;) {
            const size_t count = std::min<uint64_t>(at_once, left);
            out.resize(count * stock.bytes);
            for (size_t i = 0; i < count; ++i) {
                const size_t piece = random.next() % stock.count();
                std::memcpy(out.data() + i * stock.bytes, stock.data.data() + piece * stock.bytes, stock.bytes);
            }
            TRY(sink(out));
            left -= count;
        }
        return Ok{};
    }

    const SyntheticSpec& spec_;
    Random random_;
    GgufWriter writer_;
    std::map<int, std::shared_ptr<const Pieces>> pieces_;  // by columns
};

}  // namespace

SyntheticSpec gemma3_1b_shape(DType type) {
    return {.family = "gemma3",
            .dim = 1152,
            .layers = 26,
            .heads = 4,
            .kv_heads = 1,
            .head_dim = 256,
            .ffn_dim = 6912,
            .vocab = 262144,
            .context_length = 32768,
            .window = 512,
            .type = type};
}

Status write_random_gguf(const std::filesystem::path& path, const SyntheticSpec& spec) {
    const int block = info(spec.type).block;
    for (const int cols : {spec.dim, spec.heads * spec.head_dim, spec.ffn_dim}) {
        if (cols < 1 || cols % block != 0) {
            return fail("rows of {} elements are no whole number of {} blocks of {}", cols, name(spec.type), block);
        }
    }
    return Maker(spec).write(path);
}

}  // namespace tandem::models
