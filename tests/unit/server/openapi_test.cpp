#include "server/openapi.h"

#include <gtest/gtest.h>

#include <set>

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

// A request with what it cannot do without.
Json least_request(const std::string& path) {
    if (path == "/v1/completions") return {{"prompt", "x"}};
    if (path == "/v1/embeddings" || path == "/v1/responses") return {{"input", "x"}};
    Json body = {{"model", "x"}, {"max_tokens", 1}, {"messages", {{{"role", "user"}, {"content", "x"}}}}};
    if (path == "/api/embeddings") body["prompt"] = "x";
    if (path == "/v1/chat/completions") body["logprobs"] = true;  // without it top_logprobs is refused anyway
    return body;
}

TEST(OpenApi, DescribesFieldsThatAreRead) {
    const Json document = Json::parse(openapi());
    for (const Route& route : routes()) {
        if (route.dialect == nullptr) continue;
        const std::string path(route.path);
        const Json& schema =
            document.at("paths").at(path).at("post")["requestBody"]["content"]["application/json"]["schema"];
        ASSERT_TRUE(route.dialect->parse(least_request(path))) << path;
        for (const auto& property : properties_of(document, schema).items()) {
            bool refused = false;
            for (const Json& value : {Json(-7.5), Json{{"no", "such"}}}) {
                Json body = least_request(path);
                body[property.key()] = value;
                const Reply<Ask> ask = route.dialect->parse(body);
                refused |= !ask || !check(*ask);
            }
            EXPECT_TRUE(refused) << path << ": " << property.key() << " may be anything, so nobody reads it";
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
