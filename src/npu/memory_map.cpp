#include "npu/memory_map.h"

#include <algorithm>

#include "npu/tile_use.h"

namespace tandem::npu {
namespace {

constexpr double kCountedMacs = 256;  // Counts::matrix_cycles: at so many int8 products a cycle

std::string buffer_name(const std::variant<ObjectArgument, BufferArgument, int32_t>& argument) {
    if (const auto* object = std::get_if<ObjectArgument>(&argument)) return object->fifo;
    if (const auto* buffer = std::get_if<BufferArgument>(&argument)) return buffer->buffer;
    return "";
}

std::vector<const Call*> matrix_calls(const Design& design, const std::vector<Statement>& body) {
    std::vector<const Call*> calls;
    for (const Statement& statement : body) {
        const auto* call = std::get_if<Call>(&statement);
        if (call != nullptr && !find_kernel_use(design, call->kernel)->mmul.empty()) calls.push_back(call);
        const auto* loop = std::get_if<Loop>(&statement);
        if (loop == nullptr) continue;
        for (const Call* inner : matrix_calls(design, loop->body)) calls.push_back(inner);
    }
    return calls;
}

int64_t aligned_bytes(const ObjectType& object) {
    return (object.size_bytes() + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

bool lies_on(const Array& array, const Fifo& fifo, Tile core) {
    if (shares_memory(fifo, array)) return shared_tile(fifo, array) == core;
    return fifo.producer == core ||
           std::find(fifo.consumers.begin(), fifo.consumers.end(), core) != fifo.consumers.end();
}

}  // namespace

std::vector<PlacedBuffer> memory_map(const Design& design, const Array& array, Tile core) {
    std::vector<PlacedBuffer> map;
    const auto add = [&](const std::string& name, int object, const ObjectType& type) {
        map.push_back({.name = name, .object = object, .begin = 0, .end = aligned_bytes(type)});
    };
    for (const Fifo& fifo : design.fifos) {
        if (!lies_on(array, fifo, core)) continue;
        for (int i = 0; i < fifo.depth; ++i) add(fifo.name, i, fifo.object);
    }
    int64_t at = 0;
    for (const Worker& worker : design.workers) {
        if (worker.tile != core) continue;
        at = worker.stack_bytes;
        for (const LocalBuffer& buffer : worker.buffers) add(buffer.name, 0, buffer.type);
    }
    std::stable_sort(map.begin(), map.end(),
                     [](const PlacedBuffer& a, const PlacedBuffer& b) { return a.end - a.begin > b.end - b.begin; });
    for (PlacedBuffer& buffer : map) {
        buffer.end += at - buffer.begin;
        buffer.begin = at;
        at = buffer.end;
    }
    return map;
}

bool share_a_bank(const std::vector<PlacedBuffer>& map, const Array& array, const std::string& a,
                  const std::string& b) {
    const int64_t bank = array.compute.memory_bytes / array.compute.banks;
    for (const PlacedBuffer& one : map) {
        for (const PlacedBuffer& other : map) {
            if (one.name != a || other.name != b) continue;
            if (one.begin / bank <= (other.end - 1) / bank && other.begin / bank <= (one.end - 1) / bank) return true;
        }
    }
    return false;
}

// Two loads of 32 bytes a cycle: where a matrix product reads both operands from one bank, one.
IssueRates issue_rates(const Design& design, const Worker& worker, const Array& array, const Call& call,
                       const Kernel& kernel) {
    IssueRates rates{.matrix_products = 1, .load_bytes = static_cast<double>(array.local_load_bytes_per_cycle)};
    if (kernel.mmul.empty()) return rates;
    if (kernel.mmul == fmt::format("{}x8x8 i8", array.native_rows_i8))
        rates.matrix_products = array.macs_per_cycle_i8 / kCountedMacs;
    const std::string left = buffer_name(call.arguments[0]);
    const std::string right = buffer_name(call.arguments[1]);
    if (left != right && share_a_bank(memory_map(design, array, worker.tile), array, left, right))
        rates.load_bytes /= 2;
    return rates;
}

bool operands_apart(const Design& design, const Array& array) {
    return std::ranges::all_of(design.workers, [&](const Worker& worker) {
        const std::vector<PlacedBuffer> map = memory_map(design, array, worker.tile);
        return std::ranges::none_of(matrix_calls(design, worker.body), [&](const Call* call) {
            return share_a_bank(map, array, buffer_name(call->arguments[0]), buffer_name(call->arguments[1]));
        });
    });
}

}  // namespace tandem::npu
