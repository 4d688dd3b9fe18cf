#include "text/gguf_pre_tokenizers.h"

#include <algorithm>
#include <array>

#include "text/json_components.h"

namespace tandem::text {

namespace {

using Names = std::string_view[];

constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kThreeAsciiDigits = "[0-9][0-9][0-9]";
constexpr std::string_view kCjk = "[一-龥ࠀ-一가-퟿]+";

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                                     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
                                     R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseekLetters =
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-"
    "Ὅὐ-"
    "ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼ"
    "ιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-"
    "Ｚａ-"
    "ｚ"
    "𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
constexpr std::string_view kBloom = R"( ?[^(\s|.,!?…。，、।۔،)]+)";

// Each list of names with its expressions. The names are those that GGUF converters write.
constexpr Names kDefaultNames = {"default"};
constexpr Names kDefaultSplit = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Split, R"(\p{N}+)", kThreeAsciiDigits};
constexpr Names kGpt2Names = {"gpt-2",      "phi-2",    "jina-es",      "jina-de",     "gigachat",
                              "jina-v2-es", "a.x-4.0",  "jina-v2-de",   "mellum",      "modern-bert",
                              "jina-v1-en", "trillion", "jina-v2-code", "roberta-bpe", "granite-docling",
                              "mpt",        "olmo",     "jais",         "exaone4"};
constexpr Names kGpt2Split1 = {kGpt2Split};
constexpr Names kLlama3Names = {"llama3",   "llama-v3", "llama-bpe", "falcon3",     "falcon-h1",
                                "midm-2.0", "pixtral",  "lfm2",      "jina-v5-nano"};
constexpr Names kLlama3LikeNames = {"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"};
constexpr Names kLlama3Split = {kLlama3};
constexpr Names kQwen2Names = {"qwen2",   "deepseek-r1-qwen", "kormo",      "f2llmv2", "stablelm2",
                               "hunyuan", "megrez",           "solar-open", "grok-2"};
constexpr Names kQwen2Split = {kQwen2};
constexpr Names kQwen35Names = {"qwen35"};
constexpr Names kQwen35Split = {kQwen35};
constexpr Names kStarcoderNames = {"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"};
constexpr Names kStarcoderSplit = {kDigit, kGpt2Split};
constexpr Names kFalconNames = {"falcon"};
constexpr Names kFalconSplit = {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Split, kThreeAsciiDigits};
constexpr Names kDeepseekLlmNames = {"deepseek-llm"};
constexpr Names kDeepseekLlmSplit = {R"([\r\n])", kDeepseekLetters, R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)", R"(\s+$)",
                                     kCjk,        R"(\p{N}+)"};
constexpr Names kDeepseekCoderNames = {"deepseek-coder"};
constexpr Names kDeepseekCoderSplit = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kCjk, kDigit};
constexpr Names kDeepseek3Names = {"deepseek-v3", "hunyuan-dense", "joyai-llm"};
constexpr Names kDeepseek3Split = {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+", kDeepseek3};
constexpr Names kTekkenNames = {"tekken"};
constexpr Names kTekkenSplit = {kTekken};
constexpr Names kGpt4oNames = {"gpt-4o", "llama4", "kanana2", "minimax-m2"};
constexpr Names kGpt4oSplit = {kGpt4o};
constexpr Names kBloomNames = {"poro-chat", "bloom", "gpt3-finnish"};
constexpr Names kBloomSplit = {kBloom};
constexpr Names kVikingNames = {"viking"};
constexpr Names kVikingSplit = {kBloom, kDigit};
constexpr Names kBailingNames = {"bailingmoe", "bailingmoe2", "llada-moe"};
constexpr Names kBailingSplit = {kBailing};
constexpr Names kSeedCoderNames = {"seed-coder"};
constexpr Names kSeedCoderSplit = {kSeedCoder};

constexpr GgufPreTokenizer kAll[] = {
    {.names = kDefaultNames, .expressions = kDefaultSplit},
    {.names = kGpt2Names, .expressions = kGpt2Split1},
    {.names = kLlama3Names, .expressions = kLlama3Split, .ignore_merges = true, .add_bos = true},
    {.names = kLlama3LikeNames, .expressions = kLlama3Split},
    {.names = kQwen2Names, .expressions = kQwen2Split},
    {.names = kQwen35Names, .expressions = kQwen35Split},
    {.names = kStarcoderNames, .expressions = kStarcoderSplit},
    {.names = kFalconNames, .expressions = kFalconSplit},
    {.names = kDeepseekLlmNames, .expressions = kDeepseekLlmSplit},
    {.names = kDeepseekCoderNames, .expressions = kDeepseekCoderSplit},
    {.names = kDeepseek3Names, .expressions = kDeepseek3Split},
    {.names = kTekkenNames, .expressions = kTekkenSplit, .ignore_merges = true, .add_bos = true},
    {.names = kGpt4oNames, .expressions = kGpt4oSplit},
    {.names = kBloomNames, .expressions = kBloomSplit},
    {.names = kVikingNames, .expressions = kVikingSplit},
    {.names = kBailingNames, .expressions = kBailingSplit},
    {.names = kSeedCoderNames, .expressions = kSeedCoderSplit},
};

}  // namespace

const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name) {
    for (const GgufPreTokenizer& entry : kAll) {
        if (std::find(entry.names.begin(), entry.names.end(), name) != entry.names.end()) return &entry;
    }
    return nullptr;
}

}  // namespace tandem::text
