// What the two positional arguments of `run` mean.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace tandem::cli {

struct RunArguments {
    std::string model{};  // empty: the default
    std::optional<std::string> prompt{};
};

// [MODEL] [PROMPT]. A single argument that is no model but has a space in it is a prompt for the default model.
Result<RunArguments> resolve_arguments(const std::vector<std::string>& arguments);

}  // namespace tandem::cli
