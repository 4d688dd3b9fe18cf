#include "ranks/worker.h"

#include <map>

#include "ranks/order.h"

namespace tandem::ranks {

namespace {

class Worker {
  public:
    Worker(Post& post, const WorkerOptions& options) : post_(post), options_(options) {}

    Status run() {
        for (;;) {
            const Post::Message message = TRY(post_.receive(0, Channel::command));
            ByteReader reader(message.body());
            const auto kind = static_cast<OrderKind>(reader.read<uint8_t>("an order"));
            if (kind == OrderKind::end) return Ok{};
            TRY(obey(kind, reader));
        }
    }

  private:
    struct Compiled {
        std::vector<Part> parts;
        std::unique_ptr<Stage> stage;
        BatchReader batches;
    };

    Status obey(OrderKind kind, ByteReader& reader);
    Status compile(const CompileOrder& order, Done& done);
    Result<std::shared_ptr<device::KvCache>> cache_of(const CompileOrder& order, const Part& part);
    Status step(ByteReader& reader);
    Status copy(const CopyOrder& order);
    void answer(Done done);

    Post& post_;
    const WorkerOptions& options_;
    std::map<uint32_t, Compiled> compiled_;
    std::map<uint32_t, std::shared_ptr<device::KvCache>> caches_;
    std::string failed_copy_;  // told with the next step
};

// What goes wrong on this rank is told to rank 0; only what cannot be understood, or be told, ends it.
Status Worker::obey(OrderKind kind, ByteReader& reader) {
    switch (kind) {
        case OrderKind::hosts:
            for (int rank = 0; rank < post_.size(); ++rank) post_.name_host(rank, read_text(reader));
            return reader.status();
        case OrderKind::compile: {
            const CompileOrder order = TRY(CompileOrder::read(reader));
            Done done;
            if (const Status compiled = compile(order, done); !compiled) done.error = compiled.error().message;
            answer(std::move(done));
            return Ok{};
        }
        case OrderKind::step:
            return step(reader);
        case OrderKind::copy:
            return copy(TRY(CopyOrder::read(reader)));
        case OrderKind::drop_executable:
            compiled_.erase(reader.read<uint32_t>("an executable"));
            return reader.status();
        case OrderKind::drop_cache:
            caches_.erase(reader.read<uint32_t>("a cache"));
            return reader.status();
        case OrderKind::measure: {
            Done done;
            const Result<device::Rates> rates =
                options_.measure_rates ? options_.measure_rates() : Result<device::Rates>(device::Rates{});
            if (rates) {
                done.rates = *rates;
            } else {
                done.error = rates.error().message;
            }
            answer(std::move(done));
            return Ok{};
        }
        case OrderKind::end:
            break;
    }
    return fail("rank 0 sent an order of an unknown kind: do all ranks run the same version?");
}

Result<std::shared_ptr<device::KvCache>> Worker::cache_of(const CompileOrder& order, const Part& part) {
    if (!order.cache || part.program.caches.empty()) return std::shared_ptr<device::KvCache>();
    std::shared_ptr<device::KvCache>& cache = caches_[*order.cache];
    if (!cache) {
        cache = TRY(options_.backend.make_cache({.layers = part.program.caches,
                                                 .dtype = order.cache_dtype,
                                                 .block_tokens = order.block_tokens,
                                                 .blocks = order.blocks}));
    }
    return cache;
}

Status Worker::compile(const CompileOrder& order, Done& done) {
    if (order.fingerprint != fingerprint(options_.program, options_.weights))
        return fail("its model is another one than that of {}: all ranks need the same file", post_.name(0));
    Compiled& compiled = compiled_[order.executable];
    compiled.parts = TRY(cut_into_parts(graph::keep_results(options_.program, order.results), order.cuts));
    const Part& part = compiled.parts[static_cast<size_t>(post_.rank())];
    done.weight_bytes = weights_of(part.program, options_.weights).size_bytes();
    std::shared_ptr<device::KvCache> cache = TRY(cache_of(order, part));
    compiled.stage = TRY(Stage::open({.post = post_,
                                      .parts = compiled.parts,
                                      .weights = options_.weights,
                                      .backend = options_.backend,
                                      .cache = std::move(cache),
                                      .results = order.results,
                                      .limits = order.limits,
                                      .exact_rows = order.exact_rows,
                                      .ready = order.ready}));
    return Ok{};
}

Status Worker::step(ByteReader& reader) {
    const auto found = compiled_.find(reader.read<uint32_t>("an executable"));
    const auto micro_rows = reader.read<int32_t>("rows of a micro-batch");
    if (found == compiled_.end() || !found->second.stage || micro_rows < 1)
        return fail("rank 0 ordered a step of what was not compiled");
    Compiled& compiled = found->second;
    TRY(compiled.batches.read(reader));
    bool has_masks = false;
    Status masked = Ok{};
    const auto receive_masks = [&] {
        if (std::exchange(has_masks, true)) return;
        const Result<Post::Message> masks = post_.receive(0, Channel::masks);
        masked = masks ? compiled.batches.set_masks(masks->body()) : Status(masks.error());
    };
    Done done;
    bool broken = false;
    const Status ran = compiled.stage->run(
        {.batch = compiled.batches.batch(), .micro_rows = micro_rows, .find_allowed = receive_masks}, done.seconds,
        broken);
    if (broken) return ran.error();
    if (compiled.batches.wants_masks()) receive_masks();  // that were sent, though nothing came to ask for them
    TRY(std::move(masked));
    if (!ran) done.error = ran.error().message;
    if (!failed_copy_.empty()) done.error = std::exchange(failed_copy_, "");
    answer(std::move(done));
    return Ok{};
}

Status Worker::copy(const CopyOrder& order) {
    const auto cache = caches_.find(order.cache);
    if (cache == caches_.end()) return Ok{};  // of no layer of this rank
    const Status copied = cache->second->copy_blocks(order.group, order.from_to);
    if (!copied) failed_copy_ = copied.error().message;
    return Ok{};
}

void Worker::answer(Done done) {
    for (int rank = 0; rank < post_.size(); ++rank) {
        done.hops.push_back(post_.hop_seconds(rank));
        done.sent.push_back(post_.sent_bytes(rank));
    }
    Writer writer;
    done.write(writer);
    post_.send(0, Channel::done, writer.bytes());
}

}  // namespace

Status work(Post& post, const WorkerOptions& options) {
    return Worker(post, options).run();
}

}  // namespace tandem::ranks
