#include "cli/run_arguments.h"

#include <algorithm>
#include <filesystem>

#include "engine/bundle.h"

namespace tandem::cli {

namespace {

bool names_a_model(const std::string& argument) {
    const auto models = engine::embedded_models();
    std::error_code ignored;
    return std::any_of(models.begin(), models.end(), [&](const auto& model) { return model.name == argument; }) ||
           std::filesystem::exists(argument, ignored);
}

std::string embedded_names() {
    std::string names;
    for (const auto& model : engine::embedded_models()) names += (names.empty() ? "" : ", ") + std::string(model.name);
    return names;
}

}  // namespace

Result<RunArguments> resolve_arguments(const std::vector<std::string>& arguments) {
    if (arguments.empty()) return RunArguments{};
    const std::string& first = arguments[0];
    if (arguments.size() == 1 && !names_a_model(first)) {
        if (first.find_first_of(" \t\n") != std::string::npos) return RunArguments{.prompt = first};
        return fail(
            "{}: no such file or directory, nor an embedded model ({}); for a prompt of one word name the model too",
            first, embedded_names());
    }
    RunArguments resolved{.model = first};
    if (arguments.size() > 1) resolved.prompt = arguments[1];
    return resolved;
}

}  // namespace tandem::cli
