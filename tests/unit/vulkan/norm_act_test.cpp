#include "vulkan/kernels/norm_act.h"

#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "unit/vulkan/gpu.h"
#include "unit/vulkan/host_math.h"

namespace tandem::vulkan {
namespace {

constexpr float kNormEps = 1e-6F;

struct NormActCase {
    uint32_t rows = 2;
    uint32_t cols = 64;
    bool adds = false;
    uint32_t splits = 1;
    bool post = false;
    bool norm = true;
    std::optional<ActivationFormat> format = ActivationFormat::f16;
    float magnitude = 1.0F;
};

void host_norm(std::span<double> row, std::span<const float> weight) {
    double squares = 0;
    for (double value : row) squares += value * value;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(row.size()) + kNormEps);
    for (size_t i = 0; i < row.size(); ++i) row[i] *= scale * weight[i];
}

std::vector<float> decoded_f16(const std::vector<std::byte>& bytes, const NormActCase& c) {
    std::vector<float> values(size_t{c.rows} * c.cols);
    for (size_t i = 0; i < values.size(); ++i) {
        uint16_t half = 0;
        float scale = 0;
        std::memcpy(&half, bytes.data() + 2 * i, 2);
        std::memcpy(&scale, bytes.data() + 2 * values.size() + 4 * (i / c.cols), 4);
        EXPECT_EQ(std::exp2(std::round(std::log2(scale))), scale) << "a power of two, so that nothing is rounded";
        values[i] = f16_to_f32(half) * scale;
    }
    return values;
}

void expect_rows(const NormActCase& c) {
    SCOPED_TRACE(fmt::format("{} x {}, {} splits, format {}", c.rows, c.cols, c.splits,
                             c.format ? static_cast<int>(*c.format) : -1));
    std::mt19937 rng(c.cols);
    const size_t count = size_t{c.rows} * c.cols;
    const auto x = random_floats(rng, count, c.magnitude);
    const auto delta = random_floats(rng, count * c.splits, c.magnitude);
    const auto post_weight = random_floats(rng, c.cols);
    const auto weight = random_floats(rng, c.cols);

    std::vector<double> sum(x.begin(), x.end());
    std::vector<double> normed(count);
    for (uint32_t r = 0; r < c.rows; ++r) {
        std::vector<double> added(c.cols, 0.0);
        for (uint32_t s = 0; c.adds && s < c.splits; ++s) {
            for (uint32_t i = 0; i < c.cols; ++i) added[i] += delta[(size_t{s} * c.rows + r) * c.cols + i];
        }
        if (c.post) host_norm(added, post_weight);
        for (uint32_t i = 0; i < c.cols; ++i) sum[size_t{r} * c.cols + i] += added[i];
        const std::span out = std::span(normed).subspan(size_t{r} * c.cols, c.cols);
        std::copy_n(sum.begin() + r * c.cols, c.cols, out.begin());
        if (c.norm) host_norm(out, weight);
    }

    const Buffer device_x = gpu().upload(x);
    const Buffer device_delta = gpu().upload(delta);
    const Buffer device_sum = gpu().buffer(count * 4);
    const Buffer y = gpu().buffer(c.format ? activation_bytes(*c.format, c.rows, c.cols) : 4);
    NormActCall call{.x = whole(device_x), .rows = c.rows, .cols = c.cols, .format = c.format, .y = whole(y)};
    if (c.norm) call.norm = {gpu().upload(weight).address, kNormEps};
    if (c.adds) {
        call.delta = {.partials = whole(device_delta), .splits = c.splits, .norm = {}, .sum = whole(device_sum)};
        if (c.post) call.delta->norm = {gpu().upload(post_weight).address, kNormEps};
    }
    gpu().run([&](Recorder& recorder) { return record_norm_act(recorder, gpu().device()->capabilities(), call); });

    double largest = 0;
    for (double value : normed) largest = std::max(largest, std::abs(value));
    if (c.adds) expect_near(gpu().read<float>(device_sum), sum, 1e-5 * std::max(1.0F, c.magnitude));
    if (c.format == ActivationFormat::f16) {
        expect_near(decoded_f16(gpu().read<std::byte>(y), c), normed, largest * 0x1p-11);
    } else if (c.format == ActivationFormat::f32) {
        expect_near(gpu().read<float>(y), normed, largest * 1e-5);
    } else if (c.format == ActivationFormat::q8) {
        ASSERT_EQ(c.rows, 1U);
        expect_near(dequantize_row(gpu().read<std::byte>(y), c.cols), normed, largest / 127 * 0.501);
    }
}

TEST(NormAct, EveryFormatOfWholeAndOddNumbersOfBlocks) {
    for (uint32_t cols : {32U, 96U, 256U, 1152U, 5376U}) {
        for (auto format : {ActivationFormat::f32, ActivationFormat::f16})
            expect_rows({.cols = cols, .format = format});
        expect_rows({.rows = 1, .cols = cols, .format = ActivationFormat::q8});
    }
}

TEST(NormAct, AddsTheSplitsOfAProductWithAndWithoutItsNorm) {
    for (bool post : {false, true}) {
        for (uint32_t splits : {1U, 3U}) {
            expect_rows({.rows = 3, .cols = 160, .adds = true, .splits = splits, .post = post});
            expect_rows(
                {.rows = 1, .cols = 160, .adds = true, .splits = splits, .post = post, .format = ActivationFormat::q8});
            expect_rows({.rows = 3, .cols = 160, .adds = true, .splits = splits, .post = post, .format = {}});
        }
    }
}

TEST(NormAct, LargeAndTinyRowsKeepTheirBitsInF16) {
    for (float magnitude : {1e-6F, 1e-3F, 3e4F, 1e9F}) expect_rows({.cols = 96, .norm = false, .magnitude = magnitude});
}

}  // namespace
}  // namespace tandem::vulkan
