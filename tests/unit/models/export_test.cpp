#include "models/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/quant.h"
#include "golden/model_files.h"
#include "models/model.h"
#include "models/synthetic.h"

namespace tandem::models {
namespace {

using format::Checkpoint;
using testing::HasSubstr;

Checkpoint open(const std::filesystem::path& path) {
    auto checkpoint = Checkpoint::open(path);
    EXPECT_TRUE(checkpoint) << checkpoint.error().message;
    return std::move(*checkpoint);
}

Checkpoint exported(const Checkpoint& from, const std::filesystem::path& path, DType type) {
    const Status done = export_gguf(from, path, {.type = type});
    EXPECT_TRUE(done) << done.error().message;
    return open(path);
}

std::vector<float> values(const format::TensorRecord& tensor) {
    std::vector<float> numbers(static_cast<size_t>(tensor.elements()));
    format::decode_row(tensor.dtype, tensor.data.data(), numbers.data(), tensor.elements());
    return numbers;
}

TEST(Export, WritesTheKeysOfTheFamily) {
    const golden::TempDir dir;
    const Checkpoint file =
        exported(open(golden::golden_dir("gemma3-linear-rope")), dir.path() / "m.gguf", DType::q8_0);
    const format::GgufFile& gguf = *file.gguf();
    EXPECT_EQ(gguf.get_string("general.architecture"), "gemma3");
    EXPECT_EQ(gguf.get_string("general.name"), "gemma3-linear-rope");
    EXPECT_EQ(gguf.get_int("general.file_type"), 7);
    EXPECT_EQ(gguf.get_int("general.quantization_version"), 2);
    EXPECT_EQ(gguf.get_int("gemma3.context_length"), 512);
    EXPECT_EQ(gguf.get_int("gemma3.embedding_length"), 64);
    EXPECT_EQ(gguf.get_int("gemma3.block_count"), 6);
    EXPECT_EQ(gguf.get_int("gemma3.feed_forward_length"), 160);
    EXPECT_EQ(gguf.get_int("gemma3.attention.head_count"), 4);
    EXPECT_EQ(gguf.get_int("gemma3.attention.head_count_kv"), 1);
    EXPECT_EQ(gguf.get_int("gemma3.attention.key_length"), 16);
    EXPECT_EQ(gguf.get_int("gemma3.attention.value_length"), 16);
    EXPECT_EQ(gguf.get_int("gemma3.attention.sliding_window"), 16);
    EXPECT_EQ(gguf.find("gemma3.attention.sliding_window_pattern"), nullptr);  // six is usual
    EXPECT_EQ(gguf.get_float("gemma3.rope.freq_base"), 1e6);
    EXPECT_EQ(gguf.get_string("gemma3.rope.scaling.type"), "linear");
    EXPECT_EQ(gguf.get_float("gemma3.rope.scaling.factor"), 8);
    EXPECT_EQ(file.find("blk.0.attn_norm.weight")->dtype, DType::f32);
    EXPECT_EQ(file.find("blk.0.ffn_down.weight")->dtype, DType::q8_0);
    EXPECT_EQ(file.find("output.weight"), nullptr);  // tied
}

TEST(Export, AddsOneToTheNormsOfGemma) {
    const golden::TempDir dir;
    const Checkpoint original = open(golden::golden_dir("gemma3"));
    const Checkpoint file = exported(original, dir.path() / "m.gguf", DType::f32);
    const auto before = values(*original.find("model.norm.weight"));
    const auto after = values(*file.find("output_norm.weight"));
    for (size_t i = 0; i < before.size(); ++i) EXPECT_FLOAT_EQ(after[i], before[i] + 1);
}

TEST(Export, PermutesTheQueriesOfLlama) {
    const golden::TempDir dir;
    const Checkpoint original = open(golden::golden_dir("llama"));
    const Checkpoint file = exported(original, dir.path() / "m.gguf", DType::f32);
    const auto before = values(*original.find("model.layers.0.self_attn.q_proj.weight"));
    const auto after = values(*file.find("blk.0.attn_q.weight"));
    const size_t cols = 64;
    const auto row_of = [&](const std::vector<float>& matrix, size_t row) {
        return std::vector(matrix.begin() + static_cast<std::ptrdiff_t>(row * cols),
                           matrix.begin() + static_cast<std::ptrdiff_t>((row + 1) * cols));
    };
    EXPECT_EQ(row_of(after, 0), row_of(before, 0));
    EXPECT_EQ(row_of(after, 1), row_of(before, 8));  // half a head further
    EXPECT_EQ(row_of(after, 2), row_of(before, 1));
    EXPECT_EQ(row_of(after, 16 + 15), row_of(before, 16 + 15));
    EXPECT_EQ(values(*file.find("blk.0.attn_v.weight")),
              values(*original.find("model.layers.0.self_attn.v_proj.weight")));
}

TEST(Export, WritesLlama3RopeAsDivisors) {
    const golden::TempDir dir;
    const Checkpoint file = exported(open(golden::golden_dir("llama3-rope")), dir.path() / "m.gguf", DType::f16);
    ASSERT_NE(file.find("rope_freqs.weight"), nullptr);
    const auto divisors = values(*file.find("rope_freqs.weight"));
    EXPECT_EQ(divisors.size(), 8U);
    EXPECT_FLOAT_EQ(divisors.front(), 1.0F);
    EXPECT_FLOAT_EQ(divisors.back(), 8.0F);
    EXPECT_EQ(file.gguf()->find("llama.rope.scaling.type"), nullptr);
}

TEST(Export, OfEveryTypeLoads) {
    const golden::TempDir dir;
    const Checkpoint original = open(golden::golden_dir("qwen3"));
    for (const DType type : kAllDTypes) {
        if (!format::has_encoder(type)) continue;
        const Checkpoint file = exported(original, dir.path() / "m.gguf", type);
        const auto model = load(file);
        ASSERT_TRUE(model) << name(type) << ": " << model.error().message;
        EXPECT_EQ(model->weights.find("blk.1.ffn_up.weight")->dtype, suited(type, 64));
    }
    EXPECT_FALSE(export_gguf(original, dir.path() / "m.gguf", {.type = DType::i32}));
}

TEST(Export, FromGgufKeepsTheMetadataAndTheNorms) {
    const golden::TempDir dir;
    ASSERT_TRUE(write_random_gguf(dir.path() / "a.gguf", {.family = "gemma3", .window = 9, .type = DType::f16}));
    const Checkpoint before = open(dir.path() / "a.gguf");
    const Checkpoint after = exported(before, dir.path() / "b.gguf", DType::q8_0);
    for (const format::GgufEntry& entry : before.gguf()->metadata()) {
        const format::GgufValue* value = after.gguf()->find(entry.key);
        ASSERT_NE(value, nullptr) << entry.key;
        if (entry.key == "general.file_type") continue;
        EXPECT_TRUE(
            std::equal(value->bytes.begin(), value->bytes.end(), entry.value.bytes.begin(), entry.value.bytes.end()))
            << entry.key;
    }
    EXPECT_EQ(after.gguf()->get_int("general.file_type"), 7);
    EXPECT_EQ(values(*after.find("output_norm.weight")), values(*before.find("output_norm.weight")));
    EXPECT_EQ(after.find("token_embd.weight")->dtype, DType::q8_0);
    ASSERT_TRUE(load(after));
}

TEST(Export, IsTheSameWithManyThreadsAndTellsHowFarItIs) {
    const golden::TempDir dir;
    const Checkpoint original = open(golden::golden_dir("llama"));
    ThreadPool threads(3);
    uint64_t last = 0;
    uint64_t of = 1;
    const auto progress = [&](uint64_t done, uint64_t total) -> Status {
        EXPECT_GT(done, last);
        last = done;
        of = total;
        return Ok{};
    };
    ASSERT_TRUE(
        export_gguf(original, dir.path() / "a.gguf", {.type = DType::q4_0, .threads = &threads, .progress = progress}));
    ASSERT_TRUE(export_gguf(original, dir.path() / "b.gguf", {.type = DType::q4_0}));
    EXPECT_EQ(last, of);
    const Checkpoint a = open(dir.path() / "a.gguf");
    const Checkpoint b = open(dir.path() / "b.gguf");
    for (const format::TensorRecord& tensor : a.tensors()) {
        const format::TensorRecord* other = b.find(tensor.name);
        ASSERT_NE(other, nullptr);
        EXPECT_TRUE(std::equal(tensor.data.begin(), tensor.data.end(), other->data.begin(), other->data.end()))
            << tensor.name;
    }
}

TEST(Export, TellsBeforehandWhatWillBeWritten) {
    const golden::TempDir dir;
    const Checkpoint original = open(golden::golden_dir("qwen3"));  // rows of 64 and of other multiples of 32
    ExportPlan plan;
    const auto path = dir.path() / "m.gguf";
    const auto look = [&](const ExportPlan& given) {
        EXPECT_FALSE(std::filesystem::exists(path));
        plan = given;
        return false;
    };
    ASSERT_TRUE(export_gguf(original, path, {.type = DType::q4_k, .planned = look}));
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));  // it was not wanted
    const Checkpoint file = exported(original, path, DType::q4_k);
    double bits = 0;
    double weights = 0;
    ASSERT_EQ(plan.tensors.size(), file.tensors().size());
    for (const PlannedTensor& tensor : plan.tensors) {
        const format::TensorRecord* const written = file.find(tensor.name);
        ASSERT_NE(written, nullptr);
        EXPECT_EQ(written->dtype, tensor.type.stored) << tensor.name;
        EXPECT_EQ(written->data.size(), tensor.size_bytes) << tensor.name;
        bits += 8 * static_cast<double>(written->data.size());
        weights += static_cast<double>(written->elements());
    }
    EXPECT_DOUBLE_EQ(plan.bits_per_weight(), bits / weights);
    EXPECT_EQ(file.find("blk.0.ffn_up.weight")->dtype, DType::q5_0);
}

TEST(Export, OfAMixNamesItInTheFile) {
    const golden::TempDir dir;
    const Checkpoint original = open(golden::golden_dir("qwen3"));
    ASSERT_TRUE(export_gguf(original, dir.path() / "m.gguf", {.type = *find_mix("q4_k_m")}));
    EXPECT_EQ(open(dir.path() / "m.gguf").gguf()->get_int("general.file_type"), 15);
    EXPECT_EQ(open(dir.path() / "m.gguf").gguf()->get_int("general.quantization_version"), 2);
}

// The square error of a matrix, weighted by column.
double weighted_error(const std::vector<float>& exact, const std::vector<float>& rounded,
                      const std::vector<float>& importance) {
    double sum = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
        const double difference = double{exact[i]} - rounded[i];
        sum += importance[i % importance.size()] * difference * difference;
    }
    return sum;
}

TEST(Export, KeepsColumnsThatMatterMoreExact) {
    const golden::TempDir dir;
    ASSERT_TRUE(write_random_gguf(dir.path() / "f.gguf", {.family = "qwen3", .dim = 256, .type = DType::f32}));
    const Checkpoint original = open(dir.path() / "f.gguf");
    const std::string matrix = "blk.0.ffn_up.weight";
    format::Imatrix imatrix;
    imatrix.name = "test.imatrix";
    std::vector<float> importance(256, 1.0F);
    for (size_t i = 0; i < importance.size(); i += 8) importance[i] = 100.0F;
    imatrix.entries[matrix] = {.sums = importance, .counts = {1}};
    for (const DType type : {DType::q4_0, DType::q4_k, DType::q5_k}) {
        const std::vector<float> plain = values(*exported(original, dir.path() / "a.gguf", type).find(matrix));
        ASSERT_TRUE(export_gguf(original, dir.path() / "b.gguf", {.type = type, .imatrix = &imatrix}));
        const Checkpoint weighted = open(dir.path() / "b.gguf");
        const std::vector<float> exact = values(*original.find(matrix));
        EXPECT_LT(weighted_error(exact, values(*weighted.find(matrix)), importance),
                  weighted_error(exact, plain, importance))
            << name(type);
        EXPECT_EQ(weighted.gguf()->get_string("quantize.imatrix.file"), "test.imatrix");
        EXPECT_EQ(weighted.gguf()->get_int("quantize.imatrix.entries_count"), 1);
    }
    imatrix.entries[matrix].sums.resize(128);
    const Status other = export_gguf(original, dir.path() / "c.gguf", {.type = DType::q4_0, .imatrix = &imatrix});
    ASSERT_FALSE(other);
    EXPECT_THAT(other.error().message,
                HasSubstr("test.imatrix: has 128 columns for tensor 'blk.0.ffn_up.weight', which has 256"));
    imatrix.entries.clear();
    imatrix.entries["elsewhere"] = {.sums = {1}, .counts = {1}};
    EXPECT_THAT(
        export_gguf(original, dir.path() / "c.gguf", {.type = DType::q4_0, .imatrix = &imatrix}).error().message,
        HasSubstr("nothing on any matrix"));
}

TEST(Export, ThatIsStoppedLeavesNothing) {
    const golden::TempDir dir;
    const auto stop = [](uint64_t /*done*/, uint64_t /*total*/) -> Status { return fail("enough"); };
    const Status stopped =
        export_gguf(open(golden::golden_dir("qwen3")), dir.path() / "m.gguf", {.type = DType::q8_0, .progress = stop});
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().message, "enough");
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(Export, AddsWhatTheCallerKnows) {
    const golden::TempDir dir;
    const Checkpoint original = open(golden::golden_dir("llama"));
    const auto add = [](format::GgufWriter& writer) -> Status {
        writer.set("tokenizer.ggml.model", "llama");
        return Ok{};
    };
    ASSERT_TRUE(export_gguf(original, dir.path() / "m.gguf", {.type = DType::f16, .add_metadata = add}));
    EXPECT_EQ(open(dir.path() / "m.gguf").gguf()->get_string("tokenizer.ggml.model"), "llama");
    const auto refuse = [](format::GgufWriter&) -> Status { return fail("no tokenizer"); };
    const Status refused = export_gguf(original, dir.path() / "n.gguf", {.type = DType::f16, .add_metadata = refuse});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, "no tokenizer");
    EXPECT_FALSE(std::filesystem::exists(dir.path() / "n.gguf"));
}

TEST(RandomModel, OfEveryFamilyAndTypeLoads) {
    const golden::TempDir dir;
    for (const std::string family : {"gemma3", "llama", "qwen2", "qwen3"}) {
        for (const DType type : {DType::f32, DType::q4_0, DType::q8_0}) {
            ASSERT_TRUE(write_random_gguf(dir.path() / "m.gguf", {.family = family, .window = 7, .type = type}));
            const Checkpoint file = open(dir.path() / "m.gguf");
            const auto model = load(file);
            ASSERT_TRUE(model) << model.error().message;
            EXPECT_EQ(model->family, family);
            EXPECT_EQ(model->weights.find("blk.0.attn_q.weight")->dtype, type);
        }
    }
    const Status refused = write_random_gguf(dir.path() / "m.gguf", {.type = DType::q4_k});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("no whole number of q4_k blocks"));
}

}  // namespace
}  // namespace tandem::models
