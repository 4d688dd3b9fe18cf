// Decoding single blocks of the types that are made of points of code books.
#pragma once

#include "format/quant.h"

namespace tandem::format {

void decode(const BlockIQ3_S& b, float* out);
void decode(const BlockIQ3_XXS& b, float* out);
void decode(const BlockIQ2_S& b, float* out);
void decode(const BlockIQ2_XS& b, float* out);
void decode(const BlockIQ2_XXS& b, float* out);
void decode(const BlockIQ1_S& b, float* out);
void decode(const BlockIQ1_M& b, float* out);

}  // namespace tandem::format
