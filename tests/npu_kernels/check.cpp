// Calls one public kernel, which run.sh has linked, and compares the result with plain arithmetic.
// Integers must be equal; the tolerance of the others is what bfloat16 and the tables of the core leave.
#include <aie_api/aie.hpp>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

// Each program is linked with one kernel file: the others are missing.
#define PUBLIC_KERNEL extern "C" __attribute__((weak))
PUBLIC_KERNEL void matmul_i8_i32(int8*, int8*, int32*);
PUBLIC_KERNEL void matmul_i8_i16(int8*, int8*, int16*);
PUBLIC_KERNEL void matmul_i8_i8(int8*, int8*, int8*);
PUBLIC_KERNEL void matmul_i16_i32(int16*, int16*, int32*);
PUBLIC_KERNEL void matmul_bf16_f32(bfloat16*, bfloat16*, float*);
PUBLIC_KERNEL void matmul_bf16_bf16(bfloat16*, bfloat16*, bfloat16*);
PUBLIC_KERNEL void softmax_bf16(bfloat16*, bfloat16*, int32_t);
PUBLIC_KERNEL void rms_norm(bfloat16*, bfloat16*, int32_t);
PUBLIC_KERNEL void rope(bfloat16*, bfloat16*, bfloat16*, int32_t);
PUBLIC_KERNEL void rope_two_halves(bfloat16*, bfloat16*, bfloat16*, int32_t);
PUBLIC_KERNEL void silu_bf16(bfloat16*, bfloat16*, int32_t);
PUBLIC_KERNEL void gelu_bf16(bfloat16*, bfloat16*, int32_t);
PUBLIC_KERNEL void exp_bf16_1024(bfloat16*, bfloat16*);

namespace {

constexpr int kCount = 1024;              // elements of a vector
constexpr int kM = 64, kK = 64, kN = 64;  // the sizes that mm.cc has unless told otherwise
// Of a bfloat16, relative: rounded to the nearest, and rounded down as a core does unless told otherwise.
constexpr double kNearest = 1.0 / 256;
constexpr double kFloor = 1.0 / 128;

// As the memory of a tile: aligned, and the same for every run.
template <typename T>
T* memory(size_t count) {
    return static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{64}));
}

std::mt19937& random_source() {
    static std::mt19937 source(1);
    return source;
}

bfloat16* random_halves(int count, float spread) {
    std::uniform_real_distribution<float> uniform(-spread, spread);
    auto* values = memory<bfloat16>(count);
    for (int i = 0; i < count; ++i) values[i] = bfloat16(uniform(random_source()));
    return values;
}

// How many elements differ from `expected` by more than `allowed`.
class Comparison {
  public:
    void add(double found, double expected, double allowed) {
        ++elements_;
        const double error = std::abs(found - expected);
        if (!(error <= allowed)) ++wrong_;
        if (error > largest_) largest_ = error;
    }
    bool report(const std::string& name) const {
        std::printf("%s %s: %d of %d elements differ, largest error %.3g\n", wrong_ == 0 ? "computes " : "FAILED   ",
                    name.c_str(), wrong_, elements_, largest_);
        return wrong_ == 0;
    }

  private:
    int elements_ = 0;
    int wrong_ = 0;
    double largest_ = 0;
};

// Element (row, col) in blocks of r x c.
size_t tiled(int r, int c, int cols, int row, int col) {
    return static_cast<size_t>(((row / r) * (cols / c) + col / c) * r * c + row % r * c + col % c);
}

template <typename In, typename Out>
Comparison check_matmul(void (*kernel)(In*, In*, Out*), int r, int s, int t) {
    std::uniform_int_distribution<int> uniform(-128, 127);
    auto* a = memory<In>(kM * kK);
    auto* b = memory<In>(kK * kN);
    auto* c = memory<Out>(kM * kN);
    for (int i = 0; i < kM * kK; ++i) a[i] = static_cast<In>(static_cast<float>(uniform(random_source())));
    for (int i = 0; i < kK * kN; ++i) b[i] = static_cast<In>(static_cast<float>(uniform(random_source())));
    for (int i = 0; i < kM * kN; ++i) c[i] = static_cast<Out>(3.0F);
    kernel(a, b, c);
    Comparison comparison;
    for (int row = 0; row < kM; ++row) {
        for (int col = 0; col < kN; ++col) {
            double sum = 3;
            for (int i = 0; i < kK; ++i) {
                sum +=
                    static_cast<double>(a[tiled(r, s, kK, row, i)]) * static_cast<double>(b[tiled(s, t, kN, i, col)]);
            }
            const double found = static_cast<double>(c[tiled(r, t, kN, row, col)]);
            if constexpr (std::is_integral_v<Out>) {
                comparison.add(found, static_cast<Out>(static_cast<int64_t>(sum)), 0);  // a core wraps around
            } else {
                // Products and sums of these whole numbers are exact in float.
                comparison.add(found, sum, std::is_same_v<Out, float> ? 0 : std::abs(sum) * kFloor);
            }
        }
    }
    return comparison;
}

Comparison check_softmax() {
    bfloat16* x = random_halves(kCount, 4);
    auto* y = memory<bfloat16>(kCount);
    softmax_bf16(x, y, kCount);
    double sum = 0;
    for (int i = 0; i < kCount; ++i) sum += std::exp(static_cast<double>(x[i]));
    Comparison comparison;
    for (int i = 0; i < kCount; ++i) {
        const double exact = std::exp(static_cast<double>(x[i])) / sum;
        comparison.add(y[i], exact,
                       exact * (4 * kNearest + 2 * kFloor));  // the steps of x, the tables, 1 / sum; products
    }
    return comparison;
}

Comparison check_rms_norm() {
    bfloat16* x = random_halves(kCount, 4);
    auto* y = memory<bfloat16>(kCount);
    rms_norm(x, y, kCount);
    double squares = 0;
    for (int i = 0; i < kCount; ++i) squares += std::pow(static_cast<double>(x[i]), 2);
    Comparison comparison;
    for (int i = 0; i < kCount; ++i) {
        const double exact = static_cast<double>(x[i]) / std::sqrt(squares / kCount + 1e-5);
        comparison.add(y[i], exact, std::abs(exact) * kNearest + 1e-6);
    }
    return comparison;
}

// The table holds cosine and sine in turn.
Comparison check_rope(void (*kernel)(bfloat16*, bfloat16*, bfloat16*, int32_t), bool halves) {
    bfloat16* x = random_halves(kCount, 4);
    auto* table = memory<bfloat16>(kCount);
    for (int i = 0; i < kCount / 2; ++i) {
        table[2 * i] = bfloat16(std::cos(0.01F * static_cast<float>(i)));
        table[2 * i + 1] = bfloat16(std::sin(0.01F * static_cast<float>(i)));
    }
    auto* y = memory<bfloat16>(kCount);
    kernel(x, table, y, kCount);
    Comparison comparison;
    for (int i = 0; i < kCount / 2; ++i) {
        const int a = halves ? i : 2 * i;
        const int b = halves ? i + kCount / 2 : 2 * i + 1;
        const double cos = table[2 * i];
        const double sin = table[2 * i + 1];
        const double size = std::abs(static_cast<double>(x[a])) + std::abs(static_cast<double>(x[b]));
        comparison.add(y[a], x[a] * cos - x[b] * sin, size * kFloor);
        comparison.add(y[b], x[a] * sin + x[b] * cos, size * kFloor);
    }
    return comparison;
}

// `absolute` counts with x: tanh by straight lines is off by 0.009, and so are, by kFloor each, the sums and products
// around it.
Comparison check_function(const std::function<void(bfloat16*, bfloat16*)>& kernel, double (*exact)(double),
                          double absolute, double relative) {
    bfloat16* x = random_halves(kCount, 4);
    auto* y = memory<bfloat16>(kCount);
    kernel(x, y);
    Comparison comparison;
    for (int i = 0; i < kCount; ++i) {
        const double value = exact(x[i]);
        comparison.add(y[i], value, absolute * std::abs(static_cast<double>(x[i])) + relative * std::abs(value));
    }
    return comparison;
}

double silu(double x) {
    return x / (1 + std::exp(-x));
}
double gelu(double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double natural(double x) {
    return std::exp(x);
}

const std::map<std::string, std::function<Comparison()>> kCases = {
    {"matmul_i8_i32", [] { return check_matmul(matmul_i8_i32, 4, 8, 8); }},
    {"matmul_i8_i16", [] { return check_matmul(matmul_i8_i16, 4, 8, 8); }},
    {"matmul_i8_i8", [] { return check_matmul(matmul_i8_i8, 4, 8, 8); }},
    {"matmul_i16_i32", [] { return check_matmul(matmul_i16_i32, 4, 4, 4); }},
    {"matmul_bf16_f32", [] { return check_matmul(matmul_bf16_f32, 4, 8, 4); }},
    {"matmul_bf16_bf16", [] { return check_matmul(matmul_bf16_bf16, 4, 8, 4); }},
    {"softmax", check_softmax},
    {"rms_norm", check_rms_norm},
    {"rope", [] { return check_rope(rope, false); }},
    {"rope_two_halves", [] { return check_rope(rope_two_halves, true); }},
    // Versions of these that know their size take no third argument: passing one does no harm.
    {"silu", [] { return check_function([](auto* x, auto* y) { silu_bf16(x, y, kCount); }, silu, 0.0125, kFloor); }},
    {"gelu", [] { return check_function([](auto* x, auto* y) { gelu_bf16(x, y, kCount); }, gelu, 0.0175, kFloor); }},
    {"exp",
     [] { return check_function([](auto* x, auto* y) { exp_bf16_1024(x, y); }, natural, 0, 3 * kNearest + kFloor); }},
};

}  // namespace

int main(int argc, char** argv) {
    const auto found = kCases.find(argc == 2 ? argv[1] : "");
    if (found == kCases.end()) {
        std::fprintf(stderr, "usage: check CASE, one of those in run.sh\n");
        return 2;
    }
    return found->second().report(found->first) ? 0 : 1;
}
