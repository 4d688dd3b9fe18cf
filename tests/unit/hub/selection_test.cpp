#include "hub/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::hub {
namespace {

using testing::HasSubstr;

std::vector<FileEntry> files(std::initializer_list<const char*> paths) {
    std::vector<FileEntry> entries;
    for (const char* const path : paths) entries.push_back({path, 100});
    return entries;
}

TEST(Selection, ReadsTheQuantizationOfAName) {
    EXPECT_EQ(quant_label("gemma-3-4b-it-Q4_K_M.gguf"), "Q4_K_M");
    EXPECT_EQ(quant_label("qwen2.5-0.5b-instruct-q4_k_m.gguf"), "Q4_K_M");
    EXPECT_EQ(quant_label("Model.IQ4_XS.gguf"), "IQ4_XS");
    EXPECT_EQ(quant_label("BF16/gemma-BF16-00001-of-00002.gguf"), "BF16");
    EXPECT_EQ(quant_label("Qwen3-8B-UD-Q4_K_XL.gguf"), "UD-Q4_K_XL");
    EXPECT_EQ(quant_label("gpt-oss-20b-mxfp4.gguf"), "MXFP4");
    EXPECT_EQ(quant_label("model.gguf"), "model");
}

TEST(Selection, TakesQ4KMUnlessSomethingElseIsAskedFor) {
    const auto all = files({"m-IQ2_M.gguf", "m-Q8_0.gguf", "m-Q4_K_M.gguf", "mmproj-m-f16.gguf"});
    EXPECT_EQ(select_variant(all, "", "r")->variant.first, "m-Q4_K_M.gguf");
    EXPECT_EQ(select_variant(all, "q8_0", "r")->variant.first, "m-Q8_0.gguf");
    EXPECT_EQ(select_variant(all, "m-IQ2_M.gguf", "r")->variant.first, "m-IQ2_M.gguf");
    const auto missing = select_variant(all, "Q5_K_M", "org/name");
    ASSERT_FALSE(missing);
    EXPECT_THAT(missing.error().message, HasSubstr("IQ2_M, Q8_0, Q4_K_M"));
}

TEST(Selection, TakesTheNearestWhereThereIsNoQ4KM) {
    const auto chosen = select_variant(files({"m-IQ4_XS.gguf", "m-Q8_0.gguf", "m-Q5_K_M.gguf"}), "", "r");
    EXPECT_EQ(chosen->variant.label, "Q5_K_M");
    EXPECT_EQ(chosen->why, "there is no Q4_K_M");
}

TEST(Selection, TakesAllPartsOfASplitFile) {
    const auto all =
        files({"Q8_0/m-Q8_0-00002-of-00002.gguf", "Q8_0/m-Q8_0-00001-of-00002.gguf", "m-Q4_K_M-00001-of-00003.gguf"});
    const auto chosen = select_variant(all, "Q8_0", "r");
    EXPECT_EQ(chosen->variant.files.size(), 2U);
    EXPECT_EQ(chosen->variant.first, "Q8_0/m-Q8_0-00001-of-00002.gguf");
    EXPECT_EQ(chosen->variant.size_bytes(), 200U);
    const auto torn = select_variant(all, "", "r");
    ASSERT_FALSE(torn);
    EXPECT_THAT(torn.error().message, HasSubstr("missing"));
}

TEST(Selection, TakesSafetensorsWithWhatBelongsToThem) {
    const auto all = files({"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                            "model.safetensors.index.json", "tokenizer.json", "README.md", "consolidated.safetensors",
                            "onnx/model.onnx"});
    const auto chosen = select_variant(all, "", "r");
    ASSERT_TRUE(chosen);
    EXPECT_EQ(chosen->variant.label, "safetensors");
    EXPECT_EQ(chosen->variant.files.size(), 5U);
    EXPECT_EQ(chosen->variant.first, "");
    EXPECT_FALSE(select_variant(files({"README.md", "model.bin"}), "", "r"));
}

}  // namespace
}  // namespace tandem::hub
