#include "npu/rates.h"

#include "npu/memory_map.h"

namespace tandem::npu {
namespace {

constexpr double kCountedMacs = 256;  // Counts::matrix_cycles: at so many int8 products a cycle

std::string buffer_name(const std::variant<ObjectArgument, BufferArgument, int32_t>& argument) {
    if (const auto* object = std::get_if<ObjectArgument>(&argument)) return object->fifo;
    if (const auto* buffer = std::get_if<BufferArgument>(&argument)) return buffer->buffer;
    return "";
}

}  // namespace

// Two loads of 32 bytes a cycle: where a matrix product reads both operands from one bank, one.
IssueRates issue_rates(const Design& design, const Worker& worker, const Array& array, const Call& call,
                       const Kernel& kernel) {
    IssueRates rates{.matrix_products = 1, .load_bytes = static_cast<double>(array.local_load_bytes_per_cycle)};
    if (kernel.mmul.empty()) return rates;
    if (kernel.mmul == fmt::format("{}x8x8 i8", array.native_rows_i8))
        rates.matrix_products = array.macs_per_cycle_i8 / kCountedMacs;
    const std::string left = buffer_name(call.arguments[0]);
    const std::string right = buffer_name(call.arguments[1]);
    if (left != right && share_a_bank(memory_map(design, array, worker.tile), array, left, right))
        rates.load_bytes /= 2;
    return rates;
}

}  // namespace tandem::npu
