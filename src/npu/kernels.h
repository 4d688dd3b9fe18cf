// The kernels of the array by name: what they take, how the host calls them, and what they cost.
//
// All buffers are in the memory of a tile and begin at a multiple of 64 bytes. All numbers are int32_t; a float that is
// passed as a number is passed as its bits. T(r,c) of a matrix [R][C] is [R/r][C/c][r][c]: blocks in rows, each
// of them row-major. A DMA makes T() of row-major rows on the way, as long as four bytes stay together.
//
// kernel                  what it does
//
// gemm_begin              remembers the header and the scales of a block in `block` (GemmBlock) and clears y
// gemm_add_RxSxT          y += x w of one object each, the rows that are there; x T(R,8) of [64][112], w T(8,8) of
//                         [112][64], y T(R,8) of [64][64]; R is 4 or 8, as the cores multiply
// gemm_end_RxSxT          y = y * row scale * column scale + bias, in place: sums of i32 become f32
//
// attention_begin         out = 0 and an empty state, before the first tile of keys; `count` gets how many there are
// attention_i8_tile       one tile of keys and values, in two objects behind an AttentionHeader each
//                           q        T(4,8) of [queries][head_dim], then q_scale [queries]
//                           k, v     T(8,8) of [keys][head_dim]: eight elements of a token lie together as in the
//                                    cache; then k_scale, v_scale [head_dim / 32][keys], not negative: one for 32
//                                    elements of a token
//                           out      T(4,8) of [queries][head_dim]; the sum is kept here between the tiles
//                           state    attention_state_floats(): handed from tile to tile, and the room that one needs
// attention_end           out /= the sum of the weights; zeros for a query that saw no key
//
// How exact: gemm_end multiplies floats as sums of three bfloat16, within 2^-21. Attention takes two; its products and
// powers of two are within 2^-14. Attention weights are uint8, 255 for the largest weight of a query in this tile; the
// powers they are made of are bfloat16, within 2^-7.
//
// What fits into a tile beside 1 KB of stack, with k, v and their scales twice: 16 queries and 32 keys of 256 elements
// (59 KB), 16 queries and 64 keys of 128 (52 KB), 32 queries and 32 keys of 128 (43 KB).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "npu/design.h"
#include "npu/kernels/attention_header.h"
#include "npu/kernels/gemm_header.h"

namespace tandem::npu {

// A buffer or a number.
struct KernelArgument {
    void* data = nullptr;
    int64_t size_bytes = 0;
    int32_t value = 0;
    bool is_value = false;
};

enum class ArgumentKind : uint8_t { number, input, output };  // an output may be read as well

struct KernelParameter {
    ArgumentKind kind = ArgumentKind::number;
    Element element = Element::i32;

    bool operator==(const KernelParameter&) const = default;
};

// What a core issues in a cycle of that call.
struct IssueRates {
    double matrix_products = 1;  // of 4x8x8 in int8; 2 where the kernel multiplies in the larger shape of the core
    double load_bytes = 64;      // 32 where two buffers that it reads side by side lie in one bank
};

// What a call did, counted while it ran on the host.
struct Counts {
    uint64_t macs = 0;
    uint64_t load_bytes = 0;
    uint64_t store_bytes = 0;
    uint64_t vector_ops = 0;  // one works on a register of 64 bytes
    uint64_t scalar_ops = 0;
    uint64_t matrix_cycles = 0;  // of `macs`, at the rate of their types: 256 a cycle for int8, 128 for bfloat16

    Counts& add(const Counts& other, uint64_t times = 1);

    bool operator==(const Counts&) const = default;

    // An estimate, calibrated to published figures: see kVectorEfficiency and kStoreGap. In one cycle a core issues two
    // loads and a store of 32 bytes, one operation of the vector unit (a matrix product is one as well) and one scalar
    // one; the busiest of these decides.
    uint64_t cycles(const IssueRates& rates = {}) const;
};

// Loops of matrix products issue one a cycle. Other vector code is less tight: the share of cycles it issues in.
inline constexpr double kVectorEfficiency = 0.45;
// Results are stored where a loop ends: there the pipeline drains and fills again. Cycles for each 32 bytes stored.
inline constexpr double kStoreGap = 2.5;

struct Kernel {
    std::string_view name;
    std::string_view source;     // in npu/kernels/: "matmul_i8.cc"
    std::string_view mmul = {};  // the shape it multiplies in: "4x8x8 i8"; none: no matrix products
    std::vector<KernelParameter> parameters = {};
    void (*call)(std::span<const KernelArgument>) = nullptr;
    // The sizes a kernel has no loop for, and buffers too small for the numbers; asked by check_call.
    Status (*check_sizes)(std::span<const KernelArgument>) = nullptr;
};

// The size of the state of attention.
constexpr int64_t attention_state_floats(int64_t queries, int64_t keys) {
    return 4 * ((queries + 15) / 16 * 16) + 3 * keys + queries * keys;
}

// The objects of attention_i8_tile.
constexpr int64_t attention_q_bytes(int64_t queries, int64_t head_dim) {
    return static_cast<int64_t>(sizeof(AttentionHeader)) + queries * head_dim + 4 * queries;
}
constexpr int64_t attention_kv_bytes(int64_t keys, int64_t head_dim) {
    return static_cast<int64_t>(sizeof(AttentionHeader)) + 2 * (keys * head_dim + keys * head_dim / 8);
}

std::span<const Kernel> all_kernels();
const Kernel* find_kernel(std::string_view name);  // nullptr: there is none

// Why a kernel must not be called so: another number or kind of arguments, alignment, sizes.
Status check_call(const Kernel& kernel, std::span<const KernelArgument> arguments);

// Calls it on the host, as on a core that has just started. The arguments must have passed check_call.
Counts run_kernel(const Kernel& kernel, std::span<const KernelArgument> arguments);

}  // namespace tandem::npu
