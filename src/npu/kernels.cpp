#include "npu/kernels.h"

#include <aie_api/machine.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "base/check.h"

extern "C" {
void gemm_begin(const int8_t*, const int8_t*, int32_t*, int32_t*);
void gemm_add_4x8x8(const int8_t*, const int8_t*, int32_t*, const int32_t*);
void gemm_end_4x8x8(int32_t*, const int32_t*);
void gemm_add_8x8x8(const int8_t*, const int8_t*, int32_t*, const int32_t*);
void gemm_end_8x8x8(int32_t*, const int32_t*);
void attention_begin(const int8_t*, float*, float*, int32_t*, int32_t, int32_t);
void attention_i8_tile(const int8_t*, const int8_t*, float*, float*, int32_t, int32_t, int32_t);
void attention_end(float*, float*, int32_t, int32_t);
}

namespace tandem::npu {
namespace {

using Arguments = std::span<const KernelArgument>;

template <typename T>
constexpr Element element_of() {
    if constexpr (std::is_same_v<T, int8_t>) return Element::i8;
    if constexpr (std::is_same_v<T, int32_t>) return Element::i32;
    if constexpr (std::is_same_v<T, float>) return Element::f32;
}

template <typename T>
constexpr KernelParameter parameter() {
    if constexpr (std::is_pointer_v<T>) {
        using Pointed = std::remove_pointer_t<T>;
        return {.kind = std::is_const_v<Pointed> ? ArgumentKind::input : ArgumentKind::output,
                .element = element_of<std::remove_const_t<Pointed>>()};
    } else {
        static_assert(std::is_same_v<T, int32_t>);
        return {};
    }
}

template <typename T>
T pass(const KernelArgument& argument) {
    if constexpr (std::is_pointer_v<T>) {
        return static_cast<T>(argument.data);
    } else {
        return argument.value;
    }
}

// The list of parameters and the call of a function, from its type.
template <auto kFunction, typename... Args>
Kernel bind(void (*)(Args...), Kernel kernel) {
    kernel.parameters = {parameter<Args>()...};
    kernel.call = [](Arguments arguments) {
        [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
            kFunction(pass<Args>(arguments[kIndex])...);
        }
        (std::index_sequence_for<Args...>());
    };
    return kernel;
}

template <auto kFunction>
Kernel describe(Kernel kernel) {
    return bind<kFunction>(kFunction, std::move(kernel));
}

// --- sizes

Status check_multiple(std::string_view name, int32_t value, int32_t of) {
    if (value >= 0 && value % of == 0) return Ok{};
    return fail("{} is {}: a multiple of {} is needed", name, value, of);
}

// The buffers, in the order of the arguments, must have these many bytes.
Status check_bytes(Arguments arguments, std::initializer_list<int64_t> needed) {
    const auto* bytes = needed.begin();
    for (size_t i = 0; i < arguments.size(); ++i) {
        if (arguments[i].is_value) continue;
        if (arguments[i].size_bytes < *bytes) {
            return fail("argument {} has {} bytes: {} are needed", i, arguments[i].size_bytes, *bytes);
        }
        ++bytes;
    }
    return Ok{};
}

constexpr int64_t kGemmXBytes = int64_t{kGemmRows} * kGemmInner;
constexpr int64_t kGemmWBytes = int64_t{kGemmColumns} * kGemmInner;
constexpr int64_t kGemmYBytes = int64_t{4} * kGemmRows * kGemmColumns;
constexpr int64_t kGemmBlockBytes = sizeof(GemmBlock);

Status check_gemm_rows(const GemmHeader& header) {
    if (header.rows >= 0 && header.rows <= kGemmRows && header.rows % 16 == 0) return Ok{};
    return fail("a block of {} rows: 0, 16, 32, 48 or {} can be", header.rows, kGemmRows);
}

Status check_gemm_begin(Arguments arguments) {
    TRY(check_bytes(arguments, {kGemmXBytes, kGemmWBytes, kGemmYBytes, kGemmBlockBytes}));
    const auto* header = static_cast<const GemmHeader*>(arguments[0].data);
    if (header->objects < 1) return fail("{} objects in a block: there is at least one", header->objects);
    return check_gemm_rows(*header);
}

Status check_gemm_add(Arguments arguments) {
    TRY(check_bytes(arguments, {kGemmXBytes, kGemmWBytes, kGemmYBytes, kGemmBlockBytes}));
    return check_gemm_rows(static_cast<const GemmBlock*>(arguments[3].data)->header);
}

Status check_gemm_end(Arguments arguments) {
    return check_bytes(arguments, {kGemmYBytes, kGemmBlockBytes});
}

// Of the state only what stays between steps.
Status check_attention_end(Arguments arguments) {
    const int64_t queries = arguments[2].value;
    const int64_t head_dim = arguments[3].value;
    TRY(check_multiple("queries", arguments[2].value, 8));
    TRY(check_multiple("head_dim", arguments[3].value, 32));
    return check_bytes(arguments, {4 * queries * head_dim, 4 * attention_state_floats(queries, 0)});
}

Status check_attention_begin(Arguments arguments) {
    const int64_t queries = arguments[4].value;
    const int64_t head_dim = arguments[5].value;
    TRY(check_multiple("queries", arguments[4].value, 8));
    TRY(check_multiple("head_dim", arguments[5].value, 32));
    TRY(check_bytes(arguments, {attention_q_bytes(queries, head_dim), 4 * queries * head_dim,
                                4 * attention_state_floats(queries, 0), sizeof(int32_t)}));
    const int32_t tiles = static_cast<const AttentionHeader*>(arguments[0].data)->key_tiles;
    if (tiles < 0) return fail("{} tiles of keys follow", tiles);
    return Ok{};
}

Status check_attention_tile(Arguments arguments) {
    const int64_t queries = arguments[4].value;
    const int64_t keys = arguments[5].value;
    const int64_t head_dim = arguments[6].value;
    TRY(check_multiple("queries", arguments[4].value, 8));
    TRY(check_multiple("keys", arguments[5].value, 16));
    TRY(check_multiple("head_dim", arguments[6].value, 32));
    TRY(check_bytes(arguments, {attention_q_bytes(queries, head_dim), attention_kv_bytes(keys, head_dim),
                                4 * queries * head_dim, 4 * attention_state_floats(queries, keys)}));
    const auto* of_queries = static_cast<const AttentionHeader*>(arguments[0].data);
    const auto* of_keys = static_cast<const AttentionHeader*>(arguments[1].data);
    if (of_queries->group < 1) return fail("group is {}: one row for each token is the least", of_queries->group);
    if (of_keys->key_count > keys) return fail("{} keys in a tile of {}", of_keys->key_count, keys);
    return Ok{};
}

const std::vector<Kernel>& table() {
    static const std::vector<Kernel> kernels = {
        describe<&::gemm_begin>({.name = "gemm_begin", .source = "gemm.cc", .check_sizes = check_gemm_begin}),
        describe<&::gemm_add_4x8x8>(
            {.name = "gemm_add_4x8x8", .source = "gemm.cc", .mmul = "4x8x8 i8", .check_sizes = check_gemm_add}),
        describe<&::gemm_end_4x8x8>({.name = "gemm_end_4x8x8", .source = "gemm.cc", .check_sizes = check_gemm_end}),
        describe<&::gemm_add_8x8x8>(
            {.name = "gemm_add_8x8x8", .source = "gemm.cc", .mmul = "8x8x8 i8", .check_sizes = check_gemm_add}),
        describe<&::gemm_end_8x8x8>({.name = "gemm_end_8x8x8", .source = "gemm.cc", .check_sizes = check_gemm_end}),
        describe<&::attention_begin>(
            {.name = "attention_begin", .source = "attention_i8.cc", .check_sizes = check_attention_begin}),
        describe<&::attention_i8_tile>({.name = "attention_i8_tile",
                                        .source = "attention_i8.cc",
                                        .mmul = "4x8x8 i8",
                                        .check_sizes = check_attention_tile}),
        describe<&::attention_end>(
            {.name = "attention_end", .source = "attention_i8.cc", .check_sizes = check_attention_end}),
    };
    return kernels;
}

}  // namespace

Counts& Counts::add(const Counts& other, uint64_t times) {
    macs += other.macs * times;
    load_bytes += other.load_bytes * times;
    store_bytes += other.store_bytes * times;
    vector_ops += other.vector_ops * times;
    scalar_ops += other.scalar_ops * times;
    matrix_cycles += other.matrix_cycles * times;
    return *this;
}

uint64_t Counts::cycles(const IssueRates& rates) const {
    const double vector = static_cast<double>(matrix_cycles) / rates.matrix_products +
                          static_cast<double>(vector_ops) / kVectorEfficiency;
    const double loads = static_cast<double>(load_bytes) / rates.load_bytes;
    const double busiest = std::max({vector, loads, static_cast<double>(scalar_ops)});
    return static_cast<uint64_t>(std::ceil(busiest + kStoreGap * static_cast<double>(store_bytes) / 32));
}

std::span<const Kernel> all_kernels() {
    return table();
}

const Kernel* find_kernel(std::string_view name) {
    const auto found = std::ranges::find(table(), name, &Kernel::name);
    return found == table().end() ? nullptr : &*found;
}

Status check_call(const Kernel& kernel, std::span<const KernelArgument> arguments) {
    if (arguments.size() != kernel.parameters.size()) {
        return fail("kernel {}: {} arguments given, {} needed", kernel.name, arguments.size(),
                    kernel.parameters.size());
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
        const bool number = kernel.parameters[i].kind == ArgumentKind::number;
        if (arguments[i].is_value != number) {
            return fail("kernel {}: argument {} must be a {}", kernel.name, i, number ? "number" : "buffer");
        }
        if (!number && reinterpret_cast<uintptr_t>(arguments[i].data) % 64 != 0) {
            return fail("kernel {}: argument {} does not begin at a multiple of 64 bytes", kernel.name, i);
        }
    }
    Status sizes = kernel.check_sizes(arguments);
    if (!sizes) return fail("kernel {}: {}", kernel.name, sizes.error().message);
    return Ok{};
}

Counts run_kernel(const Kernel& kernel, std::span<const KernelArgument> arguments) {
    const Status allowed = check_call(kernel, arguments);
    CHECK(allowed, allowed ? "" : allowed.error().message);
    aie::host::core = {};
    kernel.call(arguments);
    const aie::host::Work& work = aie::host::core.work;
    return {.macs = work.macs,
            .load_bytes = work.load_bytes,
            .store_bytes = work.store_bytes,
            .vector_ops = work.vector_ops,
            .scalar_ops = work.scalar_ops,
            .matrix_cycles = work.matrix_cycles};
}

}  // namespace tandem::npu
