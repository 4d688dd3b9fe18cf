// Encoding single blocks of the types of low bits, of tables and of code books, each in a file of their own.
#pragma once

#include "format/encode_search.h"
#include "format/quant.h"

namespace tandem::format {

// encode_low_bits.cpp
void encode(Elements in, BlockQ2_K& b);
void encode(Elements in, BlockQ3_K& b);
void encode(Elements in, BlockTQ1_0& b);
void encode(Elements in, BlockTQ2_0& b);
void encode(Elements in, BlockQ2_0& b);
void encode(Elements in, BlockQ1_0& b);

// encode_table.cpp
void encode(Elements in, BlockIQ4_NL& b);
void encode(Elements in, BlockIQ4_XS& b);
void encode(Elements in, BlockMXFP4& b);
void encode(Elements in, BlockNVFP4& b);

// encode_grid.cpp
void encode(Elements in, BlockIQ3_S& b);
void encode(Elements in, BlockIQ3_XXS& b);
void encode(Elements in, BlockIQ2_S& b);
void encode(Elements in, BlockIQ2_XS& b);
void encode(Elements in, BlockIQ2_XXS& b);
void encode(Elements in, BlockIQ1_S& b);
void encode(Elements in, BlockIQ1_M& b);

}  // namespace tandem::format
