// Speeds: what a device reaches with Tandem's kernels, from which the time of any step is forecast.
#pragma once

#include <vector>

#include "base/dtype.h"
#include "device/rates.h"
#include "graph/work.h"

namespace tandem::plan {

// Products of so many rows take so long for a byte of weights.
struct ProductPoint {
    int rows = 1;
    double seconds_per_byte = 0;
};

struct ProductCurve {
    DType type = DType::f32;
    std::vector<ProductPoint> points;  // by rising rows
};

struct Speeds {
    device::Rates rates;                      // at best; no step is faster than these allow
    double read_share = 1;                    // of the read rate, that products of one row reach where no curve tells
    double matrix_share = 1;                  // of the matrix rate, likewise for many rows
    double dispatch_s = 0;                    // of a part of one row that waits for the one before, whatever it does
    double dispatch_growth_s = 0;             // that it takes longer for each doubling of the rows
    double attention_s = 0;                   // of attention, beside that
    double attention_bytes_per_s = 0;         // of the cache; 0: the read rate
    double attention_flops_per_s = 0;         // of prompts; 0: the matrix rate
    double attention_row_flops_per_s = 0;     // of single rows; 0: reading alone counts
    double activation_bytes_per_s = 0;        // that other ops read and write; 0: the read rate
    std::vector<ProductCurve> products = {};  // as measured; none: by the shares
};

// Of products with weights of a type: `work` is theirs, `rows` the rows that share a read of the weights.
double product_seconds(const Speeds& speeds, DType type, double rows, const graph::Work& work);

}  // namespace tandem::plan
