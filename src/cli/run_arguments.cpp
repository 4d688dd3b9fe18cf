#include "cli/run_arguments.h"

#include "user/models.h"

namespace tandem::cli {

Result<RunArguments> resolve_arguments(const std::vector<std::string>& arguments) {
    if (arguments.empty()) return RunArguments{};
    const std::string& first = arguments[0];
    if (arguments.size() == 1 && !user::names_a_model(first)) {
        if (first.find_first_of(" \t\n") != std::string::npos) return RunArguments{.prompt = first};
        const Result<hub::LocalModel> here = user::require_model(first);
        const std::optional<hub::Reference> remote = TRY(user::find_remote(first));
        if (!here && !remote) return fail("{}; for a prompt of one word name the model too", here.error().message);
    }
    RunArguments resolved{.model = first};
    if (arguments.size() > 1) resolved.prompt = arguments[1];
    return resolved;
}

}  // namespace tandem::cli
