// Step: a node of a Program as the array runs it, made ready once for any number of rows within the limits.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/threads.h"
#include "device/backend.h"
#include "device/host_memory.h"
#include "npu/array.h"
#include "npu/designs/gemm.h"
#include "npu/estimate.h"
#include "npu/runtime.h"

namespace tandem::npu {

// A value of the Program, rows of floats in host memory.
struct Operand {
    float* values = nullptr;
    int64_t rows = 0;  // that there is room for
    int64_t cols = 0;
    std::shared_ptr<Buffer> device = nullptr;  // where nobody but the array writes: a product leaves its result there
};

// What the steps of all Executables of a backend share: designs that were loaded, weights that were packed, and memory,
// as one step runs at a time.
class Workshop {
  public:
    Workshop(std::unique_ptr<Runtime> runtime, const Array& array) : runtime_(std::move(runtime)), array_(array) {}

    Runtime& runtime() { return *runtime_; }
    const Array& array() const { return array_; }

    // Zeros.
    Result<std::shared_ptr<Buffer>> allocate(uint64_t size_bytes);
    // Memory for what a step needs only while it runs; the next step may be given the same. Its number is the step's
    // own choice. What the array alone writes has numbers of its own, since the device does not see the host's caches:
    // memory that the host has written to would have to be flushed before each run.
    Result<Buffer*> scratch(size_t number, int64_t size_bytes);
    Result<std::shared_ptr<Buffer>> result(size_t number, int64_t size_bytes);
    // For the values of the Executable that runs: at least so much.
    Result<std::shared_ptr<device::HostBuffer>> values(uint64_t size_bytes);
    // The design of that name and shape, loaded when it is first asked for.
    Result<LoadedDesign*> load(const Design& design);
    // A matrix as gemm_i8() takes it, int8 with a scale for each row, and with its bias if there is one; packed once
    // for all that use both.
    Result<std::shared_ptr<Buffer>> weight(const std::string& name, const graph::WeightView& view,
                                           const graph::WeightView* bias);
    // What the matrix products of a run take, packed by the first that takes it.
    struct PackedValue {
        uint64_t run = 0;
        graph::ValueId value = 0;

        bool operator==(const PackedValue&) const = default;
    };
    // Whether it is `value` that lies packed in the memory kept for that.
    bool is_packed(const PackedValue& value) const { return packed_ == value; }
    void set_packed(const PackedValue& value) { packed_ = value; }
    // A new number for each.
    uint64_t begin_run() { return ++runs_; }
    // For what the host does between the runs of the array.
    ThreadPool& threads() { return threads_; }

  private:
    std::unique_ptr<Runtime> runtime_;
    const Array& array_;
    std::map<std::string, std::unique_ptr<LoadedDesign>> designs_;
    // By where the file has the matrix and the bias.
    std::map<std::pair<const std::byte*, const std::byte*>, std::weak_ptr<Buffer>> weights_;
    std::vector<std::shared_ptr<Buffer>> scratch_, results_;
    std::shared_ptr<device::HostBuffer> values_;
    PackedValue packed_{.run = 0, .value = -1};
    uint64_t runs_ = 0;
    ThreadPool threads_;
};

using Cost = device::StepCost;

// An array, and how kindly it is taken.
struct Assumed {
    const Array& array;
    Outlook outlook = kMiddle;
};
// Of a run of the design by itself. `samples` and `shares` as foresee() takes them.
Result<Cost> cost_of(const Design& design, const Assumed& assumed, std::span<const Sample> samples = {},
                     std::span<const Share> shares = {});

// What the host does for a step while the array waits.
struct HostWork {
    double rounded = 0;   // floats that it rounds to int8 and packs
    double queries = 0;   // the same for attention, by one core
    double gathered = 0;  // bytes of keys and values that it takes out of the cache and packs
    double coded = 0;     // floats that it writes into the cache
    double copied = 0;    // bytes
    double summed = 0;    // floats of norms and sums
    double turned = 0;    // floats by rope
    double gated = 0;     // results of gated activations
    double flushed = 0;   // bytes that go from its caches to memory or are thrown out of them
};
Cost cost_of(const HostWork& work);

// The costs of steps in sizes that came before: making a design takes longer than looking for it.
class CostTable {
  public:
    explicit CostTable(const Assumed& assumed) : assumed_(assumed) {}

    const Assumed& assumed() const { return assumed_; }
    const Array& array() const { return assumed_.array; }
    // `key` names the kind of step and all its sizes.
    template <typename Make>
    Result<Cost> get(const std::string& key, const Make& make) {
        if (const auto found = known_.find(key); found != known_.end()) return found->second;
        const Cost made = TRY(make());
        return known_.emplace(key, made).first->second;
    }

  private:
    Assumed assumed_;
    std::map<std::string, Cost> known_;
};

// What a step needs for one size, made when it first comes.
template <typename Size, typename Value>
class BySize {
  public:
    template <typename Make>
    Result<const Value*> get(const Size& size, const Make& make) {
        if (const auto found = values_.find(size); found != values_.end()) return &found->second;
        Value made = TRY(make());
        return &values_.emplace(size, std::move(made)).first->second;
    }

  private:
    std::map<Size, Value> values_;
};

struct StepContext {
    const device::Batch& batch;
    int64_t rows = 0;  // of the values with a row for each token
    uint64_t run = 0;  // of the Workshop's
};

class Step {
  public:
    Step() = default;
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    virtual ~Step() = default;

    // Returns the seconds that the array took, by the clock or by its emulator's estimate.
    virtual Result<double> run(const StepContext& context) = 0;
};

// What a step is made from.
struct StepSource {
    const graph::Program& program;
    const graph::Node& node;
    const graph::Weights& weights;
    std::shared_ptr<device::KvCache> cache;
    std::function<Operand(graph::ValueId)> value;

    const graph::Value& input_value(size_t index) const { return program.value(node.inputs[index]); }
    Operand input(size_t index) const { return value(node.inputs[index]); }
    Operand output() const { return value(node.output); }
};

// Rows that a design for `rows` of them is made for: a power of two, so that there are few designs.
int64_t design_rows(int64_t rows);

// The obstacle of what is no activation.
inline constexpr const char* kNotOfEveryToken = "it takes what is not a row of floats for each token";

// A row of floats for each token: what steps take and make.
bool is_activation(const graph::Program& program, graph::ValueId id);

// How nodes of a kind become steps, and what they would run.
struct StepMaker {
    // Why the NPU cannot run the node, in words that name what is in the way; empty: it can.
    std::string (*obstacle)(const graph::Program& program, const graph::Node& node);
    Result<std::unique_ptr<Step>> (*make)(Workshop& shop, const StepSource& source);
    // By the cost model, each design started by itself, as steps start them.
    Result<Cost> (*predict)(CostTable& costs, const graph::Program& program, const graph::Node& node,
                            const device::Batch& batch);
};

extern const StepMaker kLinearStep;
extern const StepMaker kAttentionStep;
extern const StepMaker kKvWriteStep;  // the host does it, as keys and values come from the array

// What the host does in between, since the array is slow at it: norms, rope, sums and gated activations.
bool is_host_op(const graph::Program& program, const graph::Node& node);
Cost predict_host_op(const graph::Program& program, const graph::Node& node, const device::Batch& batch);

// Null where the NPU has none for it.
const StepMaker* find_step(const graph::Program& program, const graph::Node& node);

}  // namespace tandem::npu
