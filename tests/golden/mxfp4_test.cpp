// gpt-oss as it is published: experts in blocks and scales, files in shards; the same numbers decoded are the judge.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "cpu/backend.h"
#include "format/gguf_writer.h"
#include "format/quant.h"
#include "golden/model_files.h"
#include "golden/run_program.h"
#include "models/export.h"

namespace tandem::golden {
namespace {

constexpr std::array<float, 16> kCodes = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};
constexpr int kBlock = 32;

// [experts, rows, cols] in MXFP4: byte j of a block has element 2 j in its low half and the next in the high one, and
// the value is 2^(scale - 127) times the code's. The same numbers decoded lie across, [experts, cols, rows].
struct Matrices {
    HfModel::Tensor blocks, scales, decoded;
};

Matrices random_matrices(int64_t experts, int64_t rows, int64_t cols, std::mt19937& random) {
    const int64_t in_row = cols / kBlock;
    Matrices made{.blocks = {.shape = {experts, rows, in_row, kBlock / 2}, .bytes = {}, .is_bytes = true},
                  .scales = {.shape = {experts, rows, in_row}, .bytes = {}, .is_bytes = true},
                  .decoded = {.dtype = DType::f32, .shape = {experts, cols, rows}, .bytes = {}}};
    std::vector<float> decoded(static_cast<size_t>(experts * rows * cols));
    for (int64_t r = 0; r < experts * rows; ++r) {
        for (int64_t b = 0; b < in_row; ++b) {
            const unsigned scale = 120 + random() % 4;
            made.scales.bytes.push_back(static_cast<std::byte>(scale));
            for (int64_t i = 0; i < kBlock; i += 2) {
                const unsigned byte = random() % 256;
                made.blocks.bytes.push_back(static_cast<std::byte>(byte));
                for (int64_t half = 0; half < 2; ++half) {
                    const int64_t col = b * kBlock + i + half;
                    const unsigned code = half == 0 ? byte % 16 : byte / 16;
                    decoded[static_cast<size_t>((r / rows * cols + col) * rows + r % rows)] =
                        std::ldexp(kCodes[code], static_cast<int>(scale) - 127);
                }
            }
        }
    }
    made.decoded.bytes.resize(decoded.size() * sizeof(float));
    std::memcpy(made.decoded.bytes.data(), decoded.data(), made.decoded.bytes.size());
    return made;
}

struct Published {
    HfModel packed, decoded;
};

// The golden gpt-oss with other experts.
Published published() {
    Published made{read_hf(golden_dir("gpt-oss")), read_hf(golden_dir("gpt-oss"))};
    std::mt19937 random(7);
    for (const auto& [name, tensor] : read_hf(golden_dir("gpt-oss")).tensors) {
        if (tensor.shape.size() != 3) continue;
        const Matrices matrices = random_matrices(tensor.shape[0], tensor.shape[2], tensor.shape[1], random);
        made.packed.tensors.erase(name);
        made.packed.tensors[name + "_blocks"] = matrices.blocks;
        made.packed.tensors[name + "_scales"] = matrices.scales;
        made.decoded.tensors[name] = matrices.decoded;
    }
    return made;
}

struct OpenedFile {
    explicit OpenedFile(const std::filesystem::path& path)
        : checkpoint(format::Checkpoint::open(path).value()), model(models::load(checkpoint).value()) {}

    format::Checkpoint checkpoint;
    models::Model model;
};

std::vector<float> logits_of(const OpenedFile& opened) {
    static const std::unique_ptr<device::Backend> cpu = cpu::make_backend({.threads = 1, .reference = true}).value();
    const std::vector<int32_t> tokens = {3, 200, 17, 90, 41, 5, 300, 33};
    auto sequence = Sequence::start(*cpu, opened.model, static_cast<int>(tokens.size())).value();
    return sequence.feed(tokens).value();
}

// What one file has, in two that have a half of the tensors each.
void write_in_two(const format::Checkpoint& whole, const std::filesystem::path& dir) {
    for (uint16_t part = 0; part < 2; ++part) {
        format::GgufWriter writer;
        if (part == 0) {
            for (const format::GgufEntry& entry : whole.gguf()->metadata()) writer.set(entry.key, entry.value);
        }
        writer.set("split.no", part);
        writer.set("split.count", uint16_t{2});
        writer.set("split.tensors.count", static_cast<int32_t>(whole.tensors().size()));
        for (size_t i = part; i < whole.tensors().size(); i += 2) {
            const format::TensorRecord& tensor = whole.tensors()[i];
            writer.add(tensor.name, tensor.dtype, tensor.shape, tensor.data);
        }
        ASSERT_TRUE(writer.write(dir / (part == 0 ? "model-00001-of-00002.gguf" : "model-00002-of-00002.gguf")));
    }
}

TEST(PublishedGptOss, HasExpertsInBlocksAndScales) {
    const TempDir dir;
    const Published model = published();
    write_hf(model.decoded, dir.path() / "decoded");
    write_hf(model.packed, dir.path() / "packed");
    write_hf(model.packed, dir.path() / "shards", 3);
    const std::vector<float> expected = logits_of(OpenedFile(dir.path() / "decoded"));
    const OpenedFile packed(dir.path() / "packed");
    EXPECT_EQ(packed.model.weights.find("blk.0.ffn_up_exps.weight")->dtype, DType::mxfp4);
    EXPECT_EQ(logits_of(packed), expected);
    EXPECT_EQ(logits_of(OpenedFile(dir.path() / "shards")), expected);
}

TEST(PublishedGptOss, KeepsThemInAGgufFileThatMayBeSplit) {
    const TempDir dir;
    const Published model = published();
    write_hf(model.decoded, dir.path() / "decoded");
    write_hf(model.packed, dir.path() / "packed", 2);
    ThreadPool threads(1);
    const std::filesystem::path path = dir.path() / "model.gguf";
    ASSERT_TRUE(models::export_gguf(format::Checkpoint::open(dir.path() / "packed").value(), path,
                                    {.type = *models::find_mix("mxfp4_moe"), .threads = &threads}));
    const OpenedFile whole(path);
    // The other matrices are in Q8_0 there.
    for (const format::TensorRecord& tensor : whole.checkpoint.tensors()) {
        EXPECT_EQ(tensor.dtype == DType::mxfp4, tensor.name.ends_with("_exps.weight")) << tensor.name;
    }
    write_in_two(whole.checkpoint, dir.path());
    EXPECT_EQ(logits_of(OpenedFile(dir.path() / "model-00001-of-00002.gguf")), logits_of(whole));

    // As they were: a file of those decoded has the same in it.
    ASSERT_TRUE(models::export_gguf(format::Checkpoint::open(dir.path() / "decoded").value(),
                                    dir.path() / "decoded.gguf", {.type = DType::f32, .threads = &threads}));
    const OpenedFile decoded(dir.path() / "decoded.gguf");
    for (const char* name : {"blk.0.ffn_gate_exps.weight", "blk.1.ffn_up_exps.weight", "blk.1.ffn_down_exps.weight"}) {
        const format::TensorRecord* const tensor = whole.checkpoint.find(name);
        ASSERT_NE(tensor, nullptr) << name;
        std::vector<float> values(static_cast<size_t>(tensor->elements()));
        format::decode_row(tensor->dtype, tensor->data.data(), values.data(), tensor->elements());
        std::vector<float> expected(values.size());
        std::memcpy(expected.data(), decoded.checkpoint.find(name)->data.data(), expected.size() * sizeof(float));
        EXPECT_EQ(values, expected) << name;
    }
}

}  // namespace
}  // namespace tandem::golden
