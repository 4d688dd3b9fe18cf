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
void matmul_i8(const int8_t*, const int8_t*, int32_t*, int32_t, int32_t, int32_t);
void zero_i32(int32_t*, int32_t);
void scale_i32_f32(const int32_t*, const float*, const float*, float*, int32_t, int32_t);
void scale_bias_i32_f32(const int32_t*, const float*, const float*, float*, int32_t, int32_t);
void requantize_i32_i8(const int32_t*, int8_t*, int32_t, int32_t);
void quantize_f32_i8(const float*, int8_t*, float*, int32_t, int32_t);
void quantize_blocks_f32_i8(const float*, int8_t*, float*, int32_t);
void rms_norm_f32(const float*, const float*, float*, int32_t, int32_t, int32_t);
void rope_f32(const float*, const float*, float*, int32_t, int32_t, int32_t);
void glu_f32(const float*, const float*, float*, int32_t, int32_t);
void add_f32(const float*, const float*, float*, int32_t);
void softmax_f32(const float*, float*, int32_t, int32_t);
void attention_begin(float*, float*, int32_t, int32_t);
void attention_i8_step(const int8_t*, const float*, const int8_t*, const float*, const int8_t*, const float*, float*,
                       float*, const int32_t*);
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

Status check_matmul(Arguments arguments) {
    const int64_t m = arguments[3].value;
    const int64_t k = arguments[4].value;
    const int64_t n = arguments[5].value;
    TRY(check_multiple("m", arguments[3].value, 8));
    TRY(check_multiple("k", arguments[4].value, 8));
    TRY(check_multiple("n", arguments[5].value, 16));
    return check_bytes(arguments, {m * k, k * n, 4 * m * n});
}

Status check_zero(Arguments arguments) {
    TRY(check_multiple("count", arguments[1].value, 16));
    return check_bytes(arguments, {int64_t{4} * arguments[1].value});
}

Status check_scale_of(Arguments arguments, int64_t floats_of_column) {
    const int64_t m = arguments[4].value;
    const int64_t n = arguments[5].value;
    TRY(check_multiple("m", arguments[4].value, 4));
    TRY(check_multiple("n", arguments[5].value, 8));
    return check_bytes(arguments, {4 * m * n, 4 * m, 4 * floats_of_column * n, 4 * m * n});
}

Status check_scale(Arguments arguments) {
    return check_scale_of(arguments, 1);
}

Status check_scale_bias(Arguments arguments) {
    return check_scale_of(arguments, 2);
}

Status check_requantize(Arguments arguments) {
    const int32_t shift = arguments[3].value;
    TRY(check_multiple("count", arguments[2].value, 32));
    if (shift < 0 || shift > 31) return fail("shift is {}: 0 to 31 can be done", shift);
    return check_bytes(arguments, {int64_t{4} * arguments[2].value, arguments[2].value});
}

Status check_quantize(Arguments arguments) {
    const int64_t rows = arguments[3].value;
    const int64_t cols = arguments[4].value;
    TRY(check_multiple("rows", arguments[3].value, 1));
    TRY(check_multiple("cols", arguments[4].value, 16));
    return check_bytes(arguments, {4 * rows * cols, rows * cols, 4 * rows});
}

Status check_quantize_blocks(Arguments arguments) {
    const int64_t blocks = arguments[3].value;
    TRY(check_multiple("blocks", arguments[3].value, 1));
    return check_bytes(arguments, {128 * blocks, 32 * blocks, 4 * blocks});
}

Status check_rms_norm(Arguments arguments) {
    const int64_t rows = arguments[3].value;
    const int64_t cols = arguments[4].value;
    TRY(check_multiple("rows", arguments[3].value, 1));
    TRY(check_multiple("cols", arguments[4].value, 16));
    return check_bytes(arguments, {4 * rows * cols, 4 * cols, 4 * rows * cols});
}

Status check_rope(Arguments arguments) {
    const int64_t heads = arguments[3].value;
    const int64_t head_dim = arguments[4].value;
    const int32_t layout = arguments[5].value;
    TRY(check_multiple("heads", arguments[3].value, 1));
    TRY(check_multiple("head_dim", arguments[4].value, 32));
    if (layout < 0 || layout > 1) return fail("layout is {}: 0 or 1 is known", layout);
    return check_bytes(arguments, {4 * heads * head_dim, 4 * head_dim, 4 * heads * head_dim});
}

Status check_glu(Arguments arguments) {
    const int64_t bytes = int64_t{4} * arguments[3].value;
    const int32_t activation = arguments[4].value;
    TRY(check_multiple("count", arguments[3].value, 16));
    if (activation < 0 || activation > 2) return fail("activation is {}: 0, 1 or 2 is known", activation);
    return check_bytes(arguments, {bytes, bytes, bytes});
}

Status check_add(Arguments arguments) {
    const int64_t bytes = int64_t{4} * arguments[3].value;
    TRY(check_multiple("count", arguments[3].value, 16));
    return check_bytes(arguments, {bytes, bytes, bytes});
}

Status check_softmax(Arguments arguments) {
    const int64_t bytes = int64_t{4} * arguments[2].value * arguments[3].value;
    TRY(check_multiple("rows", arguments[2].value, 1));
    TRY(check_multiple("cols", arguments[3].value, 16));
    if (arguments[3].value == 0) return fail("cols is 0: a row needs an element");
    return check_bytes(arguments, {bytes, bytes});
}

// Of the state only what stays between steps.
Status check_attention_ends(Arguments arguments) {
    const int64_t queries = arguments[2].value;
    const int64_t head_dim = arguments[3].value;
    TRY(check_multiple("queries", arguments[2].value, 8));
    TRY(check_multiple("head_dim", arguments[3].value, 32));
    return check_bytes(arguments, {4 * queries * head_dim, 4 * attention_state_floats(queries, 0)});
}

Status check_attention_step(Arguments arguments) {
    constexpr int64_t kHeaderBytes = sizeof(AttentionHeader);
    TRY(check_bytes(arguments, {0, 0, 0, 0, 0, 0, 0, 0, kHeaderBytes}));
    AttentionHeader header;
    std::copy_n(static_cast<const std::byte*>(arguments[8].data), kHeaderBytes, reinterpret_cast<std::byte*>(&header));
    TRY(check_multiple("queries", header.queries, 8));
    TRY(check_multiple("keys", header.keys, 16));
    TRY(check_multiple("head_dim", header.head_dim, 32));
    if (header.group < 1) return fail("group is {}: one row for each token is the least", header.group);
    if (header.key_count > header.keys) return fail("{} keys in a tile of {}", header.key_count, header.keys);
    const int64_t queries = header.queries;
    const int64_t keys = header.keys;
    const int64_t values = keys * header.head_dim;
    const int64_t scales = values / 32 * 4;
    return check_bytes(arguments,
                       {queries * header.head_dim, 4 * queries, values, scales, values, scales,
                        4 * queries * header.head_dim, 4 * attention_state_floats(queries, keys), kHeaderBytes});
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
        describe<&::matmul_i8>(
            {.name = "matmul_i8", .source = "matmul_i8.cc", .mmul = "4x8x8 i8", .check_sizes = check_matmul}),
        describe<&::zero_i32>({.name = "zero_i32", .source = "zero_i32.cc", .check_sizes = check_zero}),
        describe<&::scale_i32_f32>({.name = "scale_i32_f32", .source = "scale_i32_f32.cc", .check_sizes = check_scale}),
        describe<&::scale_bias_i32_f32>(
            {.name = "scale_bias_i32_f32", .source = "scale_i32_f32.cc", .check_sizes = check_scale_bias}),
        describe<&::requantize_i32_i8>(
            {.name = "requantize_i32_i8", .source = "requantize_i32_i8.cc", .check_sizes = check_requantize}),
        describe<&::quantize_f32_i8>(
            {.name = "quantize_f32_i8", .source = "quantize_f32_i8.cc", .check_sizes = check_quantize}),
        describe<&::quantize_blocks_f32_i8>(
            {.name = "quantize_blocks_f32_i8", .source = "quantize_f32_i8.cc", .check_sizes = check_quantize_blocks}),
        describe<&::rms_norm_f32>({.name = "rms_norm_f32", .source = "rms_norm_f32.cc", .check_sizes = check_rms_norm}),
        describe<&::rope_f32>({.name = "rope_f32", .source = "rope_f32.cc", .check_sizes = check_rope}),
        describe<&::glu_f32>({.name = "glu_f32", .source = "glu_f32.cc", .check_sizes = check_glu}),
        describe<&::add_f32>({.name = "add_f32", .source = "add_f32.cc", .check_sizes = check_add}),
        describe<&::softmax_f32>({.name = "softmax_f32", .source = "softmax_f32.cc", .check_sizes = check_softmax}),
        describe<&::attention_begin>(
            {.name = "attention_begin", .source = "attention_i8.cc", .check_sizes = check_attention_ends}),
        describe<&::attention_i8_step>({.name = "attention_i8_step",
                                        .source = "attention_i8.cc",
                                        .mmul = "4x8x8 i8",
                                        .check_sizes = check_attention_step}),
        describe<&::attention_i8_tile>({.name = "attention_i8_tile",
                                        .source = "attention_i8.cc",
                                        .mmul = "4x8x8 i8",
                                        .check_sizes = check_attention_tile}),
        describe<&::attention_end>(
            {.name = "attention_end", .source = "attention_i8.cc", .check_sizes = check_attention_ends}),
    };
    return kernels;
}

}  // namespace

Counts& Counts::operator+=(const Counts& other) {
    macs += other.macs;
    load_bytes += other.load_bytes;
    store_bytes += other.store_bytes;
    vector_ops += other.vector_ops;
    scalar_ops += other.scalar_ops;
    matrix_cycles += other.matrix_cycles;
    return *this;
}

uint64_t Counts::cycles() const {
    const double vector = static_cast<double>(matrix_cycles) + static_cast<double>(vector_ops) / kVectorEfficiency;
    const double busiest = std::max({vector, static_cast<double>(load_bytes) / 64, static_cast<double>(scalar_ops)});
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
