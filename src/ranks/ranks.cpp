#include <algorithm>
#include <map>

#include "plan/cluster.h"
#include "plan/micro_batch.h"
#include "ranks/backend.h"
#include "ranks/order.h"
#include "ranks/parts.h"

namespace tandem::ranks {

namespace {

void write(Writer& writer, const Greeting& greeting) {
    for (const std::string* text :
         {&greeting.version, &greeting.settings, &greeting.host, &greeting.device, &greeting.hardware, &greeting.error})
        writer.put_text(*text);
    writer.put(greeting.free_bytes);
}

Result<Greeting> read_greeting(std::span<const std::byte> message) {
    ByteReader reader(message);
    Greeting greeting;
    for (std::string* text :
         {&greeting.version, &greeting.settings, &greeting.host, &greeting.device, &greeting.hardware, &greeting.error})
        *text = read_text(reader);
    greeting.free_bytes = reader.read<uint64_t>("free memory");
    TRY(reader.status());
    return greeting;
}

Status check_alike(const std::string& name, const Greeting& other, const Greeting& own) {
    if (!other.error.empty()) return fail("{}: {}", name, other.error);
    if (other.version != own.version)
        return fail("{} runs version {}, rank 0 ({}) {}: install the same on all", name, other.version, own.host,
                    own.version);
    if (other.settings != own.settings)
        return fail("{} was started with '{}', rank 0 ({}) with '{}': give all ranks the same options", name,
                    other.settings, own.host, own.settings);
    return Ok{};
}

// Of rank 0's micro-batches.
graph::StepShape shape_of(const device::Batch& batch, DType kv_dtype) {
    graph::StepShape shape{.extents = {.tokens = std::ssize(batch.tokens), .outputs = std::ssize(batch.output_rows)},
                           .kv_dtype = kv_dtype};
    for (const device::SequenceRows& sequence : batch.sequences)
        shape.sequences.push_back({.past = sequence.past, .rows = sequence.rows});
    return shape;
}

}  // namespace

void greet(Post& post, const Greeting& own) {
    Writer writer;
    write(writer, own);
    post.send(0, Channel::hello, writer.bytes());
}

Result<std::shared_ptr<Ranks>> Ranks::meet(std::shared_ptr<Post> post, const Greeting& own, RankOptions options) {
    std::shared_ptr<Ranks> ranks(new Ranks(std::move(post), std::move(options)));
    Post& to = *ranks->post_;
    to.name_host(0, own.host);
    ranks->greetings_.push_back(own);
    for (int rank = 1; rank < to.size(); ++rank) {
        const Post::Message message = TRY(to.receive(rank, Channel::hello));
        Greeting other = TRY(read_greeting(message.body()));
        to.name_host(rank, other.host);
        TRY(check_alike(to.name(rank), other, own));
        ranks->greetings_.push_back(std::move(other));
    }
    Writer writer;
    writer.put(static_cast<uint8_t>(OrderKind::hosts));
    for (const Greeting& each : ranks->greetings_) writer.put_text(each.host);
    ranks->order(writer.bytes());
    return ranks;
}

Ranks::~Ranks() {
    Writer writer;
    writer.put(static_cast<uint8_t>(OrderKind::end));
    order(writer.bytes());
}

void Ranks::order(std::span<const std::byte> bytes) {
    for (int rank = 1; rank < post_->size(); ++rank) post_->send(rank, Channel::command, bytes);
}

Result<std::vector<device::Rates>> Ranks::measure_all() {
    Writer writer;
    writer.put(static_cast<uint8_t>(OrderKind::measure));
    order(writer.bytes());
    std::vector<device::Rates> rates = {options_.measure_rates ? TRY(options_.measure_rates()) : device::Rates{}};
    for (int rank = 1; rank < post_->size(); ++rank) {
        const Post::Message message = TRY(post_->receive(rank, Channel::done));
        const Done done = TRY(Done::read(message.body()));
        if (!done.error.empty()) return fail("{}: {}", post_->name(rank), done.error);
        rates.push_back(done.rates);
    }
    return rates;
}

// The cache is made afterwards, as large as what the smallest rank has left: here only weights count.
Result<std::vector<int>> Ranks::choose_cuts(const graph::Program& program, int sequences) {
    const plan::Parts parts = TRY(plan::parts_of(program));
    if (options_.split != "layers") return plan::parse_cuts(options_.split, post_->size(), parts.layers);
    std::vector<device::Rates> rates(greetings_.size(), {.read_bytes_per_s = 1});
    if (!are_alike()) rates = TRY(measure_all());
    const int group = plan::group_rows(std::max(1, sequences), post_->size());
    std::vector<plan::SplitDevice> devices;
    for (size_t rank = 0; rank < greetings_.size(); ++rank) {
        devices.push_back(plan::forecast_device(parts, {.rates = rates[rank]}, DType::f16, group));
        devices.back().name = post_->name(static_cast<int>(rank));
        devices.back().memory_bytes = greetings_[rank].free_bytes;
    }
    const device::CacheShape no_cache{.layers = program.caches, .blocks = std::vector<int>(program.caches.size())};
    const bool enough = std::ssize(parts.units) >= post_->size();
    const auto stages = TRY(plan::split_layers(plan::part_bytes(parts, no_cache), devices, {.all_devices = enough}));
    std::vector<int> cuts;
    for (size_t i = 1; i < stages.size(); ++i) cuts.push_back(parts.first_layer(stages[i].first_layer));
    while (std::ssize(cuts) + 1 < post_->size()) cuts.push_back(parts.layers);
    return cuts;
}

bool Ranks::are_alike() const {
    return std::ranges::all_of(greetings_, [&](const Greeting& each) {
        return each.device == greetings_[0].device && each.hardware == greetings_[0].hardware;
    });
}

void Ranks::note_parts(const graph::Program& program, const std::vector<Part>& parts, const graph::Weights& weights) {
    const std::lock_guard lock(mutex_);
    stages_.resize(parts.size());
    program_ = program;
    programs_.clear();
    for (size_t rank = 0; rank < parts.size(); ++rank) {
        StageReport& stage = stages_[rank];
        stage.rank = static_cast<int>(rank);
        stage.host = greetings_[rank].host;
        stage.device = greetings_[rank].device;
        stage.first_layer = parts[rank].first_layer;
        stage.end_layer = parts[rank].end_layer;
        stage.weight_bytes = weights_of(parts[rank].program, weights).size_bytes();
        programs_.push_back(parts[rank].program);
    }
}

Status Ranks::await_done(StageSeconds own) {
    std::string first_error;
    std::vector<Done> all(1);
    all[0].seconds = own;
    for (int rank = 0; rank < post_->size(); ++rank) {
        all[0].hops.push_back(post_->hop_seconds(rank));
        all[0].sent.push_back(post_->sent_bytes(rank));
    }
    for (int rank = 1; rank < post_->size(); ++rank) {
        const Post::Message message = TRY(post_->receive(rank, Channel::done));
        Done done = TRY(Done::read(message.body()));
        const bool is_its_own = !done.error.empty() && done.error != kOtherFailed;
        if (is_its_own && first_error.empty()) first_error = fmt::format("{}: {}", post_->name(rank), done.error);
        all.push_back(std::move(done));
    }
    const std::lock_guard lock(mutex_);
    for (size_t rank = 0; rank < std::min(all.size(), stages_.size()); ++rank) {
        const size_t next = (rank + 1) % all.size();
        stages_[rank].seconds += all[rank].seconds;
        stages_[rank].last = all[rank].seconds;
        stages_[rank].hop_seconds = all[rank].hops[next];
        stages_[rank].last_sent_bytes = all[rank].sent[next] - stages_[rank].sent_bytes;
        stages_[rank].sent_bytes = all[rank].sent[next];
    }
    if (!first_error.empty()) return Error{first_error};
    return Ok{};
}

void Ranks::note_step(const device::Batch& batch, int micro_rows, DType kv_dtype, double seconds) {
    std::vector<graph::StepShape> pieces;
    for (const plan::MicroBatch& each : plan::split(batch, micro_rows))
        pieces.push_back(shape_of(each.batch, kv_dtype));
    const std::lock_guard lock(mutex_);
    ++steps_;
    step_seconds_ += seconds;
    last_ = {.whole = shape_of(batch, kv_dtype), .pieces = std::move(pieces), .times = batch.steps, .seconds = seconds};
}

plan::StepShares Ranks::last_step(const plan::Speeds* speeds) const {
    const std::lock_guard lock(mutex_);
    plan::StepShares shares{.devices = {}, .seconds = last_.seconds};
    if (speeds != nullptr) shares.alone_s = last_.times * forecast_step(program_, last_.whole, *speeds).seconds;
    for (size_t rank = 0; rank < stages_.size(); ++rank) {
        const StageReport& stage = stages_[rank];
        plan::StepShares::Share& share = shares.devices.emplace_back();
        share.device = fmt::format("rank {}, {} ({})", stage.rank, stage.host, stage.device);
        share.part = stage.layers();
        share.busy_s = stage.last.busy;
        share.sent_bytes = stage.last_sent_bytes;
        if (speeds == nullptr) continue;
        for (const graph::StepShape& piece : last_.pieces)
            share.predicted_s += last_.times * forecast_step(programs_[rank], piece, *speeds).seconds;
    }
    return shares;
}

std::string StageReport::layers() const {
    if (first_layer == end_layer) return "no layers";
    return fmt::format("layers {} to {}", first_layer, end_layer - 1);
}

std::vector<StageReport> Ranks::report() const {
    const std::lock_guard lock(mutex_);
    return stages_;
}

uint64_t Ranks::steps() const {
    const std::lock_guard lock(mutex_);
    return steps_;
}

double Ranks::step_seconds() const {
    const std::lock_guard lock(mutex_);
    return step_seconds_;
}

// Ranks of one host have its memory together.
uint64_t Ranks::free_bytes() const {
    std::map<std::string, uint64_t> ranks_of_host;
    for (const Greeting& each : greetings_) ++ranks_of_host[each.host];
    uint64_t least = UINT64_MAX;
    for (const Greeting& each : greetings_) least = std::min(least, each.free_bytes / ranks_of_host[each.host]);
    return least * greetings_.size();
}

}  // namespace tandem::ranks
