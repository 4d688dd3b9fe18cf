#include "npu/calibration.h"

#include "npu/designs/attention.h"
#include "npu/designs/gemm.h"
#include "npu/estimate.h"

namespace tandem::npu {
namespace {

// What a core makes of a block that others chose: `k` columns at a time of 64 x 64 sums, which it loads before and
// stores after. The same counts as of gemm_add, whose sizes are fixed.
double macs_per_cycle(int64_t k) {
    constexpr int64_t kSide = 64;
    const auto macs = static_cast<uint64_t>(kSide * kSide * k);
    const Counts counts{.macs = macs,
                        .load_bytes = static_cast<uint64_t>(kSide * kSide * 4 + kSide * k * (kSide / 16 + kSide / 8)),
                        .store_bytes = static_cast<uint64_t>(kSide * kSide * 4),
                        .vector_ops = static_cast<uint64_t>(kSide * kSide / 16),  // sums into accumulators
                        .matrix_cycles = macs / 256};
    return static_cast<double>(macs) / static_cast<double>(counts.cycles());
}

double tops(double macs_of_cycle) {
    const Array& array = *find_array("npu1");
    return 2 * macs_of_cycle * array.compute_tiles() * array.clock_mhz * 1e-6;
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
    return table_row(fmt::format("int8 product {} -> {}", k, n), design, gemm_samples(layout, layout.m));
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
    return text;
}

std::vector<CalibrationRow> calibration() {
    return {{.what = "npu1, int8 product, blocks of 64 x 64 x 64",
             .source = "mlir-aie, whole-array example: 4.4 to 4.6",
             .published = 4.5,
             .modelled = tops(macs_per_cycle(64)),
             .unit = "TOPS"},
            {.what = "npu1, int8 product, largest blocks that fit",
             .source = "arXiv 2512.13282, tuned",
             .published = 6.76,
             .modelled = tops(macs_per_cycle(120)),
             .unit = "TOPS"},
            {.what = "npu1, a production kernel, products a cycle",
             .source = "published trace: about 107 of 256",
             .published = 107,
             .modelled = macs_per_cycle(64),
             .unit = "a cycle"}};
}

std::string calibration_table(const std::vector<CalibrationRow>& rows) {
    std::string text = "| what | published | by | modelled | error |\n|---|---|---|---|---|\n";
    for (const CalibrationRow& row : rows)
        text += fmt::format("| {} | {:.2f} {} | {} | {:.2f} {} | {:+.1f} % |\n", row.what, row.published, row.unit,
                            row.source, row.modelled, row.unit, row.error() * 100);
    return text;
}

}  // namespace tandem::npu
