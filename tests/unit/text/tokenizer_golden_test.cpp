// Ids and texts that SentencePiece and the tokenizers library give for awkward strings.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace tandem::text {

namespace {

namespace fs = std::filesystem;

fs::path tokenizers() {
    return fs::path(TANDEM_TEST_DATA) / "tokenizers";
}

std::vector<std::string> names() {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(tokenizers())) found.push_back(entry.path().filename().string());
    return found;
}

fs::path tokenizer_file(const std::string& name) {
    const fs::path tokenizer_json = tokenizers() / name / "tokenizer.json";
    return fs::exists(tokenizer_json) ? tokenizer_json : tokenizers() / name / "tokenizer.model";
}

class GoldenTokenizer : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTokenizer, AgreesWithTheReferenceBothWays) {
    const auto tokenizer = load_tokenizer_file(tokenizer_file(GetParam()));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    const auto expected = read_text_file(tokenizers() / GetParam() / "expected.json");
    ASSERT_TRUE(expected) << expected.error().message;
    const auto cases = nlohmann::json::parse(*expected);
    ASSERT_FALSE(cases.empty());
    for (const auto& test : cases) {
        const auto text = test.at("text").get<std::string>();
        const auto ids = test.at("ids").get<std::vector<TokenId>>();
        EXPECT_EQ(tokenizer->encode(text, {.add_special = false}), ids) << "text: " << text;
        EXPECT_EQ(tokenizer->decode(ids), test.at("decoded").get<std::string>()) << "text: " << text;
        if (test.at("decoded") == text) {  // nothing was left out
            EXPECT_LE(text.size(), ids.size() * tokenizer->longest_token_bytes()) << "text: " << text;
        }
        Detokenizer stream(*tokenizer);
        std::string streamed;
        for (const TokenId id : ids) streamed += stream.push(id);
        streamed += stream.finish();
        EXPECT_EQ(streamed, test.at("decoded").get<std::string>()) << "text: " << text;
    }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTokenizer, testing::ValuesIn(names()), [](const auto& param) {
    std::string name = param.param;
    std::replace_if(
        name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    return name;
});

}  // namespace

}  // namespace tandem::text
