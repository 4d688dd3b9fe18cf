// Rates: what hardware does at best, the limits that a Program's speed is compared with.
#pragma once

namespace tandem::device {

struct Rates {
    double read_bytes_per_s = 0;
    double matrix_flops_per_s = 0;  // of f16 products with f32 sums; 0: not known
    double cache_bytes = 0;         // what is read again and fits is not limited by reading; 0: not known
};

}  // namespace tandem::device
