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
