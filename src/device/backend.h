// Backend: the one interface between the engine and a device that runs Programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "device/batch.h"
#include "device/cache_layout.h"
#include "graph/program.h"
#include "graph/weights.h"

namespace tandem::device {

struct MemoryPool {
    std::string name;
    uint64_t size_bytes = 0;
    uint64_t free_bytes = 0;
};

enum class Kind : uint8_t {
    cpu,
    gpu,             // with memory of its own
    integrated_gpu,  // that shares the memory of the machine
    software_gpu,    // the CPU behind an interface of GPUs
    npu,
};

// What a device is, for reports and for planning.
struct Description {
    Kind kind = Kind::cpu;
    std::string name;          // as in --device: "cpu"
    std::string hardware;      // "AMD Ryzen 9 8945HS"
    std::string details = {};  // "16 threads, AVX3"
    std::vector<MemoryPool> pools = {};
    std::string unusable = {};  // why it cannot run models; empty: it can
    int step_rows = 0;          // of a prompt that it should be given at once; 0: it does not matter

    uint64_t largest_free_bytes() const;  // of a pool
    uint64_t free_bytes() const;          // of all pools together
};

struct CacheShape {
    std::vector<graph::CacheLayer> layers;
    DType dtype = DType::f16;  // f32, f16, or q8_0: int8 with a scale for each 32 elements of a head
    int block_tokens = 32;
    std::vector<int> blocks;  // per cache group
    bool shared = false;      // in host memory that other devices of the machine use too

    uint64_t size_bytes() const;
    // Whether there can be such a cache; a model's heads may not suit its type.
    Status check() const;
};

// The keys and values of all layers, in the device's own layout. Several Executables may share one.
class KvCache {
  public:
    explicit KvCache(CacheShape shape) : shape_(std::move(shape)) {}
    KvCache(const KvCache&) = delete;
    KvCache& operator=(const KvCache&) = delete;
    virtual ~KvCache() = default;

    const CacheShape& shape() const { return shape_; }

    // Copies whole blocks, the keys and values of all layers of the group, from the first of each pair to the second:
    // after the steps submitted before, before those submitted later. No block may be written twice, or both read and
    // written.
    virtual Status copy_blocks(int group, std::span<const std::pair<int32_t, int32_t>> from_to) = 0;

    // Of a shared cache, and of one that lies in host memory anyway: the memory of a layer's keys and values, as whole
    // pages and laid out as host_layout() says. It may be used while no step is under way, and after settle(). Empty
    // where there is none.
    virtual std::span<std::byte> host_keys(int /*layer*/) const { return {}; }
    virtual std::span<std::byte> host_values(int /*layer*/) const { return {}; }
    virtual CacheLayout host_layout(int /*layer*/) const { return {}; }
    // Waits for what copy_blocks() began.
    virtual Status settle() { return Ok{}; }

  private:
    CacheShape shape_;
};

// Where a value lies that several devices see: whole pages of host memory.
struct SharedValue {
    std::string name;
    std::span<std::byte> memory;  // what the limits allow fits
};

struct CompileOptions {
    graph::Extents limits;             // the most tokens and outputs a step may bring
    std::vector<std::string> results;  // of the Program, those that are wanted: nothing else is computed
    // Whatever any step may need is made now, and not when a step first needs it.
    bool ready = false;
    // Is told how much of this is done, from 0 to 1, and ends it by an error.
    std::function<Status(double)> progress = {};
    // Inputs other than those of every step, and results that are to be left there; outlives the Executable.
    std::vector<SharedValue> shared = {};

    // Null when there is none of that name.
    const SharedValue* find_shared(std::string_view name) const;
};

// What a part of a step took on the device, summed over all parts of that name.
struct StageTime {
    std::string name;
    int count = 0;
    double seconds = 0;
    uint64_t weight_bytes = 0;  // that it reads
};

// A Program made ready for one device. One step at a time.
class Executable {
  public:
    Executable() = default;
    Executable(const Executable&) = delete;
    Executable& operator=(const Executable&) = delete;
    virtual ~Executable() = default;

    // The most Batch::steps.
    virtual int max_steps() const { return 1; }

    // Starts a step; `batch` and what it points to must stay until wait() returns. Of a batch that limits draws it
    // calls `find_allowed` once, when the device has begun with all that comes before them.
    virtual Status submit(const Batch& batch, const FindAllowed& find_allowed) = 0;
    virtual Status wait() = 0;

    // After a step that failed: whether the device is sound, and nothing but what that step was to write has changed.
    virtual bool sound_after_failure() const { return false; }

    // After wait(): the bytes of results[index] of the CompileOptions, until the next submit. Of a batch of several
    // steps "next" holds the tokens of all, step after step, and other results are those of the last.
    virtual std::span<const std::byte> result(size_t index) const = 0;

    // Runs a step with a clock read after each of its parts, which slows it down a little. Empty where there is none.
    virtual Result<std::vector<StageTime>> profile(const Batch& /*batch*/) { return std::vector<StageTime>(); }
};

// What a step would take by a device's own cost model.
struct StepCost {
    double seconds = 0;
    double memory_bytes = 0;  // that go to and from the memory of the host, which devices share

    StepCost& operator+=(const StepCost& other) {
        seconds += other.seconds;
        memory_bytes += other.memory_bytes;
        return *this;
    }
};

class Backend {
  public:
    Backend() = default;
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;
    virtual ~Backend() = default;

    // With what is free now.
    virtual Description describe() const = 0;

    virtual bool supports(const graph::Program& program, const graph::Node& node) const = 0;

    // None where the device has no cost model, or cannot run the Program.
    virtual std::optional<StepCost> predict(const graph::Program& /*program*/, const Batch& /*batch*/) const {
        return std::nullopt;
    }

    virtual Result<std::shared_ptr<KvCache>> make_cache(CacheShape shape) = 0;

    // `weights` must live as long as the Executable. `cache` may be null when the Program has no cache layers.
    virtual Result<std::unique_ptr<Executable>> compile(const graph::Program& program, const graph::Weights& weights,
                                                        std::shared_ptr<KvCache> cache,
                                                        const CompileOptions& options) = 0;
};

// submit() and wait().
Status run(Executable& executable, const Batch& batch, const FindAllowed& find_allowed = {});

// A result as numbers.
template <typename T>
std::span<const T> result_as(const Executable& executable, size_t index) {
    const std::span<const std::byte> bytes = executable.result(index);
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace tandem::device
