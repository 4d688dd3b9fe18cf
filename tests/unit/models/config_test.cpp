// The same model, told in other words: what config.json may say must give the same Program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden/model_files.h"
#include "models/model.h"

namespace tandem::models {
namespace {

using golden::HfModel;
using nlohmann::json;
using testing::HasSubstr;

// The Program as text: ops, shapes, windows, scales, and the frequencies of rope as far as they are printed.
std::string program(const HfModel& model, int shards = 1) {
    const golden::TempDir dir;
    golden::write_hf(model, dir.path(), shards);
    auto checkpoint = format::Checkpoint::open(dir.path());
    EXPECT_TRUE(checkpoint) << checkpoint.error().message;
    auto loaded = load(*checkpoint);
    if (!loaded) return loaded.error().message;
    return graph::to_string(loaded->program);
}

HfModel golden_model(const std::string& name) {
    return golden::read_hf(golden::golden_dir(name));
}

// The fields of transformers 4 instead of those of 5.
void make_old_style(json& config, const json& rope_scaling) {
    json rope = config["rope_parameters"];
    if (rope.contains("full_attention")) {
        config["rope_theta"] = rope["full_attention"]["rope_theta"];
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"];
    } else {
        config["rope_theta"] = rope["rope_theta"];
    }
    config.erase("rope_parameters");
    config["rope_scaling"] = rope_scaling;
    config["torch_dtype"] = config["dtype"];
    config.erase("dtype");
}

TEST(Config, OfTransformers4GivesTheSameGemma3) {
    HfModel model = golden_model("gemma3");
    const std::string expected = program(model);
    make_old_style(model.config, nullptr);
    model.config.erase("layer_types");
    model.config.erase("_sliding_window_pattern");
    model.config["sliding_window_pattern"] = 6;
    EXPECT_EQ(program(model), expected);
    model.config.erase("sliding_window_pattern");  // six is usual
    EXPECT_EQ(program(model), expected);
    EXPECT_THAT(expected, HasSubstr("window=8"));
}

TEST(Config, OfTransformers4GivesTheSameLinearRope) {
    HfModel model = golden_model("gemma3-linear-rope");
    const std::string expected = program(model);
    make_old_style(model.config, {{"rope_type", "linear"}, {"factor", 8.0}});
    EXPECT_EQ(program(model), expected);
    model.config["rope_scaling"] = {{"type", "linear"}, {"factor", 8}};
    EXPECT_EQ(program(model), expected);
    model.config["rope_scaling"]["factor"] = 4;
    EXPECT_NE(program(model), expected);
}

TEST(Config, OfTransformers4GivesTheSameLlama3Rope) {
    HfModel model = golden_model("llama3-rope");
    const std::string expected = program(model);
    json scaling = model.config["rope_parameters"];
    scaling.erase("rope_theta");
    make_old_style(model.config, scaling);
    EXPECT_EQ(program(model), expected);
    model.config["head_dim"] = nullptr;  // dim / heads
    EXPECT_EQ(program(model), expected);
    model.config["architectures"] = json::array();
    EXPECT_EQ(program(model), expected);
}

TEST(Config, OfTransformers4GivesTheSameQwen) {
    for (const std::string name : {"qwen2", "qwen3"}) {
        HfModel model = golden_model(name);
        const std::string expected = program(model);
        make_old_style(model.config, nullptr);
        model.config.erase("layer_types");
        model.config["sliding_window"] = 4096;  // stands there but is not used
        EXPECT_EQ(program(model), expected);
    }
}

TEST(Config, IsFoundInTextConfigWithTheTensorsUnderOtherNames) {
    const HfModel plain = golden_model("gemma3");
    const std::string expected = program(plain);
    for (const std::string prefix : {"model.language_model.", "language_model.model."}) {
        HfModel model = plain;
        model.config = {{"model_type", "gemma3"},
                        {"architectures", {"Gemma3ForConditionalGeneration"}},
                        {"vision_config", {{"hidden_size", 1152}, {"model_type", "siglip_vision_model"}}},
                        {"text_config", plain.config}};
        model.rename_prefix("model.", prefix);
        model.add_random("vision_tower.vision_model.embeddings.position_embedding.weight", {4, 8}, 1);
        EXPECT_EQ(program(model), expected) << prefix;
    }
}

TEST(Config, IsTheSameForShardedWeights) {
    const HfModel model = golden_model("qwen3");
    EXPECT_EQ(program(model, 3), program(model));
}

TEST(Config, OfMistralHasAWindowUnlessItIsNull) {
    HfModel model = golden_model("mistral");
    EXPECT_THAT(program(model), HasSubstr("window=12"));
    model.config.erase("sliding_window");
    EXPECT_THAT(program(model), HasSubstr("window=4096"));
    model.config["sliding_window"] = nullptr;
    EXPECT_THAT(program(model), Not(HasSubstr("window=")));
}

TEST(Config, OfQwenUsesTheWindowFromALayerOn) {
    HfModel model = golden_model("qwen2-window");
    const std::string expected = program(model);
    model.config.erase("layer_types");
    EXPECT_EQ(program(model), expected);  // max_window_layers says the same
    model.config["use_sliding_window"] = false;
    EXPECT_THAT(program(model), Not(HasSubstr("window=")));
}

TEST(Config, OfAnUnknownFamilyIsRefusedWithWhatIsSupported) {
    HfModel model = golden_model("llama");
    model.config["model_type"] = "mamba";
    model.config["architectures"] = {"MambaForCausalLM"};
    const std::string message = program(model);
    EXPECT_THAT(message, HasSubstr("'mamba' are not supported"));
    EXPECT_THAT(message, HasSubstr("gemma3, gemma4, glm4_moe, gpt_oss, granite, llama, ministral3, mistral"));
    model.config.erase("model_type");
    model.config.erase("architectures");
    EXPECT_THAT(program(model), HasSubstr("no 'model_type'"));
}

TEST(Config, OfAScalingWeDoNotHaveIsRefused) {
    HfModel model = golden_model("llama");
    for (const std::string type : {"dynamic", "ntk", "mrope"}) {
        model.config["rope_parameters"] = {{"rope_type", type}, {"rope_theta", 1e4}, {"factor", 2.0}};
        EXPECT_THAT(program(model), HasSubstr("rope scaling '" + type + "' is not supported"));
    }
}

// Eight pairs turn. The context decides which factors are used, and how much the scores are sharpened.
TEST(Config, OfPhi3HasTheFactorsOfItsContext) {
    HfModel model = golden_model("phi3");
    const json plain = model.config["rope_parameters"];
    const std::string unscaled = program(model);
    json& rope = model.config["rope_parameters"];
    rope = {{"rope_type", "longrope"},
            {"rope_theta", 1e4},
            {"long_factor", json(std::vector<double>(8, 4.0))},
            {"short_factor", json(std::vector<double>(8, 1.0))}};
    model.config["original_max_position_embeddings"] = 512;  // all there is
    EXPECT_EQ(program(model), unscaled);
    model.config["original_max_position_embeddings"] = 64;
    const std::string stretched = program(model);
    EXPECT_THAT(stretched, HasSubstr("magnitude=1.22474"));  // sqrt(1 + ln 8 / ln 64)
    rope["long_factor"] = std::vector<double>(7, 4.0);
    EXPECT_THAT(program(model), HasSubstr("longrope has 7 long and 8 short factors, expected 8 of both"));
    rope["long_factor"] = "four";
    EXPECT_THAT(program(model), HasSubstr("'rope_parameters.long_factor' of config.json is not a list of numbers"));
}

TEST(Config, OfSmolLm3NamesTheLayersWithoutRope) {
    HfModel model = golden_model("smollm3");
    const std::string expected = program(model);
    model.config.erase("no_rope_layers");
    EXPECT_EQ(program(model), expected) << "every fourth";
    model.config["no_rope_layers"] = {1, 1, 1, 1};
    EXPECT_NE(program(model), expected);
    model.config["no_rope_layers"] = {1, 1};
    EXPECT_THAT(program(model), HasSubstr("'no_rope_layers' has 2 entries for 4 layers"));
}

TEST(Config, OfGemma4MayNameTheSizesOfGlobalLayersAtOnce) {
    HfModel model = golden_model("gemma4");
    const std::string expected = program(model);
    model.config.erase("per_layer_config");
    EXPECT_NE(program(model), expected);
    model.config["global_head_dim"] = 64;
    model.config["num_global_key_value_heads"] = 1;
    EXPECT_EQ(program(model), expected);
}

TEST(Config, OfGemma4SharesKeysAmongLayersOfAKindOnly) {
    HfModel model = golden_model("gemma4-e");
    EXPECT_THAT(program(model), HasSubstr("cache=5"));
    model.config["num_kv_shared_layers"] = 7;
    EXPECT_THAT(program(model), HasSubstr("layer 5 has no keys of its own and there is no layer like it that has"));
}

TEST(Config, OfAnotherActivationIsHonoured) {
    HfModel model = golden_model("llama");
    model.config["hidden_act"] = "gelu_pytorch_tanh";
    EXPECT_THAT(program(model), HasSubstr("gelu_tanh"));
    model.config["hidden_act"] = "relu";
    EXPECT_THAT(program(model), HasSubstr("activation 'relu' is not supported"));
}

TEST(Config, NamesWhatIsWrongWithASize) {
    const HfModel good = golden_model("llama");
    const auto message = [&](const char* key, const json& value) {
        HfModel model = good;
        model.config[key] = value;
        return program(model);
    };
    EXPECT_THAT(message("num_hidden_layers", 0), HasSubstr("'num_hidden_layers' of config.json is 0"));
    EXPECT_THAT(message("num_hidden_layers", 4),
                HasSubstr("tensor 'model.layers.3.input_layernorm.weight' of shape [64]"));
    EXPECT_THAT(message("num_attention_heads", 3), HasSubstr("3 heads are not a multiple of 2"));
    EXPECT_THAT(message("hidden_size", 128),
                HasSubstr("has the shape [320, 64] but the configuration asks for [320, 128]"));
    EXPECT_THAT(message("head_dim", 15), HasSubstr("odd"));
    EXPECT_THAT(message("vocab_size", 321), HasSubstr("'vocab_size' is 321"));
    EXPECT_THAT(message("intermediate_size", "many"), HasSubstr("'intermediate_size' of config.json is not a number"));
    EXPECT_THAT(message("rms_norm_eps", -1), HasSubstr("'rms_norm_eps' of config.json is -1"));
    EXPECT_THAT(message("num_local_experts", 8), HasSubstr("mixtures of experts"));
}

// Whatever stands in a field, loading ends in a Model or in an error, never in a crash.
TEST(Config, MayHaveAnythingInAnyField) {
    const std::vector<json> values = {0,
                                      -1,
                                      1,
                                      7,
                                      1000000007,
                                      9223372036854775807LL,
                                      18446744073709551615ULL,
                                      -9223372036854775807LL,
                                      0.5,
                                      1e300,
                                      -1e300,
                                      "",
                                      "linear",
                                      nullptr,
                                      true,
                                      false,
                                      json::array(),
                                      {1, 2, 3},
                                      {"sliding_attention"},
                                      json::object(),
                                      {{"factor", 0}, {"rope_type", "yarn"}},
                                      {{"factor", 1e9}, {"rope_type", "llama3"}},
                                      {{"full_attention", 3}, {"sliding_attention", {{"rope_theta", "x"}}}}};
    for (const std::string name : {"gemma3-softcap", "llama-yarn", "mistral-full", "qwen2-window"}) {
        HfModel model = golden_model(name);
        const json good = model.config;
        const golden::TempDir dir;
        golden::write_hf(model, dir.path());
        std::vector<std::string> keys = {"partial_rotary_factor", "rope_scaling",      "rope_theta",
                                         "text_config",           "num_local_experts", "sliding_window_pattern"};
        for (const auto& [key, value] : good.items()) keys.push_back(key);
        for (const std::string& key : keys) {
            for (const json& value : values) {
                model.config = good;
                model.config[key] = value;
                golden::write_config(model.config, dir.path());
                auto checkpoint = format::Checkpoint::open(dir.path());
                ASSERT_TRUE(checkpoint) << checkpoint.error().message;
                const auto loaded = load(*checkpoint);
                EXPECT_TRUE(loaded || !loaded.error().message.empty());
            }
        }
    }
}

TEST(Weights, OfHalfPrecisionNormsBecomeF32AndMatricesStay) {
    HfModel model = golden_model("qwen2");
    for (const auto& [name, tensor] : HfModel(model).tensors) model.convert(name, DType::bf16);
    const golden::TempDir dir;
    golden::write_hf(model, dir.path());
    const auto checkpoint = format::Checkpoint::open(dir.path());
    const auto loaded = load(*checkpoint);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->weights.find("blk.0.attn_norm.weight")->dtype, DType::f32);
    EXPECT_EQ(loaded->weights.find("blk.0.attn_q.bias")->dtype, DType::f32);
    EXPECT_EQ(loaded->weights.find("blk.0.attn_q.weight")->dtype, DType::bf16);
    EXPECT_EQ(loaded->weights.find("token_embd.weight")->dtype, DType::bf16);
}

TEST(Weights, ThatAreMissingOrMisshapenAreNamed) {
    const HfModel good = golden_model("gemma3");
    HfModel model = good;
    model.tensors.erase("model.layers.2.mlp.up_proj.weight");
    EXPECT_THAT(program(model), HasSubstr("tensor 'model.layers.2.mlp.up_proj.weight' of shape [160, 64] is missing"));
    model = good;
    model.add_random("model.layers.1.self_attn.q_norm.weight", {31}, 1);
    EXPECT_THAT(program(model), HasSubstr("q_norm.weight' has the shape [31] but the configuration asks for [32]"));
    model = good;
    model.tensors.erase("model.embed_tokens.weight");
    EXPECT_THAT(program(model), HasSubstr("embedding of the tokens is missing"));
    model = good;
    model.config["tie_word_embeddings"] = false;
    EXPECT_THAT(program(model), HasSubstr("tensor 'lm_head.weight' of shape [320, 64] is missing"));
}

TEST(Weights, AreCountedOnceWhereTheyAreTied) {
    const auto checkpoint = format::Checkpoint::open(golden::golden_dir("qwen2"));
    const auto model = load(*checkpoint);
    ASSERT_TRUE(model);
    uint64_t elements = 0;
    for (const auto& tensor : checkpoint->tensors()) elements += static_cast<uint64_t>(tensor.elements());
    EXPECT_EQ(model->parameters, elements);
    EXPECT_EQ(model->family, "qwen2");
    EXPECT_EQ(model->name, "qwen2");
    EXPECT_EQ(model->dim, 64);
    EXPECT_EQ(model->head_dim, 16);
    EXPECT_EQ(model->vocab, 320);
    EXPECT_EQ(model->context_length, 512);
}

}  // namespace
}  // namespace tandem::models
