// Orders: what rank 0 tells the others, who do it in the order in which it comes, and what they answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/backend.h"
#include "device/rates.h"
#include "ranks/stage.h"
#include "ranks/wire.h"

namespace tandem::ranks {

enum class OrderKind : uint8_t { hosts, compile, step, copy, drop_executable, drop_cache, measure, end };

struct CompileOrder {
    uint32_t executable = 0;
    std::optional<uint32_t> cache = {};
    DType cache_dtype = DType::f16;
    int32_t block_tokens = 0;
    std::vector<int32_t> blocks = {};  // of the cache, by group
    graph::Extents limits = {};
    std::vector<std::string> results = {};
    bool ready = false;
    bool exact_rows = false;
    std::vector<int32_t> cuts = {};
    uint64_t fingerprint = 0;  // of the model

    void write(Writer& writer) const;
    static Result<CompileOrder> read(ByteReader& reader);
};

struct CopyOrder {
    uint32_t cache = 0;
    int32_t group = 0;
    std::vector<std::pair<int32_t, int32_t>> from_to = {};

    void write(Writer& writer) const;
    static Result<CopyOrder> read(ByteReader& reader);
};

// What follows an order to compile, to step or to measure.
struct Done {
    std::string error = {};  // empty: it is done
    StageSeconds seconds = {};
    uint64_t weight_bytes = 0;        // of the part that was compiled
    std::vector<double> hops = {};    // by rank: Post::hop_seconds()
    std::vector<uint64_t> sent = {};  // by rank: Post::sent_bytes()
    device::Rates rates = {};         // that were measured

    void write(Writer& writer) const;
    static Result<Done> read(std::span<const std::byte> message);
};

// The same for the same model: its Program, its weights' names, types and shapes, and the numbers of its last norm.
uint64_t fingerprint(const graph::Program& program, const graph::Weights& weights);

}  // namespace tandem::ranks
