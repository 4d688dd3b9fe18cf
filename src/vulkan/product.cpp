#include "vulkan/product.h"

#include "vulkan/kernels/gemv.h"
#include "vulkan/kernels/matmul.h"
#include "vulkan/kernels/norm_act.h"
#include "vulkan/kernels/stream.h"
#include "vulkan/patterns.h"

namespace tandem::vulkan {

namespace {

// Few rows fill the device only when their inputs are split, and their partial sums are small.
uint32_t max_splits(uint32_t rows) {
    if (rows <= 64) return kMaxMatmulSplits;
    return rows <= 512 ? 4 : 2;
}

ActivationFormat format_of(const Product& product, const Tuning& tuning, uint32_t rows) {
    return activation_format(tuning, product.matrix.dtype, rows, product.matrix.cols);
}

MatmulCall matmul_call(const Product& product, uint32_t rows) {
    return {.dtype = product.matrix.dtype,
            .outputs = product.matrix.rows,
            .inputs = product.matrix.cols,
            .rows = rows,
            .glu = product.glu,
            .max_splits = product.partial ? max_splits(rows) : 1};
}

}  // namespace

ActivationFormat activation_format(const Tuning& tuning, DType weight, uint32_t rows, uint32_t cols) {
    const RowKind kind = row_kind(weight);
    const bool by_gemv = kind == RowKind::bytes || (kind == RowKind::looked_up && tuning.stream.empty());
    if (rows == 1 && by_gemv) return ActivationFormat::q8;
    return tuning.stream.empty() || cols % kMatrixInputs != 0 ? ActivationFormat::f16 : ActivationFormat::tiles;
}

uint32_t product_splits(const Product& product, const Tuning& tuning, uint32_t rows) {
    switch (format_of(product, tuning, rows)) {
        case ActivationFormat::tiles:
            return stream_splits(tuning, matmul_call(product, rows));
        case ActivationFormat::f16:
            return matmul_splits(tuning, matmul_call(product, rows));
        default:
            return 1;
    }
}

uint64_t partial_bytes(const Product& product, const Tuning& tuning, uint32_t rows) {
    return uint64_t{product_splits(product, tuning, rows)} * rows * product.outputs() * sizeof(float);
}

Status record_product(Recorder& rec, const Product& product, uint32_t rows, const StageArgs& args) {
    const VkDeviceAddress bias = product.bias == kNone ? 0 : args.weight(product.bias).planes[Planes::quants];
    const Access y = args.value(product.y);
    const ActivationFormat format = format_of(product, args.tuning, rows);
    if (format == ActivationFormat::q8) {
        const GemvTuning& tuning =
            gemv_tuning(args.tuning, product.outputs(), product.matrix.cols, product.glu.has_value());
        return record_gemv(rec, tuning, args.capabilities,
                           {.dtype = product.matrix.dtype,
                            .weight = args.weight(product.weight),
                            .outputs = product.outputs(),
                            .inputs = product.matrix.cols,
                            .x = args.value(product.x),
                            .bias = bias,
                            .glu = product.glu,
                            .y = y});
    }
    MatmulCall call = matmul_call(product, rows);
    call.weight = args.weight(product.weight);
    call.x = args.value(product.x).begin;
    call.bias = bias;
    call.y_tiles = product.glu && bias == 0 && call.weight.bounds != 0 && format == ActivationFormat::tiles &&
                   product.outputs() % kMatrixInputs == 0;
    call.y = product.glu && !call.y_tiles ? args.value(product.scratch).begin : y.begin;
    const auto record = format == ActivationFormat::tiles ? record_stream : record_matmul;
    TRY(record(rec, args.tuning, args.capabilities, call));
    if (!product.glu || call.y_tiles) return Ok{};
    return record_norm_act(rec, args.capabilities,
                           {.x = args.value(product.scratch),
                            .rows = rows,
                            .cols = product.outputs(),
                            .format = activation_format(args.tuning, product.matrix.dtype, rows, product.outputs()),
                            .y = y});
}

}  // namespace tandem::vulkan
