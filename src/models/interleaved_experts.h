// Experts as gpt-oss checkpoints of transformers have them: rows of gate and up in turn in one tensor, as MXFP4 codes
// and scales in tensors of their own or as numbers with rows and columns exchanged. They become what a GGUF file has.
#pragma once

#include "models/experts.h"

namespace tandem::models {

void bind_interleaved_experts(Binder& binder, int layer, const ExpertConfig& cfg, int dim, ExpertLayer& to);

}  // namespace tandem::models
