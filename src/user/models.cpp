#include "user/models.h"

#include <algorithm>
#include <filesystem>

#include "hub/catalog.h"
#include "user/nearest.h"

namespace tandem::user {

namespace {

std::vector<std::string_view> embedded_names() {
    std::vector<std::string_view> names;
    for (const auto& model : engine::embedded_models()) names.push_back(model.name);
    return names;
}

Error not_here(const std::string& name) {
    std::vector<std::string> names;
    for (const engine::EmbeddedModel& model : engine::embedded_models()) names.emplace_back(model.name);
    const std::string embedded = fmt::format("{}", fmt::join(names, ", "));
    for (const hub::LocalModel& model : hub::find_models(hub::find_places())) names.push_back(model.name);
    for (const hub::CatalogEntry& entry : hub::catalog()) names.emplace_back(entry.name);
    const std::vector<std::string_view> candidates(names.begin(), names.end());
    return fail("{}: no such file or directory, nor an embedded model ({}) or another that is here (tandem list){}",
                name, embedded, suggestion(name, candidates));
}

}  // namespace

bool names_a_model(const std::string& argument) {
    const auto names = embedded_names();
    std::error_code ignored;
    return std::find(names.begin(), names.end(), argument) != names.end() || std::filesystem::exists(argument, ignored);
}

Result<std::optional<hub::Reference>> find_remote(const std::string& name) {
    if (const hub::CatalogEntry* const entry = hub::find_in_catalog(name)) {
        return std::optional(hub::Reference{.repo = std::string(entry->repo)});
    }
    return hub::parse_reference(name, hub::find_places().endpoint);
}

Result<hub::LocalModel> require_model(const std::string& name) {
    const hub::Places places = hub::find_places();
    if (const std::optional<hub::LocalModel> found = hub::find_model(places, name)) return *found;
    const hub::CatalogEntry* const entry = hub::find_in_catalog(name);
    if (entry != nullptr) {
        if (const std::optional<hub::LocalModel> found = hub::find_model(places, entry->repo)) return *found;
    }
    const std::optional<hub::Reference> remote = TRY(find_remote(name));
    if (remote) return fail("{} is not here: `tandem pull {}` fetches it", name, name);
    return not_here(name);
}

Result<std::string> find_source(const std::string& model) {
    if (model.empty() || names_a_model(model)) return model;
    return TRY(require_model(model)).path.string();
}

Result<format::Checkpoint> open_checkpoint(const std::string& model) {
    const std::string source = TRY(find_source(model));
    return engine::open_checkpoint(source);
}

Result<engine::Bundle> open_bundle(const std::string& model) {
    const std::string source = TRY(find_source(model));
    return engine::open_bundle(source);
}

}  // namespace tandem::user
