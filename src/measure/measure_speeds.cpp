#include "measure/measure_speeds.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "device/host_memory.h"
#include "engine/kv_blocks.h"
#include "format/quant.h"
#include "graph/builder.h"
#include "graph/ops.h"

namespace tandem::measure {

namespace {

using graph::Dim;
using graph::Graph;
using graph::Tensor;

constexpr int kVocab = 64;
constexpr const char* kResult = "x";

// What is measured: small where the device is software, so that it takes seconds there too.
struct Sizes {
    int dim;                // of the matrices, which are square
    uint64_t weight_bytes;  // that few rows are multiplied with: more than a cache holds
    int many_rows;
    int positions;  // behind the rows of attention
};

Sizes sizes_for(const device::Description& device, const device::Rates& rates) {
    if (device.kind == device::Kind::software_gpu)
        return {.dim = 512, .weight_bytes = uint64_t{1} << 20, .many_rows = 32, .positions = 128};
    constexpr double kTimesTheCache = 4;
    const uint64_t room = std::max<uint64_t>(device::host_memory().available_bytes / 4, uint64_t{64} << 20);
    const auto past_the_cache = static_cast<uint64_t>(kTimesTheCache * rates.cache_bytes);
    return {.dim = device.kind == device::Kind::cpu ? 2560 : 5120,
            .weight_bytes = std::min({std::max(past_the_cache, uint64_t{192} << 20), uint64_t{1} << 30, room}),
            .many_rows = 512,
            .positions = 1024};
}

// The bytes of a matrix with random numbers that keep a row's size.
std::vector<std::byte> random_matrix(DType type, int dim) {
    constexpr int kDifferentRows = 16;
    std::mt19937 random(1);
    const float most = std::sqrt(3.0F / static_cast<float>(dim));
    std::uniform_real_distribution<float> number(-most, most);
    std::vector<float> values(static_cast<size_t>(dim));
    const size_t row = row_bytes(type, dim);
    std::vector<std::byte> bytes(row * static_cast<size_t>(dim));
    for (int r = 0; r < dim; ++r) {
        std::byte* const out = bytes.data() + row * static_cast<size_t>(r);
        if (r >= kDifferentRows) {
            std::memcpy(out, out - row * kDifferentRows, row);
            continue;
        }
        std::generate(values.begin(), values.end(), [&] { return number(random); });
        format::encode_row(type, values.data(), out, dim);
    }
    return bytes;
}

// Rows of one sequence, or single rows of as many.
device::Batch batch_of(int rows, bool one_row_each, int past, std::span<const std::vector<int32_t>> tables) {
    device::Batch batch;
    const int sequences = one_row_each ? rows : 1;
    for (int i = 0; i < rows; ++i) {
        batch.tokens.push_back(i % kVocab);
        batch.positions.push_back(one_row_each ? past : past + i);
    }
    for (int i = 0; i < sequences; ++i) {
        device::SequenceRows sequence{.first_row = i, .rows = one_row_each ? 1 : rows, .past = past, .blocks = {}};
        if (!tables.empty()) sequence.blocks[0] = tables[static_cast<size_t>(i)];
        batch.sequences.push_back(sequence);
    }
    batch.output_rows = {0};
    return batch;
}

// The least time of a few runs: anything else that the machine does only makes it longer.
Result<double> best_seconds(device::Executable& executable, const device::Batch& batch) {
    constexpr int kLeast = 3;  // with the first, which does not count
    constexpr int kMost = 200;
    constexpr double kEnough_s = 0.08;
    double best = std::numeric_limits<double>::infinity();
    double spent = 0;
    for (int run = 0; run < kMost && (run < kLeast || spent < kEnough_s); ++run) {
        const auto begin = std::chrono::steady_clock::now();
        TRY(device::run(executable, batch));
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        spent += took.count();
        if (run > 0) best = std::min(best, took.count());  // the first may have to be made ready
    }
    return best;
}

// A Program that makes rows from tokens, does something with them and gives the first; its weights.
struct Probe {
    graph::Program program;
    graph::Weights weights;
};

void add_table(Probe& probe, const char* name, int dim) {
    std::vector<float> values(static_cast<size_t>(kVocab) * static_cast<size_t>(dim));
    std::mt19937 random(2);
    std::uniform_real_distribution<float> number(-1, 1);
    std::generate(values.begin(), values.end(), [&] { return number(random); });
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    probe.weights.add_owned(name, DType::f32, {kVocab, dim}, std::move(bytes));
}

Tensor table(Graph& g, const char* name, int dim) {
    return g.embed(g.weight(name, graph::matrix_type(DType::f32, Dim::of(kVocab), dim)), g.tokens());
}

Probe finish(Probe probe, Graph g, Tensor x) {
    g.result(kResult, g.select_rows(x, g.output_rows()));
    probe.program = std::move(g).finish();
    return probe;
}

// One product after another.
Probe products(DType type, int dim, int count) {
    Probe probe;
    add_table(probe, "table", dim);
    const std::vector<std::byte> matrix = random_matrix(type, dim);
    Graph g;
    Tensor x = table(g, "table", dim);
    for (int i = 0; i < count; ++i) {
        const std::string name = fmt::format("w{}", i);
        probe.weights.add_owned(name, type, {dim, dim}, matrix);
        x = g.linear(g.weight(name, graph::matrix_type(type, Dim::of(dim), dim)), x);
    }
    return finish(std::move(probe), std::move(g), x);
}

// Norms, activations and sums, in about the shares that they have of a layer.
Probe activations(int dim, int rounds) {
    Probe probe;
    add_table(probe, "table", dim);
    std::vector<std::byte> ones(static_cast<size_t>(dim) * sizeof(float));
    std::vector<float> values(static_cast<size_t>(dim), 1.0F);
    std::memcpy(ones.data(), values.data(), ones.size());
    probe.weights.add_owned("norm", DType::f32, {dim}, std::move(ones));
    Graph g;
    Tensor x = table(g, "table", dim);
    const Tensor norm = g.weight("norm", graph::vector_type(DType::f32, dim));
    for (int i = 0; i < rounds; ++i) {
        const Tensor n = g.rms_norm(x, norm, 1e-6F);
        x = g.add(x, g.glu(n, n, op::Activation::gelu_tanh));
    }
    return finish(std::move(probe), std::move(g), x);
}

constexpr int kHeads = 8;
constexpr int kKvHeads = 2;
constexpr int kHeadDim = 128;

Probe attention(int layers) {
    Probe probe;
    add_table(probe, "q", kHeads * kHeadDim);
    add_table(probe, "k", kKvHeads * kHeadDim);
    Graph g;
    const Tensor k = table(g, "k", kKvHeads * kHeadDim);
    Tensor x = table(g, "q", kHeads * kHeadDim);
    for (int i = 0; i < layers; ++i) {
        const int cache = g.cache(kKvHeads, kHeadDim, 0);
        x = g.attention(x, g.kv_write(k, k, cache),
                        {.cache = cache,
                         .heads = kHeads,
                         .kv_heads = kKvHeads,
                         .head_dim = kHeadDim,
                         .scale = 1.0F / std::sqrt(static_cast<float>(kHeadDim))});
    }
    return finish(std::move(probe), std::move(g), x);
}

class Measurement {
  public:
    Measurement(device::Backend& backend, const device::Rates& rates, const SpeedOptions& options)
        : backend_(backend), options_(options), sizes_(sizes_for(backend.describe(), rates)) {
        speeds_.rates = rates;
        rates_known_ = rates.matrix_flops_per_s > 0;
    }

    Result<plan::Speeds> make() {
        TRY(measure_dispatch());
        TRY(told());
        TRY(measure_activations());
        TRY(told());
        TRY(measure_attention());
        TRY(told());
        for (const DType type : options_.types) {
            TRY(measure_products(type));
            TRY(told());
        }
        if (rates_known_) return speeds_;
        // What its own kernels reach is the limit of a device without units for matrices.
        for (const plan::ProductCurve& curve : speeds_.products) {
            const plan::ProductPoint& most = curve.points.back();
            const double flops_of_a_byte = 2.0 * most.rows * 8 / info(curve.type).bits_per_element();
            speeds_.rates.matrix_flops_per_s =
                std::max(speeds_.rates.matrix_flops_per_s, flops_of_a_byte / most.seconds_per_byte);
        }
        return speeds_;
    }

  private:
    Status told() {
        ++done_;
        const auto parts = static_cast<double>(options_.types.size() + 3);
        return options_.progress ? options_.progress(done_ / parts) : Status(Ok{});
    }

    Result<std::unique_ptr<device::Executable>> compile(const Probe& probe, int rows,
                                                        std::shared_ptr<device::KvCache> cache = nullptr) {
        return backend_.compile(probe.program, probe.weights, std::move(cache),
                                {.limits = {.tokens = rows, .outputs = 1}, .results = {kResult}});
    }

    // A part that has next to nothing to do.
    Status measure_dispatch() {
        constexpr int kFew = 16;
        constexpr int kMany = 64;
        constexpr int kSmall = 256;
        double seconds[2] = {};
        for (const int count : {kFew, kMany}) {
            const Probe probe = products(DType::f16, kSmall, count);
            const auto executable = TRY(compile(probe, 1));
            seconds[count == kMany] = TRY(best_seconds(*executable, batch_of(1, true, 0, {})));
        }
        speeds_.dispatch_s = std::max(0.0, (seconds[1] - seconds[0]) / (kMany - kFew));
        return Ok{};
    }

    Status measure_activations() {
        constexpr int kFew = 2;
        constexpr int kMany = 6;
        const int rows = sizes_.many_rows;
        double seconds[2] = {};
        for (const int rounds : {kFew, kMany}) {
            const Probe probe = activations(sizes_.dim, rounds);
            const auto executable = TRY(compile(probe, rows));
            seconds[rounds == kMany] = TRY(best_seconds(*executable, batch_of(rows, false, 0, {})));
        }
        // A norm has two rows to read and write, the others three.
        const double bytes = (kMany - kFew) * 8.0 * sizes_.dim * sizeof(float) * rows;
        speeds_.activation_bytes_per_s = bytes / std::max(seconds[1] - seconds[0], 1e-9);
        return Ok{};
    }

    Status measure_attention() {
        constexpr int kSequences = 8;
        constexpr int kBlock = 32;
        constexpr int kLayers = 4;
        const Probe probe = attention(kLayers);
        const int rows = sizes_.many_rows;
        const int blocks = engine::blocks_of(sizes_.positions + rows, kBlock);
        const std::shared_ptr<device::KvCache> cache = TRY(backend_.make_cache({.layers = probe.program.caches,
                                                                                .dtype = DType::f16,
                                                                                .block_tokens = kBlock,
                                                                                .blocks = {kSequences * blocks}}));
        std::vector<std::vector<int32_t>> tables(kSequences, std::vector<int32_t>(static_cast<size_t>(blocks)));
        for (int i = 0; i < kSequences; ++i) {
            std::vector<int32_t>& table = tables[static_cast<size_t>(i)];
            std::iota(table.begin(), table.end(), i * blocks);
        }
        const auto executable = TRY(compile(probe, std::max(rows, kSequences), cache));
        const auto flops_per_s = [&](const device::Batch& batch, int past) -> Result<double> {
            const double flops_before = flops_of(batch, 0);
            device::Batch near = batch;
            for (device::SequenceRows& sequence : near.sequences) sequence.past = 0;
            std::iota(near.positions.begin(), near.positions.end(), 0);
            if (near.sequences.size() > 1) std::fill(near.positions.begin(), near.positions.end(), 0);
            const double least = TRY(best_seconds(*executable, near));
            const double most = TRY(best_seconds(*executable, batch));
            return kLayers * (flops_of(batch, past) - flops_before) / std::max(most - least, 1e-9);
        };
        speeds_.attention_row_flops_per_s =
            TRY(flops_per_s(batch_of(kSequences, true, sizes_.positions, tables), sizes_.positions));
        speeds_.attention_flops_per_s =
            TRY(flops_per_s(batch_of(rows, false, sizes_.positions, tables), sizes_.positions));
        return Ok{};
    }

    // Of one layer, were there `past` positions behind each sequence.
    static double flops_of(const device::Batch& batch, int past) {
        double pairs = 0;
        for (const device::SequenceRows& sequence : batch.sequences)
            pairs += sequence.rows * (past + (sequence.rows + 1) / 2.0);
        return 4 * pairs * kHeads * kHeadDim;
    }

    Status measure_products(DType type) {
        plan::ProductCurve curve{.type = type, .points = {}};
        const double matrix_bytes = static_cast<double>(row_bytes(type, sizes_.dim)) * sizes_.dim;
        const auto measure = [&](int count, std::initializer_list<int> all_rows) -> Status {
            const Probe probe = products(type, sizes_.dim, count);
            const auto executable = TRY(compile(probe, std::max(all_rows)));
            for (const int rows : all_rows) {
                const bool one_row_each = rows <= 64;
                const double seconds = TRY(best_seconds(*executable, batch_of(rows, one_row_each, 0, {})));
                const double products_s = seconds - count * speeds_.dispatch_s;
                curve.points.push_back({rows, std::max(products_s, seconds / 10) / (count * matrix_bytes)});
            }
            return Ok{};
        };
        const auto few = static_cast<int>(std::ceil(static_cast<double>(sizes_.weight_bytes) / matrix_bytes));
        TRY(measure(few, {1, 2, 4, 8}));
        constexpr int kSome = 32;
        if (sizes_.many_rows <= kSome) {
            TRY(measure(2, {16, kSome}));
        } else {
            TRY(measure(2, {16, kSome, 2 * kSome, sizes_.many_rows}));
        }
        speeds_.products.push_back(std::move(curve));
        return Ok{};
    }

    device::Backend& backend_;
    const SpeedOptions& options_;
    const Sizes sizes_;
    plan::Speeds speeds_;
    bool rates_known_ = false;  // of matrices
    double done_ = 0;
};

}  // namespace

Result<plan::Speeds> measure_speeds(device::Backend& backend, const device::Rates& rates, const SpeedOptions& options) {
    return Measurement(backend, rates, options).make();
}

}  // namespace tandem::measure
