// What the metadata of a GGUF file may say, and what must be refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "format/gguf_writer.h"
#include "golden/model_files.h"
#include "models/model.h"
#include "models/synthetic.h"

namespace tandem::models {
namespace {

using format::Checkpoint;
using format::GgufWriter;
using testing::HasSubstr;

// A small random model, to be changed and loaded again.
class GgufModel {
  public:
    explicit GgufModel(const std::string& family, int window = 0) {
        const auto path = dir_.path() / "model.gguf";
        EXPECT_TRUE(write_random_gguf(path, {.family = family, .layers = 6, .window = window}));
        checkpoint_.emplace(std::move(*Checkpoint::open(path)));
    }

    const Checkpoint& original() const { return *checkpoint_; }

    // The Program of the changed model as text, or why it was refused.
    std::string load_with(const std::function<void(GgufWriter&)>& change) const {
        GgufWriter writer;
        for (const format::GgufEntry& entry : checkpoint_->gguf()->metadata()) {
            if (!entry.key.starts_with("tokenizer.")) writer.set(entry.key, entry.value);
        }
        for (const format::TensorRecord& tensor : checkpoint_->tensors()) {
            writer.add(tensor.name, tensor.dtype, tensor.shape, tensor.data);
        }
        change(writer);
        const auto bytes = writer.to_bytes();
        EXPECT_TRUE(bytes) << bytes.error().message;
        const auto changed = Checkpoint::from_gguf(*bytes, "memory");
        EXPECT_TRUE(changed) << changed.error().message;
        const auto model = load(*changed);
        return model ? graph::to_string(model->program) : model.error().message;
    }

  private:
    golden::TempDir dir_;
    std::optional<Checkpoint> checkpoint_;
};

int count(const std::string& text, std::string_view part) {
    int found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
}

TEST(GgufConfig, OfGemma3HasFiveWindowsInSixLayersUnlessItSaysOtherwise) {
    const GgufModel model("gemma3", 7);
    EXPECT_EQ(count(model.load_with([](GgufWriter&) {}), "window=7"), 5);
    const std::string key = "gemma3.attention.sliding_window_pattern";
    EXPECT_EQ(count(model.load_with([&](GgufWriter& w) { w.set(key, uint32_t{2}); }), "window=7"), 3);
    const std::vector<int32_t> numbers = {1, 0, 0, 0, 0, 1};
    EXPECT_EQ(count(model.load_with([&](GgufWriter& w) { w.set(key, numbers); }), "window=7"), 2);
    const std::vector<int32_t> few = {1, 0};
    EXPECT_THAT(model.load_with([&](GgufWriter& w) { w.set(key, few); }), HasSubstr("2 entries for 6 layers"));
    const auto none = [](GgufWriter& w) { w.set("gemma3.attention.sliding_window", uint32_t{0}); };
    EXPECT_EQ(count(model.load_with(none), "window="), 0);
}

TEST(GgufConfig, OfGemma3HasTheScaleOfItsHeadsOrTheOneItNames) {
    const GgufModel model("gemma3");
    EXPECT_THAT(model.load_with([](GgufWriter&) {}), HasSubstr("scale=0.25"));
    EXPECT_THAT(model.load_with([](GgufWriter& w) { w.set("gemma3.attention.scale", 0.5F); }), HasSubstr("scale=0.5"));
}

TEST(GgufConfig, OfMistralHasAWindowOnAllLayers) {
    EXPECT_EQ(count(GgufModel("llama", 9).load_with([](GgufWriter&) {}), "window=9"), 6);
    const GgufModel model("llama");
    const std::string plain = model.load_with([](GgufWriter&) {});
    EXPECT_THAT(plain, HasSubstr("layout=interleaved"));
    EXPECT_EQ(count(plain, "window="), 0);
}

TEST(GgufConfig, MayTurnOnlyPartOfAHead) {
    const GgufModel model("llama");
    const std::string all = model.load_with([](GgufWriter&) {});
    const auto part = [](uint32_t dim) { return [dim](GgufWriter& w) { w.set("llama.rope.dimension_count", dim); }; };
    EXPECT_NE(model.load_with(part(8)), all);
    EXPECT_EQ(model.load_with(part(16)), all);
    EXPECT_THAT(model.load_with(part(7)), HasSubstr("not an even number"));
    EXPECT_THAT(model.load_with(part(18)), HasSubstr("'llama.rope.dimension_count' is 18"));
}

TEST(GgufConfig, RefusesDivisorsThatAreNoDivisors) {
    const GgufModel model("llama");
    for (const float bad : {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN(), 1e29F}) {
        const std::vector<float> divisors(8, bad);
        EXPECT_THAT(model.load_with([&](GgufWriter& w) {
            w.add("rope_freqs.weight", DType::f32, {8}, std::as_bytes(std::span<const float>(divisors)));
        }),
                    HasSubstr("'rope_freqs.weight' has"));
    }
    const std::vector<float> short_list(4, 1.0F);
    EXPECT_THAT(model.load_with([&](GgufWriter& w) {
        w.add("rope_freqs.weight", DType::f32, {4}, std::as_bytes(std::span<const float>(short_list)));
    }),
                HasSubstr("is not f32[8]"));
}

TEST(GgufConfig, NamesTheKeyThatIsMissingOrWrong) {
    const GgufModel model("qwen3");
    EXPECT_THAT(model.load_with([](GgufWriter& w) { w.remove("qwen3.block_count"); }),
                HasSubstr("'qwen3.block_count' is missing"));
    EXPECT_THAT(model.load_with([](GgufWriter& w) { w.set("qwen3.block_count", "six"); }),
                HasSubstr("'qwen3.block_count' is not a number"));
    EXPECT_THAT(model.load_with([](GgufWriter& w) { w.set("qwen3.block_count", uint64_t{1} << 40); }),
                HasSubstr("expected a whole number from 1 to 1024"));
    EXPECT_THAT(model.load_with([](GgufWriter& w) { w.set("qwen3.attention.value_length", uint32_t{8}); }),
                HasSubstr("keys of 16 and values of 8"));
    EXPECT_THAT(model.load_with([](GgufWriter& w) { w.set("qwen3.rope.scaling.type", "ntk"); }),
                HasSubstr("rope scaling 'ntk' is not supported"));
    EXPECT_THAT(model.load_with([](GgufWriter& w) { w.set("qwen3.rope.scaling.type", "llama3"); }),
                HasSubstr("not by name"));
    EXPECT_THAT(model.load_with([](GgufWriter& w) { w.set("qwen3.rope.scaling.factor", 1e-9F); }),
                HasSubstr("expected at least"));
    EXPECT_THAT(model.load_with([](GgufWriter& w) { w.set("qwen3.expert_count", uint32_t{8}); }),
                HasSubstr("mixtures of experts"));
}

TEST(GgufConfig, MayHaveAnythingUnderAnyKey) {
    for (const std::string family : {"gemma3", "llama", "qwen2"}) {
        const GgufModel model(family, 7);
        std::vector<std::string> keys;
        for (const format::GgufEntry& entry : model.original().gguf()->metadata()) {
            if (entry.key.starts_with(family)) keys.emplace_back(entry.key);
        }
        for (const char* more : {"rope.scaling.type", "rope.scaling.factor", "rope.dimension_count", "attention.scale",
                                 "attention.sliding_window_pattern", "final_logit_softcapping"}) {
            keys.push_back(family + "." + more);
        }
        for (const std::string& key : keys) {
            const auto try_value = [&](const auto& value) {
                EXPECT_FALSE(model.load_with([&](GgufWriter& w) { w.set(key, value); }).empty());
            };
            try_value(uint32_t{0});
            try_value(uint32_t{7});
            try_value(int32_t{-1});
            try_value(std::numeric_limits<uint64_t>::max());
            try_value(std::numeric_limits<int64_t>::min());
            try_value(std::numeric_limits<float>::quiet_NaN());
            try_value(std::numeric_limits<double>::infinity());
            try_value(-0.0F);
            try_value(1e-40);
            try_value(true);
            try_value("yarn");
            try_value(std::vector<int32_t>{});
            try_value(std::vector<float>(6, 0.5F));
            try_value(std::vector<std::string>{"a", "b"});
        }
    }
}

// NVFP4 files have a number beside a matrix which all of it is multiplied with.
TEST(GgufConfig, MayHaveAFactorBesideAMatrix) {
    const GgufModel model("llama");
    const auto with_factor = [&](const std::string& name, const std::vector<float>& values) {
        return model.load_with([&](GgufWriter& writer) {
            writer.add(name, DType::f32, {static_cast<int64_t>(values.size())}, std::as_bytes(std::span(values)));
        });
    };
    const std::string plain = model.load_with([](GgufWriter&) {});
    EXPECT_EQ(count(plain, "factor="), 0);
    const std::string scaled = with_factor("blk.1.ffn_up.scale", {0.25F});
    EXPECT_EQ(count(scaled, "factor=0.25"), 1) << scaled;
    EXPECT_EQ(with_factor("blk.1.ffn_up.scale", {1.0F}), plain);
    EXPECT_EQ(with_factor("blk.1.ffn_up.input_scale", {0.25F}), plain);
    EXPECT_THAT(with_factor("token_embd.scale", {0.25F}), HasSubstr("0.25"));
    EXPECT_THAT(with_factor("blk.1.ffn_up.scale", {1.0F, 2.0F}),
                HasSubstr("'blk.1.ffn_up.scale' of shape [2] is no factor for 'blk.1.ffn_up.weight'"));
    EXPECT_THAT(with_factor("blk.1.ffn_up.scale", {NAN}), HasSubstr("expected one finite number other than 0"));
}

TEST(GgufConfig, OfAnUnknownFamilyOrWithoutOneIsRefused) {
    GgufWriter writer;
    writer.set("general.architecture", "rwkv6");
    const auto bytes = writer.to_bytes().value();
    const auto unknown = Checkpoint::from_gguf(bytes, "memory");
    ASSERT_TRUE(unknown) << unknown.error().message;
    EXPECT_THAT(load(*unknown).error().message, HasSubstr("memory: models of the family 'rwkv6' are not supported"));
    GgufWriter nothing;
    nothing.set("general.name", "x");
    const auto empty = nothing.to_bytes().value();
    const auto silent = Checkpoint::from_gguf(empty, "memory");
    ASSERT_TRUE(silent);
    EXPECT_THAT(load(*silent).error().message, HasSubstr("'general.architecture' is missing"));
}

}  // namespace
}  // namespace tandem::models
