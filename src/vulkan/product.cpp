#include "vulkan/product.h"

#include "vulkan/kernels/gemv.h"
#include "vulkan/kernels/matmul.h"
#include "vulkan/kernels/norm_act.h"
#include "vulkan/patterns.h"

namespace tandem::vulkan {

namespace {

bool by_gemv(const Product& product, uint32_t rows) {
    return activation_format(product.matrix.dtype, rows) == ActivationFormat::q8;
}

MatmulCall matmul_call(const Product& product, uint32_t rows) {
    return {.dtype = product.matrix.dtype,
            .outputs = product.matrix.rows,
            .inputs = product.matrix.cols,
            .rows = rows,
            .glu = product.glu,
            .max_splits = product.partial ? kMaxMatmulSplits : 1};
}

}  // namespace

ActivationFormat activation_format(DType weight, uint32_t rows) {
    return rows == 1 && !is_plain(weight) ? ActivationFormat::q8 : ActivationFormat::f16;
}

uint32_t product_splits(const Product& product, const Tuning& tuning, uint32_t rows) {
    return by_gemv(product, rows) ? 1 : matmul_splits(tuning, matmul_call(product, rows));
}

uint64_t partial_bytes(uint32_t rows, uint32_t outputs) {
    const uint64_t splits = rows <= 64 ? kMaxMatmulSplits : 1;
    return splits * rows * outputs * sizeof(float);
}

Status record_product(Recorder& rec, const Product& product, uint32_t rows, const StageArgs& args) {
    const VkDeviceAddress bias = product.bias == kNone ? 0 : args.weight(product.bias).planes[Planes::quants];
    const Access y = args.value(product.y);
    if (by_gemv(product, rows)) {
        return record_gemv(rec, args.tuning.gemv, args.capabilities,
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
    call.y = product.glu ? args.value(product.scratch).begin : y.begin;
    TRY(record_matmul(rec, args.tuning, args.capabilities, call));
    if (!product.glu) return Ok{};
    return record_norm_act(rec, args.capabilities,
                           {.x = args.value(product.scratch),
                            .rows = rows,
                            .cols = product.outputs(),
                            .format = ActivationFormat::f16,
                            .y = y});
}

}  // namespace tandem::vulkan
