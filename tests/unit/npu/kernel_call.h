// Calls a kernel of the array from a test: buffers as a tile has them, and the layout T(r,c).
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <new>
#include <random>
#include <string_view>
#include <vector>

#include "npu/kernels.h"

namespace tandem::npu {

// Memory begins at a multiple of 64 bytes, as in a tile.
template <typename T>
struct TileAllocator {
    using value_type = T;

    TileAllocator() = default;
    template <typename U>
    explicit TileAllocator(const TileAllocator<U>&) {}

    T* allocate(size_t count) { return static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{64})); }
    void deallocate(T* memory, size_t) { ::operator delete (memory, std::align_val_t{64}); }
    bool operator==(const TileAllocator&) const = default;
};
template <typename T>
using TileBuffer = std::vector<T, TileAllocator<T>>;

inline KernelArgument argument(int32_t value) {
    return {.value = value, .is_value = true};
}
inline KernelArgument argument(float value) {
    return argument(std::bit_cast<int32_t>(value));
}
template <typename T>
KernelArgument argument(TileBuffer<T>& buffer) {
    return {.data = buffer.data(), .size_bytes = static_cast<int64_t>(buffer.size() * sizeof(T))};
}

template <typename... Args>
Counts call(std::string_view name, Args&&... args) {
    const Kernel* kernel = find_kernel(name);
    if (kernel == nullptr) {
        ADD_FAILURE() << "no kernel " << name;
        return {};
    }
    const std::vector<KernelArgument> arguments = {argument(args)...};
    const Status allowed = check_call(*kernel, arguments);
    if (!allowed) {
        ADD_FAILURE() << allowed.error().message;
        return {};
    }
    return run_kernel(*kernel, arguments);
}

// Where element (row, col) of a matrix with `cols` columns lies in T(r,c).
inline size_t tiled(int r, int c, int cols, int row, int col) {
    const int at = ((row / r) * (cols / c) + col / c) * r * c + row % r * c + col % c;
    return static_cast<size_t>(at);
}

inline TileBuffer<float> random_floats(std::mt19937& random, size_t count, float spread = 1.0F) {
    std::normal_distribution<float> normal(0.0F, spread);
    TileBuffer<float> values(count);
    for (float& value : values) value = normal(random);
    return values;
}

inline TileBuffer<int8_t> random_bytes(std::mt19937& random, size_t count) {
    std::uniform_int_distribution<int> uniform(-128, 127);
    TileBuffer<int8_t> values(count);
    for (int8_t& value : values) value = static_cast<int8_t>(uniform(random));
    return values;
}

}  // namespace tandem::npu
