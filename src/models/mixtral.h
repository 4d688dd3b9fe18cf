// The experts of Mixtral, whose GGUF files say that they are a Llama.
#pragma once

#include "models/experts.h"

namespace tandem::models {

ExpertConfig read_mixtral_experts(Settings& settings, int ffn_dim);

}  // namespace tandem::models
