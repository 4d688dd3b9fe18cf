#define HWY_WANT_AVX3_DL  // so that it can be named
#include "cpu/backend.h"

#include <fmt/format.h>
#include <hwy/targets.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "cpu/executable.h"
#include "cpu/kernel.h"
#include "cpu/kv_cache.h"
#include "device/host_memory.h"

namespace tandem::cpu {

namespace {

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    std::string line;
    while (std::getline(file, line)) {
        const size_t colon = line.find(": ");
        if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
    }
    return "unknown processor";
}

// The instruction set that the SIMD kernels run with: the best one that was compiled and the processor has.
std::string best_target() {
    return hwy::TargetName(hwy::SupportedAndGeneratedTargets().front());
}

std::string details(const Options& options, int threads) {
    const std::string code = options.reference ? "reference ops" : best_target();
    return fmt::format("{} thread{}, {}", threads, threads == 1 ? "" : "s", code);
}

// Makes the pages of a mapped file that the Program reads present, so that they are read here, where progress can be
// seen, and not by the first step. A page that cannot be had is left to that step.
Status read_in(const graph::Program& program, const graph::Weights& weights, ThreadPool& threads,
               const std::function<Status(double)>& progress) {
    constexpr size_t kPiece = size_t{256} << 20;
    constexpr int64_t kGrain = int64_t{4} << 20;
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    uint64_t total = 0;
    uint64_t done = 0;
    std::vector<std::span<const std::byte>> all;
    for (const graph::Value& value : program.values) {
        const graph::WeightView* view = value.kind == graph::Value::Kind::weight ? weights.find(value.name) : nullptr;
        if (view == nullptr) continue;  // the compiler tells
        total += view->size_bytes();
        all.push_back(view->data);
        all.insert(all.end(), view->parts.begin(), view->parts.end());
    }
    for (const std::span<const std::byte> bytes : all) {
        for (size_t begin = 0; begin < bytes.size(); begin += kPiece) {
            const std::span<const std::byte> piece = bytes.subspan(begin, std::min(kPiece, bytes.size() - begin));
            threads.for_each_range(std::ssize(piece), kGrain, [&](int64_t from, int64_t to, int /*thread*/) {
                const auto first = reinterpret_cast<uintptr_t>(piece.data() + from) / page * page;
                const auto end = reinterpret_cast<uintptr_t>(piece.data() + to);
                madvise(reinterpret_cast<void*>(first), end - first, MADV_POPULATE_READ);
            });
            done += piece.size();
            TRY(progress(static_cast<double>(done) / static_cast<double>(total)));
        }
    }
    return Ok{};
}

class CpuBackend final : public device::Backend {
  public:
    explicit CpuBackend(const Options& options)
        : options_(options), threads_(std::make_shared<ThreadPool>(options.threads)) {
        description_ = {.kind = device::Kind::cpu,
                        .name = "cpu",
                        .hardware = processor_name(),
                        .details = details(options, threads_->size())};
    }

    device::Description describe() const override {
        device::Description now = description_;
        const device::HostMemory memory = device::host_memory();
        now.pools = {{"host memory", memory.size_bytes, memory.available_bytes}};
        return now;
    }

    bool supports(const graph::Program& program, const graph::Node& node) const override {
        std::vector<graph::TensorType> inputs;
        for (graph::ValueId input : node.inputs) inputs.push_back(program.value(input).type);
        return find_kernel(node.op, inputs, options_.reference) != nullptr;
    }

    Result<std::shared_ptr<device::KvCache>> make_cache(device::CacheShape shape) override {
        return std::shared_ptr<device::KvCache>(TRY(PagedCache::create(std::move(shape))));
    }

    Result<std::unique_ptr<device::Executable>> compile(const graph::Program& program, const graph::Weights& weights,
                                                        std::shared_ptr<device::KvCache> cache,
                                                        const device::CompileOptions& options) override {
        auto paged = std::dynamic_pointer_cast<PagedCache>(cache);
        CHECK(cache == nullptr || paged != nullptr, "the cache belongs to another device");
        if (options.progress) TRY(read_in(program, weights, *threads_, options.progress));
        return cpu::compile({.program = program,
                             .weights = weights,
                             .cache = std::move(paged),
                             .options = options,
                             .threads = threads_,
                             .reference_only = options_.reference,
                             .observer = options_.observer});
    }

  private:
    Options options_;
    std::shared_ptr<ThreadPool> threads_;
    device::Description description_;
};

}  // namespace

Result<std::unique_ptr<device::Backend>> make_backend(const Options& options) {
    constexpr int kMostThreads = 1024;
    if (options.threads < 0 || options.threads > kMostThreads)
        return fail("{} threads: choose 1 to {}, or 0 for one per core", options.threads, kMostThreads);
    return std::unique_ptr<device::Backend>(std::make_unique<CpuBackend>(options));
}

}  // namespace tandem::cpu
