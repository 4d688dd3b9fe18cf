// Standard input, read whole.
#pragma once

#include <string>

#include "base/result.h"

namespace tandem::cli {

// Every byte until its end; nothing when it is closed.
Result<std::string> read_standard_input();

}  // namespace tandem::cli
