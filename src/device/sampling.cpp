#include "device/sampling.h"

namespace tandem::device {

namespace {

// The finalizer of splitmix64: every bit of the input moves every bit of the output.
uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

}  // namespace

float sampling_uniform(uint64_t seed, uint64_t draw, int32_t token) {
    const uint64_t stream = mix(mix(seed + kGolden) + (draw + 1) * kGolden);
    const uint64_t bits = mix(stream + (static_cast<uint64_t>(static_cast<uint32_t>(token)) + 1) * kGolden);
    return (static_cast<float>(bits >> 41) + 0.5F) * 0x1p-23F;  // 23 bits and a half: never 0, never 1
}

}  // namespace tandem::device
