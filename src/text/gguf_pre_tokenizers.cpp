#include "text/gguf_pre_tokenizers.h"

#include <algorithm>
#include <array>

#include "text/json_components.h"

namespace tandem::text {

namespace {

using Names = std::string_view[];
using Spelling = GgufPreTokenizer::Spelling;

constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kThreeAsciiDigits = "[0-9][0-9][0-9]";
constexpr std::string_view kCjk = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";

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
    R"(\s?[)"
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77})"
    R"(\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D})"
    R"(\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE})"
    R"(\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC})"
    R"(\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"
    R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E})"
    R"(\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})"
    R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF})"
    R"(\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F})"
    R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"
    R"(\x{1E900}-\x{1E943})"
    R"(]+)";
// A class without what is Han as well is written as a look-ahead: [...&&[^\p{Han}]] is not known to PCRE2.
constexpr std::string_view kKimi =
    R"(\p{Han}+|)"
    R"([^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kYoutu =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kYoutuScripts =
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|)"
    R"([\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|)"
    R"([\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr std::string_view kMinicpm5 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kJais2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
    R"(\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|)"
    R"(\s{1,2}(?!\S)|\s{1})";
constexpr std::string_view kExaoneMoe =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kAfmoeScripts =
    R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F})"
    R"(\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F})"
    R"(\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)";
constexpr std::string_view kLines = R"([^\n]+|\n+)";
constexpr std::string_view kNumber = R"(\p{N}++)";
constexpr std::string_view kDigits = R"(\d++)";
// A number that ends where a word ends, as \d{1,3}(?=(?:\d{3})*\b) has it, but found in linear time.
constexpr std::string_view kNumberWord = R"((?<!\d)\d++\b)";
constexpr std::string_view kBloom = R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";

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
constexpr Names kStarcoderNames = {"starcoder", "refact", "command-r",  "smollm",
                                   "codeshell", "exaone", "minerva-7b", "mellum2"};
constexpr Names kStarcoderSplit = {kDigit, kGpt2Split};
constexpr Names kFalconNames = {"falcon"};
constexpr Names kFalconSplit = {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Split, kThreeAsciiDigits};
constexpr Names kDeepseekLlmNames = {"deepseek-llm"};
constexpr Names kDeepseekLlmSplit = {
    R"([\r\n])",
    kDeepseekLetters,
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
    R"(\s+$)",
    kCjk,
    R"(\p{N}+)"};
constexpr Names kDeepseekCoderNames = {"deepseek-coder"};
constexpr Names kDeepseekCoderSplit = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kCjk, kDigit};
constexpr Names kDeepseek3Names = {"deepseek-v3", "hunyuan-dense", "joyai-llm"};
constexpr Names kDeepseek3Split = {R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
                                   kDeepseek3};
constexpr Names kTekkenNames = {"tekken"};
constexpr Names kTekkenSplit = {kTekken};
constexpr Names kGpt4oNames = {"gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie"};
constexpr Names kGpt4oSplit = {kGpt4o};
constexpr Names kBloomNames = {"poro-chat", "bloom", "gpt3-finnish"};
constexpr Names kBloomSplit = {kBloom};
constexpr Names kVikingNames = {"viking"};
constexpr Names kVikingSplit = {kBloom, kDigit};
constexpr Names kBailingNames = {"bailingmoe", "bailingmoe2", "llada-moe"};
constexpr Names kBailingSplit = {kBailing};
constexpr Names kSeedCoderNames = {"seed-coder"};
constexpr Names kSeedCoderSplit = {kSeedCoder};
constexpr Names kGraniteEmbedNames = {"granite-embed-multi-97m"};
constexpr Names kKimiNames = {"kimi-k2"};
constexpr Names kKimiSplit = {kKimi};
constexpr Names kYoutuNames = {"youtu"};
constexpr Names kYoutuSplit = {kYoutuScripts, kYoutu};
constexpr Names kMinicpm5Names = {"minicpm5"};
constexpr Names kMinicpm5Split = {R"(\p{N}{1,3})", kMinicpm5};
constexpr Names kJais2Names = {"jais-2"};
constexpr Names kJais2Split = {kJais2};
constexpr Names kExaoneMoeNames = {"exaone-moe"};
constexpr Names kExaoneMoeSplit = {kExaoneMoe};
constexpr Names kChameleonNames = {"chameleon"};
constexpr Names kChameleonSplit = {"<sentinel:[0-9]+>",       "IMGIMG[A-I]{1,4}Z", R"([\t\n]|    |  )", kDigit,
                                   R"([\p{P}!-/:-@\[-`{-~])", kGpt2Split};
constexpr Names kLagunaNames = {"laguna"};
constexpr Names kLagunaSplit = {kLines, kQwen2};
constexpr Names kTinyAyaNames = {"tiny_aya", "cohere2moe"};
constexpr Names kAfmoeNames = {"afmoe"};
constexpr Names kAfmoeSplit = {kAfmoeScripts, kDeepseek3};
constexpr Names kSuperBpeNames = {"superbpe"};
constexpr Names kSuperBpeSplit = {R"(\p{N}+)"};
constexpr Names kGemma4Names = {"gemma4", "granite-embed-multi-311m"};
constexpr Names kSarvamNames = {"sarvam-moe"};
constexpr Names kLinesSplit = {kLines};
constexpr Names kWhitespaceNames = {"whitespace"};
constexpr Names kWhitespaceSplit = {R"(\S+)"};

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
    {.names = kGraniteEmbedNames, .expressions = kGpt4oSplit, .ignore_merges = true},
    {.names = kKimiNames, .expressions = kKimiSplit},
    {.names = kYoutuNames, .expressions = kYoutuSplit, .ignore_merges = true},
    {.names = kMinicpm5Names, .expressions = kMinicpm5Split, .ignore_merges = true},
    {.names = kJais2Names, .expressions = kJais2Split},
    {.names = kExaoneMoeNames, .expressions = kExaoneMoeSplit},
    {.names = kChameleonNames, .expressions = kChameleonSplit, .add_bos = true},
    {.names = kLagunaNames, .expressions = kLagunaSplit},
    {.names = kTinyAyaNames, .thousands = kNumberWord, .expressions = kGpt4oSplit},
    {.names = kAfmoeNames, .thousands = kNumber, .expressions = kAfmoeSplit},
    {.names = kSuperBpeNames, .thousands = kDigits, .expressions = kSuperBpeSplit},
    {.names = kGemma4Names,
     .expressions = kLinesSplit,
     .spelling = Spelling::marked_spaces,
     .whole_newlines = true,
     .always_bos = true},
    {.names = kSarvamNames, .expressions = kLinesSplit, .spelling = Spelling::marked_spaces},
    {.names = kWhitespaceNames, .expressions = kWhitespaceSplit, .spelling = Spelling::no_spaces},
};

}  // namespace

const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name) {
    for (const GgufPreTokenizer& entry : kAll) {
        if (std::find(entry.names.begin(), entry.names.end(), name) != entry.names.end()) return &entry;
    }
    return nullptr;
}

}  // namespace tandem::text
