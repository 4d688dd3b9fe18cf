// Models that are fetched when they are not here yet.
#pragma once

#include <string>

#include "base/result.h"
#include "hub/library.h"
#include "hub/reference.h"

namespace tandem::cli {

struct FetchOptions {
    bool anyway = false;  // also a model that is too large for this machine
    bool quiet = false;
};
// Fetches it, with a progress bar, and says where it is.
Result<hub::LocalModel> fetch_model(const std::string& name, const hub::Reference& reference,
                                    const FetchOptions& options);
// user::find_source(), but a name that is not here yet is fetched.
Result<std::string> find_or_fetch(const std::string& model, const FetchOptions& options);

// The largest model that a device of this machine could hold, in bytes.
uint64_t largest_model_bytes();

}  // namespace tandem::cli
