// What the name of a model means: one inside the program, a path, or a model of this machine.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "engine/bundle.h"
#include "hub/library.h"
#include "hub/reference.h"

namespace tandem::user {

// An embedded model, or a path where something is.
bool names_a_model(const std::string& argument);

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

}  // namespace tandem::user
