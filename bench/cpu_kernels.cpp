// Speed of the CPU's kernels: GB/s of weights and its share of what the memory gives, GFLOP/s of large products,
// attention over long contexts, and what the host does for an NPU.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "base/threads.h"
#include "cpu/backend.h"
#include "cpu/rates.h"
#include "format/quant.h"
#include "graph/builder.h"
#include "npu/cache_rows.h"
#include "npu/designs/gemm.h"

namespace tandem::bench {

namespace {

constexpr int64_t kCols = 4096;
constexpr size_t kWeightBytes = size_t{512} << 20;  // more than any cache holds

device::Backend& backend() {
    static const std::unique_ptr<device::Backend> made = cpu::make_backend({}).value();
    return *made;
}

double read_rate() {
    static const double rate = [] {
        ThreadPool pool;
        return cpu::measure_rates(pool).value().read_bytes_per_s;
    }();
    return rate;
}

std::vector<float> random_values(size_t count) {
    std::mt19937 generator(1);
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(generator() % 2001) / 1000.0F - 1.0F;
    return values;
}

// Random rows of one type: a few that are repeated, since their numbers do not matter.
std::vector<std::byte> random_weights(DType dtype, int64_t rows, int64_t cols) {
    constexpr int64_t kDistinct = 16;
    const size_t stride = row_bytes(dtype, cols);
    const std::vector<float> values = random_values(static_cast<size_t>(kDistinct * cols));
    std::vector<std::byte> bytes(static_cast<size_t>(rows) * stride);
    for (int64_t r = 0; r < rows; ++r) {
        std::byte* to = bytes.data() + static_cast<size_t>(r) * stride;
        if (r < kDistinct) {
            format::encode_row(dtype, values.data() + r * cols, to, cols);
        } else {
            std::memcpy(to, bytes.data() + static_cast<size_t>(r % kDistinct) * stride, stride);
        }
    }
    return bytes;
}

std::vector<std::byte> as_bytes(const std::vector<float>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

// A Program of one product with `rows` rows of x.
struct Product {
    graph::Weights weights;
    std::unique_ptr<device::Executable> executable;

    Product(DType dtype, int64_t outputs, int64_t rows) {
        weights.add_owned("w", dtype, {outputs, kCols}, random_weights(dtype, outputs, kCols));
        weights.add_owned("x", DType::f32, {rows, kCols}, as_bytes(random_values(static_cast<size_t>(rows * kCols))));
        graph::Graph g;
        g.result("y", g.linear(g.weight("w", graph::matrix_type(dtype, graph::Dim::of(outputs), kCols)),
                               g.weight("x", graph::matrix_type(DType::f32, graph::Dim::of(rows), kCols))));
        executable =
            backend().compile(std::move(g).finish(), weights, nullptr, {.limits = {}, .results = {"y"}}).value();
    }
};

void run(benchmark::State& state, device::Executable& executable, const device::Batch& batch) {
    for (auto _ : state) {
        const Status status = device::run(executable, batch);
        if (!status) state.SkipWithError(status.error().message.c_str());
    }
}

benchmark::Counter rate(double per_iteration) {
    return {per_iteration, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000};
}

// One row of x: the speed of the memory is the limit.
void matrix_vector(benchmark::State& state, DType dtype) {
    const auto outputs = static_cast<int64_t>(kWeightBytes / row_bytes(dtype, kCols));
    Product product(dtype, outputs, state.range(0));
    run(state, *product.executable, {});
    const auto bytes = static_cast<double>(static_cast<size_t>(outputs) * row_bytes(dtype, kCols));
    state.counters["bytes/s"] = rate(bytes);
    state.counters["of_read_rate"] = rate(bytes / read_rate());
}

// Many rows of x: the arithmetic is the limit.
void matrix_matrix(benchmark::State& state, DType dtype) {
    constexpr int64_t kOutputs = 4096;
    const int64_t rows = state.range(0);
    Product product(dtype, kOutputs, rows);
    run(state, *product.executable, {});
    state.counters["flop/s"] = rate(2.0 * static_cast<double>(kOutputs * kCols * rows));
    state.counters["rows/s"] = rate(static_cast<double>(rows));
}

// `rows` rows at the end of `state.range(0)` positions: 32 heads of 128, 8 of keys and values.
void attention(benchmark::State& state, DType cache_dtype, int32_t rows) {
    const auto positions = static_cast<int32_t>(state.range(0));
    const op::Attention op{.cache = 0, .heads = 32, .kv_heads = 8, .head_dim = 128, .scale = 0.088F};
    constexpr int kBlockTokens = 32;
    const int blocks = (positions + kBlockTokens - 1) / kBlockTokens;
    graph::Graph g;
    graph::Weights weights;
    const auto input = [&](const char* name, int64_t cols) {
        weights.add_owned(name, DType::f32, {rows, cols}, as_bytes(random_values(static_cast<size_t>(rows * cols))));
        return g.weight(name, graph::matrix_type(DType::f32, graph::Dim::of(rows), cols));
    };
    g.cache(op.kv_heads, op.head_dim, 0);
    const graph::Tensor k = input("k", int64_t{op.kv_heads} * op.head_dim);
    const graph::Tensor v = input("v", int64_t{op.kv_heads} * op.head_dim);
    const graph::Tensor written = g.kv_write(k, v, 0);
    g.result("y", g.attention(input("q", int64_t{op.heads} * op.head_dim), written, op));
    const graph::Program program = std::move(g).finish();
    const auto cache =
        backend()
            .make_cache(
                {.layers = program.caches, .dtype = cache_dtype, .block_tokens = kBlockTokens, .blocks = {blocks}})
            .value();
    const auto executable =
        backend()
            .compile(program, weights, cache, {.limits = {.tokens = rows, .outputs = 0}, .results = {"y"}})
            .value();

    std::vector<int32_t> table(static_cast<size_t>(blocks));
    std::iota(table.begin(), table.end(), 0);
    device::Batch batch;
    batch.tokens.assign(static_cast<size_t>(rows), 0);
    batch.sequences.push_back({.first_row = 0, .rows = rows, .past = 0, .blocks = {}});
    batch.sequences[0].blocks[0] = table;
    // The rows before are never written: what they hold does not matter for the speed, and fresh memory is zero.
    batch.sequences[0].past = positions - rows;
    for (int32_t r = 0; r < rows; ++r) batch.positions.push_back(positions - rows + r);
    run(state, *executable, batch);
    const double kv_bytes = 2.0 * positions * op.kv_heads * static_cast<double>(row_bytes(cache_dtype, op.head_dim));
    state.counters["kv_bytes/s"] = rate(kv_bytes);
    state.counters["flop/s"] = rate(4.0 * rows * positions * op.heads * op.head_dim);
}

// What the host does for an NPU while a micro-batch of 512 rows of Gemma 3 27B runs, each by one core: the constants of
// the NPU's cost model (npu/step.cpp) are made of these.
constexpr int64_t kNpuRows = 512;

void npu_round(benchmark::State& state) {
    const int64_t cols = state.range(0);
    const npu::GemmLayout layout = npu::gemm_layout({.m = kNpuRows, .k = cols, .n = kCols, .array = "npu1"}).value();
    const std::vector<float> x = random_values(static_cast<size_t>(kNpuRows * cols));
    std::vector<std::byte> packed(static_cast<size_t>(layout.x_bytes()));
    ThreadPool one(1);
    for (auto _ : state)
        npu::quantize_x(layout, {.values = x.data(), .rows = kNpuRows, .columns = cols, .stride = cols}, one, packed);
    state.counters["floats/s"] = rate(static_cast<double>(kNpuRows * cols));
}

// 16 heads of 128, written to and read from a cache.
struct NpuCache {
    static constexpr int kHeads = 16;
    static constexpr int kDim = 128;
    static constexpr int kPositions = 2048;
    static constexpr int kBlockTokens = 32;
    std::shared_ptr<device::KvCache> cache;
    std::vector<int32_t> blocks = std::vector<int32_t>(kPositions / kBlockTokens);

    explicit NpuCache(DType dtype)
        : cache(backend()
                    .make_cache({.layers = {{.kv_heads = kHeads, .head_dim = kDim, .window = 0, .group = 0}},
                                 .dtype = dtype,
                                 .block_tokens = kBlockTokens,
                                 .blocks = {kPositions / kBlockTokens}})
                    .value()) {
        std::iota(blocks.begin(), blocks.end(), 0);
    }
    npu::CacheRows keys() const { return {.cache = *cache, .layer = 0, .values = false, .blocks = blocks}; }
};

void npu_code(benchmark::State& state, DType dtype) {
    const NpuCache of(dtype);
    const std::vector<float> rows = random_values(static_cast<size_t>(kNpuRows) * NpuCache::kHeads * NpuCache::kDim);
    ThreadPool one(1);
    for (auto _ : state) npu::scatter(of.keys(), {0, static_cast<int>(kNpuRows), rows.data()}, one);
    state.counters["floats/s"] = rate(static_cast<double>(rows.size()));
}

void npu_gather(benchmark::State& state, DType dtype) {
    const NpuCache of(dtype);
    std::vector<int8_t> elements(size_t{NpuCache::kPositions} * NpuCache::kDim);
    std::vector<float> scales(elements.size() / npu::kRun);
    for (auto _ : state) {
        for (int head = 0; head < NpuCache::kHeads; ++head)
            npu::gather(of.keys(), head, 0, NpuCache::kPositions, {elements.data(), scales.data(), NpuCache::kDim});
    }
    state.counters["bytes/s"] = rate(static_cast<double>(elements.size()) * NpuCache::kHeads);
}

void register_npu() {
    benchmark::RegisterBenchmark("npu_round", npu_round)->Arg(5376)->Arg(21504)->Unit(benchmark::kMillisecond);
    for (DType dtype : {DType::q8_0, DType::f16}) {
        const std::string type(name(dtype));
        benchmark::RegisterBenchmark(("npu_code/" + type).c_str(), npu_code, dtype)->Unit(benchmark::kMillisecond);
        benchmark::RegisterBenchmark(("npu_gather/" + type).c_str(), npu_gather, dtype)->Unit(benchmark::kMillisecond);
    }
}

void register_all() {
    for (DType dtype : kAllDTypes) {
        if (dtype == DType::i32) continue;
        const std::string type(name(dtype));
        benchmark::RegisterBenchmark(("matrix_vector/" + type).c_str(), matrix_vector, dtype)
            ->Arg(1)
            ->Arg(4)
            ->Arg(8)
            ->Arg(32)
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
        benchmark::RegisterBenchmark(("matrix_matrix/" + type).c_str(), matrix_matrix, dtype)
            ->Arg(8)
            ->Arg(32)
            ->Arg(256)
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
    }
    for (DType dtype : {DType::f16, DType::f32}) {
        const std::string type(name(dtype));
        benchmark::RegisterBenchmark(("attention_decode/" + type).c_str(), attention, dtype, 1)
            ->Arg(512)
            ->Arg(16384)
            ->UseRealTime()
            ->Unit(benchmark::kMicrosecond);
        benchmark::RegisterBenchmark(("attention_prefill/" + type).c_str(), attention, dtype, 256)
            ->Arg(2048)
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
    }
}

}  // namespace

}  // namespace tandem::bench

int main(int argc, char** argv) {
    tandem::bench::register_all();
    tandem::bench::register_npu();
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    benchmark::AddCustomContext("read_rate_GB_s", std::to_string(tandem::bench::read_rate() / 1e9));
    benchmark::AddCustomContext(
        "device", tandem::bench::backend().describe().hardware + ", " + tandem::bench::backend().describe().details);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
