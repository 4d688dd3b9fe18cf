#include "npu/calibration.h"

#include "npu/designs/attention.h"
#include "npu/designs/gemm.h"
#include "npu/designs/rows.h"
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

Result<std::string> table_row(std::string_view part, const Design& design, std::span<const Sample> samples = {}) {
    const Activity activity = TRY(foresee(design, samples));
    const Estimate made = estimate(activity, *find_array(design.array));
    return fmt::format("| {} | {:.1f} ms | {} | {} |\n", part, made.seconds() * 1e3, name(made.bound()),
                       made.macs > 0 ? fmt::format("{:.2f}", made.tops()) : "");
}

Result<std::string> product_row(int64_t k, int64_t n) {
    const GemmLayout layout = TRY(gemm_layout({.m = 1024, .k = k, .n = n}));
    const Design design = TRY(gemm_i8(layout));
    return table_row(fmt::format("int8 product {} -> {}", k, n), design);
}

}  // namespace

Result<std::string> block_table() {
    constexpr int64_t kTokens = 1024;
    constexpr int64_t kDim = 5376;
    constexpr int64_t kHidden = 21504;
    std::string text = "| part | time | bound | TOPS |\n|---|---|---|---|\n";
    for (const auto& [k, n] : {std::pair{kDim, int64_t{4096}}, std::pair{int64_t{4096}, kDim}, std::pair{kDim, kHidden},
                               std::pair{kHidden, kDim}})
        text += TRY(product_row(k, n));
    const AttentionLayout attention =
        TRY(attention_layout({.tokens = kTokens, .heads = 32, .kv_heads = 16, .head_dim = 128, .keys = kTokens}));
    const Design attends = TRY(attention_i8(attention));
    text += TRY(table_row("attention over 1024 keys, all of them seen", attends, attention_samples(attention)));
    const RowDesign norm = TRY(rms_norm_design({.rows = kTokens, .cols = kDim}));
    text += TRY(table_row("RMS norm", norm.design));
    const RowDesign rope = TRY(rope_design({.tokens = kTokens, .heads = 32, .head_dim = 128}));
    text += TRY(table_row("rope of the queries", rope.design));
    const RowDesign rounding = TRY(quantize_design({.rows = kTokens, .cols = kDim}));
    text += TRY(table_row("rounding to int8", rounding.design));
    const RowDesign glu = TRY(glu_design({.count = kTokens * kHidden}, 1));
    text += TRY(table_row("GELU GLU", glu.design));
    const RowDesign sum = TRY(add_design({.count = kTokens * kDim}));
    text += TRY(table_row("sum", sum.design));
    return text;
}

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
