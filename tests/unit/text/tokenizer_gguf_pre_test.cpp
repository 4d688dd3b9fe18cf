// The splits behind the names in tokenizer.ggml.pre.

#include <gtest/gtest.h>

#include <set>

#include "gguf_tokenizers.h"
#include "text/byte_level.h"
#include "text/gguf_pre_tokenizers.h"

namespace tandem::text {

namespace {

using Words = std::vector<std::string>;

// A vocabulary that has every part of the text and merges any two of them: a word is always one token.
format::GgufWriter merging_all_of(std::string_view text, std::string_view pre) {
    const auto spell = [](std::string_view bytes) {
        std::string out;
        append_byte_level(bytes, out);
        return out;
    };
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.push_back(spell(std::string(1, static_cast<char>(byte))));
    std::set<std::string> known(tokens.begin(), tokens.end());
    std::set<std::string> merges;
    for (size_t size = 2; size <= text.size(); ++size) {
        for (size_t at = 0; at + size <= text.size(); ++at) {
            const std::string_view part = text.substr(at, size);
            if (known.insert(spell(part)).second) tokens.push_back(spell(part));
            for (size_t cut = 1; cut < size; ++cut)
                merges.insert(spell(part.substr(0, cut)) + " " + spell(part.substr(cut)));
        }
    }
    format::GgufWriter writer;
    writer.set("tokenizer.ggml.model", "gpt2");
    writer.set("tokenizer.ggml.pre", pre);
    writer.set("tokenizer.ggml.tokens", tokens);
    writer.set("tokenizer.ggml.merges", std::vector<std::string>(merges.begin(), merges.end()));
    return writer;
}

Words words_of(std::string_view pre, std::string_view text) {
    const auto tokenizer = parse_gguf(merging_all_of(text, pre));
    if (!tokenizer) return {tokenizer.error().message};
    Words words;
    for (const TokenId id : tokenizer->encode(text, {.add_special = false}))
        words.push_back(tokenizer->token_bytes(id));
    return words;
}

TEST(GgufPreTokenizer, SplitsAsItsNameSays) {
    const std::string text = "It's 1234567 a1b 文字カナ, x!\n\n  3";
    const std::pair<const char*, Words> expected[] = {
        {"gpt-2", {"It", "'s", " 1234567", " a", "1", "b", " 文字カナ", ",", " x", "!", "\n\n ", " 3"}},
        {"kimi-k2",
         {"It's", " ", "123", "456", "7", " a", "1", "b", " ", "文字", "カナ", ",", " x", "!\n\n", " ", " ", "3"}},
        {"youtu", {"It's", " ", "1", "2",        "3", "4",  "5",     "6", "7", " a",
                   "1",    "b", " ", "文字カナ", ",", " x", "!\n\n", " ", " ", "3"}},
        {"minicpm5", {"It", "'s", " ", "123", "456", "7", " a", "1", "b", " 文字カナ", ",", " x", "!\n\n", "  ", "3"}},
        {"jais-2",
         {"It", "'s", " ", "123", "456", "7", " a", "1", "b", " 文字カナ", ",", " x", "!\n\n", " ", " ", "3"}},
        {"exaone-moe", {"It", "'s", " ",          "1", "2",  "3",   "4",  "5", "6", "7",
                        " a", "1",  "b 文字カナ", ",", " x", "!\n", "\n", " ", " ", "3"}},
        {"chameleon", {"It", "'", "s", " ",         "1", "2",  "3", "4",  "5",  "6",  "7",
                       " a", "1", "b", " 文字カナ", ",", " x", "!", "\n", "\n", "  ", "3"}},
        {"laguna", {"It", "'s", " ",         "1", "2",  "3", "4",    "5", "6", "7", " a",
                    "1",  "b",  " 文字カナ", ",", " x", "!", "\n\n", " ", " ", "3"}},
        {"tiny_aya", {"It's", " ", "1", "234", "567", " a", "1", "b", " 文字カナ", ",", " x", "!\n\n", "  ", "3"}},
        {"afmoe", {"It", "'s", " ", "1", "234", "567", " a", "1", "b", " ", "文字カナ", ",", " x", "!\n\n", "  ", "3"}},
        {"superbpe", {"It's ", "1", "234", "567", " a", "1", "b 文字カナ, x!\n\n  ", "3"}},
        {"granite-embed-multi-97m",
         {"It's", " ", "123", "456", "7", " a", "1", "b", " 文字カナ", ",", " x", "!\n\n", " ", " ", "3"}}};
    for (const auto& [pre, words] : expected) EXPECT_EQ(words_of(pre, text), words) << pre;
}

TEST(GgufPreTokenizer, TellsWordsApartByCase) {
    const std::string text = "camelCase";
    for (const char* pre : {"gpt-4o", "kimi-k2", "youtu", "tiny_aya", "tekken"})
        EXPECT_EQ(words_of(pre, text), (Words{"camel", "Case"})) << pre;
    for (const char* pre : {"gpt-2", "qwen2", "minicpm5", "afmoe"}) EXPECT_EQ(words_of(pre, text), Words{text}) << pre;
}

TEST(GgufPreTokenizer, NumbersInsideWordsAreNotGroupedFromTheirEndByTinyAya) {
    EXPECT_EQ(words_of("tiny_aya", "12345x"), (Words{"123", "45", "x"}));
    EXPECT_EQ(words_of("tiny_aya", "12345"), (Words{"12", "345"}));
    EXPECT_EQ(words_of("afmoe", "12345x"), (Words{"12", "345", "x"}));
}

TEST(GgufPreTokenizer, LongNumbersAreNoTrouble) {
    const std::string digits(200'001, '7');
    for (const char* pre : {"tiny_aya", "afmoe", "superbpe"}) {
        const auto tokenizer = parse_gguf(merging_all_of("7777", pre)).value();
        EXPECT_EQ(tokenizer.encode(digits, {.add_special = false}).size(), 66'667) << pre;
    }
}

TEST(GgufPreTokenizer, NamesThatMeanTheSame) {
    const std::pair<const char*, const char*> aliases[] = {
        {"talkie", "gpt-4o"}, {"joyai-llm", "deepseek-v3"}, {"mellum2", "starcoder"}, {"cohere2moe", "tiny_aya"}};
    for (const auto& [name, other] : aliases)
        EXPECT_EQ(find_gguf_pre_tokenizer(name), find_gguf_pre_tokenizer(other)) << name;
}

TEST(GgufPreTokenizer, EveryNameOfTheFieldIsKnown) {
    for (const char* name : {"a.x-4.0",
                             "afmoe",
                             "bailingmoe",
                             "bailingmoe2",
                             "bloom",
                             "chameleon",
                             "chatglm-bpe",
                             "codeshell",
                             "cohere2moe",
                             "command-r",
                             "dbrx",
                             "deepseek-coder",
                             "deepseek-llm",
                             "deepseek-r1-qwen",
                             "deepseek-v3",
                             "default",
                             "exaone",
                             "exaone-moe",
                             "exaone4",
                             "f2llmv2",
                             "falcon",
                             "falcon-h1",
                             "falcon3",
                             "gemma4",
                             "gigachat",
                             "glm4",
                             "gpt-2",
                             "gpt-4o",
                             "gpt3-finnish",
                             "granite-docling",
                             "granite-embed-multi-311m",
                             "granite-embed-multi-97m",
                             "grok-2",
                             "hunyuan",
                             "hunyuan-dense",
                             "jais",
                             "jais-2",
                             "jina-de",
                             "jina-es",
                             "jina-v1-en",
                             "jina-v2-code",
                             "jina-v2-de",
                             "jina-v2-es",
                             "jina-v5-nano",
                             "joyai-llm",
                             "kanana2",
                             "kimi-k2",
                             "kormo",
                             "laguna",
                             "lfm2",
                             "llada-moe",
                             "llama-bpe",
                             "llama-v3",
                             "llama3",
                             "llama4",
                             "megrez",
                             "mellum",
                             "mellum2",
                             "midm-2.0",
                             "minerva-7b",
                             "minicpm5",
                             "minimax-m2",
                             "modern-bert",
                             "mpt",
                             "olmo",
                             "phi-2",
                             "pixtral",
                             "poro-chat",
                             "qwen2",
                             "qwen35",
                             "refact",
                             "roberta-bpe",
                             "sarvam-moe",
                             "seed-coder",
                             "smaug-bpe",
                             "smollm",
                             "solar-open",
                             "stablelm2",
                             "starcoder",
                             "superbpe",
                             "talkie",
                             "tekken",
                             "tiny_aya",
                             "trillion",
                             "viking",
                             "whitespace",
                             "youtu"})
        EXPECT_NE(find_gguf_pre_tokenizer(name), nullptr) << name;
}

}  // namespace

}  // namespace tandem::text
