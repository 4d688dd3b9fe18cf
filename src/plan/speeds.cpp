#include "plan/speeds.h"

#include <algorithm>
#include <cmath>

namespace tandem::plan {

namespace {

double bits_per_weight(DType type) {
    return 8.0 * info(type).block_bytes / info(type).block;
}

// That of the type itself, else of the one with the most similar number of bits.
const ProductCurve* curve_for(const Speeds& speeds, DType type) {
    const auto distance = [&](const ProductCurve& curve) {
        return curve.type == type ? -1.0 : std::abs(std::log(bits_per_weight(curve.type) / bits_per_weight(type)));
    };
    const auto best = std::min_element(speeds.products.begin(), speeds.products.end(),
                                       [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
    return best == speeds.products.end() ? nullptr : &*best;
}

// A straight line between the points on either side; past the last one each row costs what the last ones did on
// average.
double seconds_per_byte(const ProductCurve& curve, double rows) {
    const std::vector<ProductPoint>& points = curve.points;
    if (rows >= points.back().rows) return points.back().seconds_per_byte * rows / points.back().rows;
    if (rows <= points.front().rows) return points.front().seconds_per_byte;
    const auto after =
        std::find_if(points.begin(), points.end(), [&](const ProductPoint& point) { return point.rows > rows; });
    const auto before = after - 1;
    const double along = (rows - before->rows) / (after->rows - before->rows);
    return before->seconds_per_byte + along * (after->seconds_per_byte - before->seconds_per_byte);
}

// Reading and computing overlap, but not wholly: by this power of both the products of an H200 come out within 8 % of
// what was measured of 1, 8, 32 and 512 rows (docs/plan.md).
constexpr double kOverlap = 1.7;

double by_shares(const Speeds& speeds, const graph::Work& work) {
    const double reads = speeds.rates.read_bytes_per_s * speeds.read_share;
    const double multiplies = speeds.rates.matrix_flops_per_s * speeds.matrix_share;
    const double reading = reads > 0 ? work.bytes / reads : 0;
    const double computing = multiplies > 0 ? work.flops / multiplies : 0;
    return std::pow(std::pow(reading, kOverlap) + std::pow(computing, kOverlap), 1 / kOverlap);
}

}  // namespace

double product_seconds(const Speeds& speeds, DType type, double rows, const graph::Work& work) {
    const ProductCurve* const curve = curve_for(speeds, type);
    if (curve == nullptr || curve->points.empty()) return by_shares(speeds, work);
    return work.bytes * seconds_per_byte(*curve, rows);
}

}  // namespace tandem::plan
