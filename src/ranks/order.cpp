#include "ranks/order.h"

#include <algorithm>
#include <map>

namespace tandem::ranks {

void CompileOrder::write(Writer& writer) const {
    writer.put(static_cast<uint8_t>(OrderKind::compile));
    writer.put(executable);
    writer.put(static_cast<uint8_t>(cache ? 1 : 0));
    writer.put(cache.value_or(0));
    writer.put(static_cast<uint8_t>(cache_dtype));
    writer.put(block_tokens);
    writer.put_list(std::span(blocks));
    writer.put(limits.tokens);
    writer.put(limits.outputs);
    writer.put(static_cast<uint32_t>(results.size()));
    for (const std::string& result : results) writer.put_text(result);
    writer.put(static_cast<uint8_t>(ready ? 1 : 0));
    writer.put(static_cast<uint8_t>(exact_rows ? 1 : 0));
    writer.put_list(std::span(cuts));
    writer.put(fingerprint);
}

Result<CompileOrder> CompileOrder::read(ByteReader& reader) {
    CompileOrder order;
    order.executable = reader.read<uint32_t>("an executable");
    const bool has_cache = reader.read<uint8_t>("whether there is a cache") != 0;
    const auto cache = reader.read<uint32_t>("a cache");
    if (has_cache) order.cache = cache;
    order.cache_dtype = static_cast<DType>(reader.read<uint8_t>("a cache's type"));
    order.block_tokens = reader.read<int32_t>("tokens of a block");
    order.blocks = read_list<int32_t>(reader);
    order.limits.tokens = reader.read<int64_t>("the most tokens");
    order.limits.outputs = reader.read<int64_t>("the most outputs");
    const auto results = reader.read<uint32_t>("results");
    for (uint32_t i = 0; i < results && reader.ok(); ++i) order.results.push_back(read_text(reader));
    order.ready = reader.read<uint8_t>("ready") != 0;
    order.exact_rows = reader.read<uint8_t>("exact rows") != 0;
    order.cuts = read_list<int32_t>(reader);
    order.fingerprint = reader.read<uint64_t>("a fingerprint");
    TRY(reader.status());
    return order;
}

void CopyOrder::write(Writer& writer) const {
    writer.put(static_cast<uint8_t>(OrderKind::copy));
    writer.put(cache);
    writer.put(group);
    writer.put(static_cast<uint32_t>(from_to.size()));
    for (const auto& [from, to] : from_to) {
        writer.put(from);
        writer.put(to);
    }
}

Result<CopyOrder> CopyOrder::read(ByteReader& reader) {
    CopyOrder order;
    order.cache = reader.read<uint32_t>("a cache");
    order.group = reader.read<int32_t>("a group");
    const auto count = reader.read<uint32_t>("copies");
    for (uint32_t i = 0; i < count && reader.ok(); ++i) {
        const auto from = reader.read<int32_t>("a block");
        order.from_to.emplace_back(from, reader.read<int32_t>("a block"));
    }
    TRY(reader.status());
    return order;
}

void Done::write(Writer& writer) const {
    writer.put_text(error);
    writer.put(seconds.busy);
    writer.put(seconds.waiting);
    writer.put(weight_bytes);
    writer.put_list(std::span(hops));
    writer.put_list(std::span(sent));
    writer.put(rates.read_bytes_per_s);
    writer.put(rates.matrix_flops_per_s);
}

Result<Done> Done::read(std::span<const std::byte> message) {
    ByteReader reader(message);
    Done done;
    done.error = read_text(reader);
    done.seconds.busy = reader.read<double>("seconds");
    done.seconds.waiting = reader.read<double>("seconds");
    done.weight_bytes = reader.read<uint64_t>("bytes of weights");
    done.hops = read_list<double>(reader);
    done.sent = read_list<uint64_t>(reader);
    done.rates.read_bytes_per_s = reader.read<double>("a rate");
    done.rates.matrix_flops_per_s = reader.read<double>("a rate");
    TRY(reader.status());
    return done;
}

namespace {

// FNV-1a.
class Hash {
  public:
    void add(std::span<const std::byte> bytes) {
        for (const std::byte each : bytes) value_ = (value_ ^ static_cast<uint64_t>(each)) * 0x100000001b3ULL;
    }
    void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
    uint64_t value() const { return value_; }

  private:
    uint64_t value_ = 0xcbf29ce484222325ULL;
};

}  // namespace

uint64_t fingerprint(const graph::Program& program, const graph::Weights& weights) {
    Hash hash;
    hash.add(graph::to_string(program));
    const std::map<std::string, graph::WeightView> sorted(weights.all().begin(), weights.all().end());
    for (const auto& [name, view] : sorted) {
        hash.add(fmt::format("{} {} {} {}\n", name, tandem::name(view.dtype), view.elements(), view.size_bytes()));
    }
    if (const graph::WeightView* norm = weights.find("output_norm.weight")) hash.add(norm->data);
    return hash.value();
}

}  // namespace tandem::ranks
