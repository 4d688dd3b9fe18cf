#include "server/openapi.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/file.h"
#include "server/ollama.h"
#include "server/routes.h"

namespace tandem::server {
namespace {

// "GET /v1/models/{model}"
std::set<std::string> described() {
    std::set<std::string> all;
    const Json document = Json::parse(openapi());
    for (const auto& path : document.at("paths").items()) {
        for (const auto& operation : path.value().items()) {
            std::string method = operation.key();
            for (char& c : method) c = static_cast<char>(c - 'a' + 'A');
            all.insert(method + " " + path.key());
        }
    }
    return all;
}

std::set<std::string> served() {
    std::set<std::string> all;
    for (const Route& route : routes()) {
        if (route.path == "/*") continue;  // files of the page
        std::string path(route.path);
        if (path.ends_with("/*")) path.replace(path.size() - 1, 1, "{model}");
        all.insert(std::string(route.method) + " " + path);
    }
    return all;
}

// Every "$ref" in a part of the document.
void collect_references(const Json& part, std::set<std::string>& references) {
    if (part.is_object() && part.contains("$ref")) references.insert(part.at("$ref").get<std::string>());
    if (!part.is_structured()) return;
    for (const Json& inner : part) collect_references(inner, references);
}

TEST(OpenApi, DescribesWhatIsServed) {
    EXPECT_EQ(described(), served());
}

TEST(OpenApi, HasEverythingItRefersTo) {
    const Json document = Json::parse(openapi());
    std::set<std::string> references;
    collect_references(document, references);
    EXPECT_GT(references.size(), 20U);
    for (const std::string& reference : references) {
        ASSERT_EQ(reference.rfind("#/", 0), 0U) << reference;
        EXPECT_TRUE(document.contains(Json::json_pointer(reference.substr(1)))) << reference;
    }
    for (const auto& schema : document.at("components").at("schemas").items())
        EXPECT_TRUE(references.contains("#/components/schemas/" + schema.key())) << schema.key() << " is not used";
}

// The properties of a schema that may be a reference.
const Json& properties_of(const Json& document, const Json& schema) {
    const auto reference = schema.find("$ref");
    if (reference == schema.end()) return schema.at("properties");
    return document.at(Json::json_pointer(reference->get<std::string>().substr(1))).at("properties");
}

std::set<std::string> names_of(const FieldRules& rules, bool are_read) {
    std::set<std::string> names;
    for (const FieldRule& rule : rules) {
        if ((rule.read != nullptr) != are_read) continue;
        EXPECT_TRUE(names.insert(rule.name).second) << rule.name << " twice";
    }
    return names;
}

std::set<std::string> keys_of(const Json& object) {
    std::set<std::string> keys;
    for (const auto& item : object.items()) keys.insert(item.key());
    return keys;
}

TEST(OpenApi, DescribesTheFieldsThatAreRead) {
    const Json document = Json::parse(openapi());
    for (const Route& route : routes()) {
        if (route.dialect == nullptr) continue;
        const std::string path(route.path);
        const Json& schema =
            document.at("paths").at(path).at("post")["requestBody"]["content"]["application/json"]["schema"];
        EXPECT_EQ(keys_of(properties_of(document, schema)), names_of(route.dialect->fields(), true)) << path;
    }
    std::set<std::string> options = names_of(ollama_option_fields(), true);
    options.insert("num_ctx");  // said to be ignored
    EXPECT_EQ(keys_of(document.at("components").at("schemas").at("OllamaOptions").at("properties")), options);
}

// A request with what it cannot do without.
Json least_request(const std::string& path) {
    if (path == "/v1/completions") return {{"prompt", "x"}};
    if (path == "/v1/embeddings" || path == "/v1/responses") return {{"input", "x"}};
    Json body = {{"model", "x"}};
    if (path == "/v1/messages") body["max_tokens"] = 1;
    if (path == "/api/embed") return body;
    if (path == "/api/generate" || path == "/api/embeddings") {
        body["prompt"] = "x";
    } else {
        body["messages"] = {{{"role", "user"}, {"content", "x"}}};
    }
    return body;
}

// Neither by its type nor by its value: nobody looks at such a field.
TEST(OpenApi, NoFieldIsReadWithoutEffect) {
    for (const Route& route : routes()) {
        if (route.dialect == nullptr) continue;
        const std::string path(route.path);
        ASSERT_TRUE(route.dialect->parse(least_request(path))) << path;
        for (const std::string& name : names_of(route.dialect->fields(), true)) {
            bool refused = false;
            for (const Json& value : {Json(-7.5), Json{{"no", "such"}}}) {
                Json body = least_request(path);
                if (path == "/v1/chat/completions")
                    body["logprobs"] = true;  // without it top_logprobs is refused anyway
                if (name == "repeat_last_n") body["repetition_penalty"] = 2;
                body[name] = value;
                const Reply<Ask> ask = route.dialect->parse(body);
                refused |= !ask || !check(*ask);
            }
            EXPECT_TRUE(refused) << path << ": " << name << " may be anything";
        }
    }
}

TEST(OpenApi, WhatIsNotReadIsRefusedOrIgnoredByIntention) {
    for (const Route& route : routes()) {
        if (route.dialect == nullptr) continue;
        const std::string path(route.path);
        for (const FieldRule& rule : route.dialect->fields()) {
            if (rule.read != nullptr) continue;
            Json body = least_request(path);
            body[rule.name] = "something";
            const Reply<Ask> ask = route.dialect->parse(body);
            const bool is_ignored = rule.treatment == FieldRule::Treatment::ignored;
            EXPECT_EQ(static_cast<bool>(ask), is_ignored) << path << ": " << rule.name;
            EXPECT_EQ(ask ? rule.name : ask.error().param, rule.name);
            body[rule.name] = rule.neutral.empty() ? Json(nullptr) : Json::parse(rule.neutral);
            EXPECT_TRUE(route.dialect->parse(body)) << path << ": " << rule.name << " asks for nothing";
        }
        Json body = least_request(path);
        body["temprature"] = 0;
        const Reply<Ask> ask = route.dialect->parse(body);
        const bool passes_over = path.starts_with("/api/");  // as Ollama does
        EXPECT_EQ(static_cast<bool>(ask), passes_over) << path;
        EXPECT_EQ(ask ? "temprature" : ask.error().param, "temprature");
    }
}

TEST(OpenApi, WhatIsIgnoredIsListed) {
    const Result<std::string> page = read_text_file(std::filesystem::path(TANDEM_SOURCE_DIR) / "docs/server.md");
    ASSERT_TRUE(page) << page.error().message;
    std::vector<const FieldRules*> lists = {&ollama_option_fields()};
    for (const Route& route : routes()) {
        if (route.dialect != nullptr) lists.push_back(&route.dialect->fields());
    }
    for (const FieldRules* const rules : lists) {
        for (const FieldRule& rule : *rules) {
            if (rule.treatment != FieldRule::Treatment::ignored) continue;
            EXPECT_NE(page->find(fmt::format("`{}`", rule.name)), std::string::npos) << rule.name;
        }
    }
}

TEST(OpenApi, SaysWhichRoutesNeedNoKey) {
    const Json document = Json::parse(openapi());
    for (const Route& route : routes()) {
        if (route.path.ends_with("/*")) continue;
        const Json& operation = document.at("paths").at(std::string(route.path)).front();
        EXPECT_EQ(operation.contains("security"), route.access == Access::open) << route.path;
    }
}

}  // namespace
}  // namespace tandem::server
