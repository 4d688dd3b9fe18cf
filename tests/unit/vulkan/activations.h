// Reads Activations back, for tests.
#pragma once

#include "base/float16.h"
#include "unit/vulkan/gpu.h"
#include "vulkan/activations.h"

namespace tandem::vulkan {

struct ReadActivations {
    std::vector<float> values;
    std::vector<float> error;  // that the format may have put into each
};

inline ReadActivations read_q8(const std::vector<std::byte>& bytes, size_t rows, size_t cols) {
    const size_t blocks = cols / 32;
    ReadActivations read{std::vector<float>(rows * cols), std::vector<float>(rows * cols)};
    for (size_t i = 0; i < rows * cols; ++i) {
        const size_t row = i / cols, block = i % cols / 32, half = i % 32 / 16;
        const size_t at = ((row * 2 + half) * blocks + block) * 16 + i % 16;
        float scale = 0;
        std::memcpy(&scale, &bytes[rows * cols + (row * blocks + block) * 8], sizeof(scale));
        read.values[i] = scale * static_cast<float>(static_cast<int8_t>(bytes[at]));
        read.error[i] = scale * 0.501F;
    }
    for (size_t b = 0; b < rows * blocks; ++b) {
        for (size_t half = 0; half < 2; ++half) {
            const size_t at = ((b / blocks * 2 + half) * blocks + b % blocks) * 16;
            int sum = 0;
            for (size_t i = 0; i < 16; ++i) sum += static_cast<int8_t>(bytes[at + i]);
            uint16_t bits = 0;
            std::memcpy(&bits, &bytes[rows * cols + b * 8 + 4 + half * 2], sizeof(bits));
            EXPECT_EQ(f16_to_f32(bits), static_cast<float>(sum)) << "block " << b << ", half " << half;
        }
    }
    return read;
}

inline ReadActivations read_activations(const Buffer& buffer, ActivationFormat format, size_t rows, size_t cols) {
    const std::vector<std::byte> bytes = gpu().read<std::byte>(buffer);
    if (format == ActivationFormat::q8) return read_q8(bytes, rows, cols);
    ReadActivations read{std::vector<float>(rows * cols), std::vector<float>(rows * cols)};
    for (size_t i = 0; i < rows * cols; ++i) {
        if (format == ActivationFormat::f32) {
            std::memcpy(&read.values[i], &bytes[i * sizeof(float)], sizeof(float));
            continue;
        }
        uint16_t bits = 0;
        float scale = 0;
        std::memcpy(&bits, &bytes[i * sizeof(bits)], sizeof(bits));
        std::memcpy(&scale, &bytes[rows * cols * sizeof(bits) + i / cols * sizeof(float)], sizeof(float));
        read.values[i] = scale * f16_to_f32(bits);
        read.error[i] = std::abs(read.values[i]) * 0x1p-11F + scale * 0x1p-24F;
    }
    return read;
}

}  // namespace tandem::vulkan
