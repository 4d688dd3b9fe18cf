#include "models/synthetic.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/units.h"
#include "format/gguf_writer.h"
#include "format/quant.h"

namespace tandem::models {

namespace {

using format::GgufWriter;

// SplitMix64: small, seedable and the same everywhere. `skip` numbers are left out at no cost.
class Random {
  public:
    explicit Random(uint64_t seed, uint64_t skip = 0) : state_(seed + skip * kStep) {}

    uint64_t next() {
        uint64_t z = (state_ += kStep);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31);
    }

    // In [-1, 1).
    float symmetric() { return static_cast<float>(static_cast<int64_t>(next()) >> 40) * 0x1p-23F; }

  private:
    static constexpr uint64_t kStep = 0x9e3779b97f4a7c15U;
    uint64_t state_;
};

// A stock of encoded pieces of rows; a matrix is drawn from it, which is as fast as copying.
struct Pieces {
    size_t bytes = 0;  // of one
    std::vector<std::byte> data;

    size_t count() const { return data.size() / bytes; }
};

// A tensor: numbers of its own, or pieces of a stock drawn with a seed.
struct Content {
    std::vector<float> values = {};
    std::shared_ptr<const Pieces> stock = nullptr;
    uint64_t seed = 0;

    // Bytes [first, first + out.size()) of the tensor; for a drawn one whole pieces.
    void fill(uint64_t first, std::span<std::byte> out) const {
        if (!stock) {
            std::memcpy(out.data(), std::as_bytes(std::span(values)).data() + first, out.size());
            return;
        }
        Random random(seed, first / stock->bytes);
        for (size_t at = 0; at < out.size(); at += stock->bytes) {
            const size_t piece = random.next() % stock->count();
            std::memcpy(out.data() + at, stock->data.data() + piece * stock->bytes, stock->bytes);
        }
    }
};

Pieces make_pieces(DType type, int cols, float amplitude, uint64_t seed) {
    const int block = info(type).block;
    const int length = block > 1 || cols % 32 != 0 ? block : 32;
    const int count = 131072 / length;  // so that a type with a slow search does not take long
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
        describe();
        return writer_.write(path);
    }

    Result<uint64_t> size_bytes() {
        describe();
        return writer_.size_bytes();
    }

    Result<MemoryFile> make_empty() {
        describe();
        MemoryFile file = TRY(reserve());
        TRY(writer_.write_head({file.data.get(), file.size_bytes}));
        return file;
    }

    Result<MemoryFile> make(ThreadPool& threads, const MakeProgress& progress) {
        describe();
        MemoryFile file = TRY(allocate());
        TRY(writer_.write({file.data.get(), file.size_bytes},
                          {.threads = &threads, .progress = [&](uint64_t done, uint64_t total) -> Status {
                               if (progress) progress(done, total);
                               return Ok{};
                           }}));
        return file;
    }

  private:
    // A tensor that is to be made.
    struct Wanted {
        std::string name;
        std::vector<int64_t> shape;
        float middle = 0.0F;  // of a vector's numbers
        DType type = DType::f32;
        float deviation = 0.0F;  // of a matrix's; 0: so that a row of random signs adds up to 1
    };

    Result<MemoryFile> allocate() const {
        const uint64_t size = TRY(writer_.size_bytes());
        MemoryFile file{.data = {}, .size_bytes = size};
        file.data.reset(std::make_unique_for_overwrite<std::byte[]>(size).release());
        return file;
    }

    Result<MemoryFile> reserve() const {
        const uint64_t size = TRY(writer_.size_bytes());
        void* const space =
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (space == MAP_FAILED)
            return fail("a shape of {} cannot be laid out: {}", format_bytes(size), std::strerror(errno));
        return MemoryFile{.data = {static_cast<std::byte*>(space), {.reserved_bytes = size}}, .size_bytes = size};
    }

    void describe() {
        set_metadata();
        set_tokenizer();
        list_tensors();
        if (spec_.mix) choose_by_mix();
        for (const Wanted& tensor : wanted_) make_tensor(tensor);
    }

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
        set("rope.freq_base", spec_.family.starts_with("gemma") ? 1e6F : 1e4F);
        if (spec_.family == "gemma4") set_global_layers();
        if (spec_.window > 0) set("attention.sliding_window", spec_.window);
        if (spec_.rope_factor > 0) {
            set("rope.scaling.type", spec_.family == "gpt-oss" ? "yarn" : "linear");
            set("rope.scaling.factor", spec_.rope_factor);
        }
        if (spec_.family == "gpt-oss") set("rope.scaling.original_context_length", 4096);
        if (spec_.experts > 0) set_experts();
    }

    void set_global_layers() {
        std::vector<int32_t> kv_heads;
        for (int i = 0; i < spec_.layers; ++i) kv_heads.push_back(heads_of(i).kv_heads);
        set("attention.head_count_kv", std::span<const int32_t>(kv_heads));
        set("attention.key_length", spec_.global_head_dim);
        set("attention.value_length", spec_.global_head_dim);
        set("attention.key_length_swa", spec_.head_dim);
        set("attention.value_length_swa", spec_.head_dim);
        set("rope.freq_base_swa", 1e4F);
        set("final_logit_softcapping", 30.0F);
    }

    void set_experts() {
        set("expert_count", spec_.experts);
        set("expert_used_count", spec_.used_experts);
        set("expert_feed_forward_length", spec_.expert_ffn_dim);
        if (spec_.family != "glm4moe") return;
        set("leading_dense_block_count", spec_.dense_layers);
        set("expert_shared_count", 1);
        set("expert_weights_norm", true);
        set("rope.dimension_count", spec_.head_dim / 2);
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

    void list_tensors() {
        const bool experts = spec_.experts > 0;
        const bool scaled =
            spec_.family == "gemma4";  // which multiplies it by the root of dim, and has no other output
        // A token's own part then outweighs what layers add, so that different tokens choose different experts.
        constexpr float kTokenDeviation = 16.0F;
        const float deviation = scaled ? kTokenDeviation / std::sqrt(static_cast<float>(spec_.dim)) : kTokenDeviation;
        wanted_.push_back({.name = "token_embd.weight",
                           .shape = {spec_.vocab, spec_.dim},
                           .type = spec_.embedding.value_or(spec_.type),
                           .deviation = experts ? deviation : 0.0F});
        vector("output_norm.weight", spec_.dim, 1.0F);
        if ((experts && !scaled) || spec_.untied)
            matrix("output.weight", spec_.vocab, spec_.dim, spec_.embedding.value_or(spec_.type));
        for (int i = 0; i < spec_.layers; ++i) {
            list_attention(i);
            const bool mixed = experts && i >= spec_.dense_layers;
            if (mixed) list_experts(i);
            if (!mixed || spec_.family == "gemma4") list_feed_forward(i, "", spec_.ffn_dim);
        }
    }

    static std::string in_layer(int layer, std::string_view rest) { return fmt::format("blk.{}.{}", layer, rest); }

    struct Heads {
        int head_dim, kv_heads;
        bool values_are_keys;
    };
    Heads heads_of(int layer) const {
        if (spec_.family != "gemma4" || layer % 6 != 5) return {spec_.head_dim, spec_.kv_heads, false};
        return {spec_.global_head_dim, spec_.global_kv_heads, true};
    }

    void list_attention(int layer) {
        const bool gemma = spec_.family.starts_with("gemma");
        const bool oss = spec_.family == "gpt-oss";
        const bool glm = spec_.family == "glm4moe";
        const auto [head_dim, kv_heads, values_are_keys] = heads_of(layer);
        const int q_dim = spec_.heads * head_dim;
        const int kv_dim = kv_heads * head_dim;
        const auto name = [&](std::string_view rest) { return in_layer(layer, rest); };
        vector(name("attn_norm.weight"), spec_.dim, 1.0F);
        matrix(name("attn_q.weight"), q_dim, spec_.dim);
        matrix(name("attn_k.weight"), kv_dim, spec_.dim);
        if (!values_are_keys) matrix(name("attn_v.weight"), kv_dim, spec_.dim);
        matrix(name("attn_output.weight"), spec_.dim, q_dim);
        vector(name(oss || glm ? "post_attention_norm.weight" : "ffn_norm.weight"), spec_.dim, 1.0F);
        if (gemma || spec_.family == "qwen3" || spec_.family == "qwen3moe") {
            vector(name("attn_q_norm.weight"), head_dim, 1.0F);
            vector(name("attn_k_norm.weight"), head_dim, 1.0F);
        }
        if (gemma) {
            vector(name("post_attention_norm.weight"), spec_.dim, 1.0F);
            vector(name("post_ffw_norm.weight"), spec_.dim, 1.0F);
        }
        if (spec_.family == "gemma4") vector(name("layer_output_scale.weight"), 1, 1.0F);
        if (spec_.family == "qwen2" || oss || glm) {
            vector(name("attn_q.bias"), q_dim, 0.0F);
            vector(name("attn_k.bias"), kv_dim, 0.0F);
            vector(name("attn_v.bias"), kv_dim, 0.0F);
        }
        if (oss) {
            vector(name("attn_output.bias"), spec_.dim, 0.0F);
            vector(name("attn_sinks.weight"), spec_.heads, 0.0F);
        }
    }

    void list_feed_forward(int layer, std::string_view ending, int width) {
        matrix(in_layer(layer, fmt::format("ffn_gate{}.weight", ending)), width, spec_.dim);
        matrix(in_layer(layer, fmt::format("ffn_up{}.weight", ending)), width, spec_.dim);
        matrix(in_layer(layer, fmt::format("ffn_down{}.weight", ending)), spec_.dim, width);
    }

    void list_experts(int layer) {
        const int width = spec_.expert_ffn_dim;
        const auto all = [&](std::string_view name, int rows, int cols) {
            wanted_.push_back(
                {.name = in_layer(layer, name), .shape = {spec_.experts, rows, cols}, .type = spec_.type});
        };
        matrix(in_layer(layer, "ffn_gate_inp.weight"), spec_.experts, spec_.dim, DType::f32);
        all("ffn_down_exps.weight", spec_.dim, width);
        if (spec_.family == "gemma4") {
            all("ffn_gate_up_exps.weight", 2 * width, spec_.dim);
            vector(in_layer(layer, "ffn_down_exps.scale"), spec_.experts, 1.0F);
            for (const char* norm :
                 {"ffn_gate_inp.scale", "pre_ffw_norm_2.weight", "post_ffw_norm_1.weight", "post_ffw_norm_2.weight"}) {
                vector(in_layer(layer, norm), spec_.dim, 1.0F);
            }
            return;
        }
        all("ffn_gate_exps.weight", width, spec_.dim);
        all("ffn_up_exps.weight", width, spec_.dim);
        if (spec_.family == "glm4moe") {
            vector(in_layer(layer, "exp_probs_b.bias"), spec_.experts, 0.0F);
            list_feed_forward(layer, "_shexp", width);
        }
        if (spec_.family != "gpt-oss") return;
        vector(in_layer(layer, "ffn_gate_inp.bias"), spec_.experts, 0.0F);
        matrix(in_layer(layer, "ffn_gate_exps.bias"), spec_.experts, width, DType::f32);
        matrix(in_layer(layer, "ffn_up_exps.bias"), spec_.experts, width, DType::f32);
        matrix(in_layer(layer, "ffn_down_exps.bias"), spec_.experts, spec_.dim, DType::f32);
    }

    void vector(std::string name, int count, float middle) {
        wanted_.push_back({.name = std::move(name), .shape = {count}, .middle = middle});
    }
    void matrix(std::string name, int rows, int cols) { matrix(std::move(name), rows, cols, spec_.type); }
    void matrix(std::string name, int rows, int cols, DType type) {
        wanted_.push_back({.name = std::move(name), .shape = {rows, cols}, .type = type});
    }

    void choose_by_mix() {
        std::vector<TensorShape> shapes;
        for (const Wanted& tensor : wanted_) shapes.push_back({tensor.name, tensor.shape, tensor.type});
        const ModelTraits traits{.architecture = spec_.family, .heads = spec_.heads, .kv_heads = spec_.kv_heads};
        const std::vector<ChosenType> types = choose_types(*spec_.mix, traits, shapes);
        for (size_t i = 0; i < types.size(); ++i) wanted_[i].type = types[i].stored;
        writer_.set("general.file_type", static_cast<uint32_t>(spec_.mix->file_type));
    }

    // A vector gets numbers near its middle.
    void make_tensor(const Wanted& tensor) {
        Content content;
        if (tensor.shape.size() == 1) {
            content.values.resize(static_cast<size_t>(tensor.shape[0]));
            for (float& value : content.values) value = tensor.middle + 0.1F * random_.symmetric();
        } else {
            const int cols = static_cast<int>(tensor.shape.back());
            const float usual = 1.0F / std::sqrt(static_cast<float>(cols));
            const float deviation = tensor.deviation > 0 ? tensor.deviation : usual;
            std::shared_ptr<const Pieces>& pieces = pieces_[{tensor.type, deviation}];
            const float amplitude = std::sqrt(3.0F) * deviation;
            if (!pieces) pieces = std::make_shared<Pieces>(make_pieces(tensor.type, cols, amplitude, random_.next()));
            content = {.stock = pieces, .seed = random_.next()};
        }
        const Content& kept = contents_.emplace(tensor.name, std::move(content)).first->second;
        writer_.add({.name = tensor.name,
                     .dtype = tensor.type,
                     .shape = tensor.shape,
                     .fill = [&kept](uint64_t first, std::span<std::byte> out) -> Status {
                         kept.fill(first, out);
                         return Ok{};
                     },
                     .unit_bytes = kept.stock ? kept.stock->bytes : 1});
    }

    const SyntheticSpec& spec_;
    Random random_;
    GgufWriter writer_;
    std::vector<Wanted> wanted_;
    std::map<std::pair<DType, float>, std::shared_ptr<const Pieces>> pieces_;  // by type and deviation
    std::map<std::string, Content> contents_;                                  // by name of the tensor
};

Status check(const SyntheticSpec& spec) {
    if (spec.mix) return Ok{};  // it looks after that itself
    const auto whole_blocks = [](int cols, DType type) -> Status {
        const int block = info(type).block;
        if (cols >= 1 && cols % block == 0) return Ok{};
        return fail("rows of {} elements are no whole number of {} blocks of {}", cols, name(type), block);
    };
    for (const int cols : {spec.dim, spec.heads * spec.head_dim, spec.ffn_dim}) TRY(whole_blocks(cols, spec.type));
    if (spec.experts > 0) TRY(whole_blocks(spec.expert_ffn_dim, spec.type));
    return whole_blocks(spec.dim, spec.embedding.value_or(spec.type));
}

SyntheticSpec gemma3_1b(DType type) {
    return {.dim = 1152,
            .layers = 26,
            .heads = 4,
            .kv_heads = 1,
            .head_dim = 256,
            .ffn_dim = 6912,
            .vocab = 262144,
            .context_length = 32768,
            .window = 512,
            .type = type,
            .embedding = DType::q8_0};
}

// Dense models of other families as most people have them: heads of 128 elements.
SyntheticSpec dense(const char* family, int dim, int layers, int heads, int kv_heads, int ffn_dim, int vocab) {
    return {.family = family,
            .dim = dim,
            .layers = layers,
            .heads = heads,
            .kv_heads = kv_heads,
            .head_dim = 128,
            .ffn_dim = ffn_dim,
            .vocab = vocab,
            .context_length = 32768,
            .mix = find_mix("q4_k_m")};
}

SyntheticSpec gpt_oss(int layers, int experts) {
    return {.family = "gpt-oss",
            .dim = 2880,
            .layers = layers,
            .heads = 64,
            .kv_heads = 8,
            .head_dim = 64,
            .ffn_dim = 2880,
            .vocab = 201088,
            .context_length = 131072,
            .window = 128,
            .rope_factor = 32.0F,
            .experts = experts,
            .used_experts = 4,
            .expert_ffn_dim = 2880,
            .mix = find_mix("mxfp4_moe")};
}

SyntheticSpec untied(SyntheticSpec spec) {
    spec.untied = true;
    return spec;
}

SyntheticSpec long_context(SyntheticSpec spec) {
    spec.context_length = 131072;
    return spec;
}

SyntheticSpec llama_3_2_1b() {
    SyntheticSpec spec = dense("llama", 2048, 16, 32, 8, 8192, 128256);
    spec.head_dim = 64;
    return long_context(spec);
}

}  // namespace

std::span<const NamedShape> named_shapes() {
    static const std::vector<NamedShape> shapes = {
        {"gemma3-1b", gemma3_1b(DType::q4_0)},
        {"gemma3-1b-q8_0", gemma3_1b(DType::q8_0)},
        {"gemma3-4b",
         {.dim = 2560,
          .layers = 34,
          .heads = 8,
          .kv_heads = 4,
          .head_dim = 256,
          .ffn_dim = 10240,
          .vocab = 262208,
          .context_length = 131072,
          .window = 1024,
          .rope_factor = 8.0F,
          .type = DType::q4_0,
          .embedding = DType::q6_k}},
        {"gemma3-12b",
         {.dim = 3840,
          .layers = 48,
          .heads = 16,
          .kv_heads = 8,
          .head_dim = 256,
          .ffn_dim = 15360,
          .vocab = 262208,
          .context_length = 131072,
          .window = 1024,
          .rope_factor = 8.0F,
          .type = DType::q4_0,
          .embedding = DType::q6_k}},
        {"gemma3-27b",
         {.dim = 5376,
          .layers = 62,
          .heads = 32,
          .kv_heads = 16,
          .head_dim = 128,
          .ffn_dim = 21504,
          .vocab = 262208,
          .context_length = 131072,
          .window = 1024,
          .rope_factor = 8.0F,
          .type = DType::q4_0,
          .embedding = DType::q6_k}},
        {"qwen3-30b-a3b",
         {.family = "qwen3moe",
          .dim = 2048,
          .layers = 48,
          .heads = 32,
          .kv_heads = 4,
          .head_dim = 128,
          .ffn_dim = 6144,
          .vocab = 151936,
          .context_length = 40960,
          .experts = 128,
          .used_experts = 8,
          .expert_ffn_dim = 768,
          .type = DType::q4_k,
          .embedding = DType::q6_k}},
        {"gpt-oss-20b", gpt_oss(24, 32)},
        {"gpt-oss-120b", gpt_oss(36, 128)},
        {"gemma4-26b-a4b",
         {.family = "gemma4",
          .dim = 2816,
          .layers = 30,
          .heads = 16,
          .kv_heads = 8,
          .head_dim = 256,
          .ffn_dim = 2112,
          .vocab = 262144,
          .context_length = 262144,
          .window = 1024,
          .experts = 128,
          .used_experts = 8,
          .expert_ffn_dim = 704,
          .global_head_dim = 512,
          .global_kv_heads = 2,
          .mix = find_mix("q4_k_m")}},
        {"gemma4-31b",
         {.family = "gemma4",
          .dim = 5376,
          .layers = 60,
          .heads = 32,
          .kv_heads = 16,
          .head_dim = 256,
          .ffn_dim = 21504,
          .vocab = 262144,
          .context_length = 262144,
          .window = 1024,
          .global_head_dim = 512,
          .global_kv_heads = 4,
          .mix = find_mix("q4_k_m")}},
        {"glm-4.5-air",
         {.family = "glm4moe",
          .dim = 4096,
          .layers = 46,
          .heads = 96,
          .kv_heads = 8,
          .head_dim = 128,
          .ffn_dim = 10944,
          .vocab = 151552,
          .context_length = 131072,
          .experts = 128,
          .used_experts = 8,
          .expert_ffn_dim = 1408,
          .dense_layers = 1,
          .mix = find_mix("q4_k_m")}},
        {"qwen3-4b", dense("qwen3", 2560, 36, 32, 8, 9728, 151936)},
        {"qwen3-8b", untied(dense("qwen3", 4096, 36, 32, 8, 12288, 151936))},
        {"qwen3-14b", untied(dense("qwen3", 5120, 40, 40, 8, 17408, 151936))},
        {"qwen3-32b", untied(dense("qwen3", 5120, 64, 64, 8, 25600, 151936))},
        {"llama3.2-1b", llama_3_2_1b()},
        {"llama3.2-3b", long_context(dense("llama", 3072, 28, 24, 8, 8192, 128256))},
        {"llama3.1-8b", long_context(untied(dense("llama", 4096, 32, 32, 8, 14336, 128256)))},
        {"llama3.3-70b", long_context(untied(dense("llama", 8192, 80, 64, 8, 28672, 128256)))},
        {"mistral-7b", untied(dense("llama", 4096, 32, 32, 8, 14336, 32768))},
        {"qwen2.5-coder-7b", untied(dense("qwen2", 3584, 28, 28, 4, 18944, 152064))},
    };
    return shapes;
}

Status write_random_gguf(const std::filesystem::path& path, const SyntheticSpec& spec) {
    TRY(check(spec));
    return Maker(spec).write(path);
}

void ReleaseMemory::operator()(std::byte* data) const {
    if (reserved_bytes > 0) {
        munmap(data, reserved_bytes);
    } else {
        delete[] data;
    }
}

Result<MemoryFile> make_random_gguf(const SyntheticSpec& spec, ThreadPool& threads, const MakeProgress& progress) {
    TRY(check(spec));
    return Maker(spec).make(threads, progress);
}

Result<MemoryFile> make_empty_gguf(const SyntheticSpec& spec) {
    TRY(check(spec));
    return Maker(spec).make_empty();
}

Result<uint64_t> random_gguf_bytes(const SyntheticSpec& spec) {
    TRY(check(spec));
    return Maker(spec).size_bytes();
}

}  // namespace tandem::models
