// What the MODEL of a command line means: a model inside the program, a path, or a model of this machine by its name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/bundle.h"
#include "hub/library.h"
#include "hub/reference.h"

namespace tandem::cli {

// The path of a model, or the name of an embedded one, for engine::open_bundle(). A name that is neither must be that
// of a model which is here: nothing is fetched.
Result<std::string> find_source(const std::string& model);
// The same, opened.
Result<format::Checkpoint> open_checkpoint(const std::string& model);
Result<engine::Bundle> open_bundle(const std::string& model);
// The same for a name that must not be a path: whoever has the model.
Result<hub::LocalModel> require_model(const std::string& name);

// Where a model could be fetched from: what the Hub has, an address, or a name of the catalog. Nothing: it is no such
// name.
Result<std::optional<hub::Reference>> find_remote(const std::string& name);

struct FetchOptions {
    bool anyway = false;  // also a model that is too large for this machine
    bool quiet = false;
};
// Fetches it, with a progress bar, and says where it is.
Result<hub::LocalModel> fetch_model(const std::string& name, const hub::Reference& reference,
                                    const FetchOptions& options);
// find_source(), but a name that is not here yet is fetched.
Result<std::string> find_or_fetch(const std::string& model, const FetchOptions& options);

// The largest model that a device of this machine could hold, in bytes.
uint64_t largest_model_bytes();

}  // namespace tandem::cli
