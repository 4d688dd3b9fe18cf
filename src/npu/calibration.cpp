#include "npu/calibration.h"

#include "npu/designs/gemm.h"
#include "npu/estimate.h"

namespace tandem::npu {
namespace {

// The sums of a large product with objects of `tile_k`, on the whole array: what others measured.
Result<Estimate> large_product(std::string array, int64_t tile_k) {
    GemmLayout layout = TRY(gemm_layout({.m = 4096, .k = 4096, .n = 4096, .array = std::move(array), .scaled = false}));
    layout.tile_k = tile_k;
    layout.k = (4096 + tile_k - 1) / tile_k * tile_k;
    const Design design = TRY(gemm_i8(layout));
    const Activity activity = TRY(foresee(design));
    return estimate(activity, *find_array(layout.array));
}

}  // namespace

Result<std::vector<CalibrationRow>> calibration() {
    constexpr int64_t kStockTileK = 64;
    constexpr int64_t kTunedTileK = 120;  // what fits beside double buffers
    const Estimate stock = TRY(large_product("npu1", kStockTileK));
    const Estimate tuned = TRY(large_product("npu1", kTunedTileK));
    return std::vector<CalibrationRow>{
        {.what = "npu1, int8 product, blocks of 64 x 64 x 64",
         .source = "mlir-aie, whole-array example: 4.4 to 4.6",
         .published = 4.5,
         .modelled = stock.tops(),
         .unit = "TOPS"},
        {.what = fmt::format("npu1, int8 product, blocks of 64 x {} x 64", kTunedTileK),
         .source = "arXiv 2512.13282, tuned",
         .published = 6.76,
         .modelled = tuned.tops(),
         .unit = "TOPS"},
    };
}

std::string calibration_table(const std::vector<CalibrationRow>& rows) {
    std::string text = "| what | published | by | modelled | error |\n|---|---|---|---|---|\n";
    for (const CalibrationRow& row : rows)
        text += fmt::format("| {} | {:.2f} {} | {} | {:.2f} {} | {:+.1f} % |\n", row.what, row.published, row.unit,
                            row.source, row.modelled, row.unit, row.error() * 100);
    return text;
}

}  // namespace tandem::npu
