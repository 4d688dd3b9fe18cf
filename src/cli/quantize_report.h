// What `tandem quantize` says of the file before it is written.
#pragma once

#include <string>

#include "models/export.h"

namespace tandem::cli {

// Every tensor, then the types with what they take, and the bits per weight.
std::string plan_tables(const models::ExportPlan& plan);

// Matrices whose rows are no whole blocks of the type that they should get; empty where there are none.
std::string unsuited_notice(const models::ExportPlan& plan);

// What an importance matrix has nothing on, or, where there is none, that so few bits want one; empty: nothing to say.
std::string importance_notice(const models::ExportPlan& plan, bool has_imatrix);

}  // namespace tandem::cli
