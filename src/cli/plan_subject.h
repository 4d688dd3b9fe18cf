// The model that `tandem plan` speaks of: one that is here, a shape, or a name of the list of models to fetch. Its
// weights are not read.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "format/checkpoint.h"
#include "models/model.h"
#include "models/synthetic.h"

namespace tandem::cli {

// The Program of a model, and what it points into.
struct PlannedModel {
    std::string name;
    std::string what;          // "a file", "a shape of Q4_K_M": what was looked at
    models::MemoryFile empty;  // of a shape
    std::unique_ptr<format::Checkpoint> checkpoint;
    models::Model model;
};

// With a type: as if it had been quantized to that, which a shape is made in.
Result<PlannedModel> open_planned(const std::string& name, std::optional<DType> type);

// The shape that a name of the catalog is planned as: "gemma3:4b" is gemma3-4b. Null: there is none.
const models::NamedShape* shape_of_catalog(std::string_view name);
// A shape by itself, in the types that it is mostly used in.
Result<PlannedModel> open_shape(const models::NamedShape& shape, const std::string& name);

// The same Program as it would be with all its matrices in a type.
graph::Program with_type(const graph::Program& program, DType type);

}  // namespace tandem::cli
