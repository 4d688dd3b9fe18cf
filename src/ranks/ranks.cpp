#include <algorithm>
#include <map>
#include <numeric>

#include "plan/split.h"
#include "ranks/backend.h"
#include "ranks/order.h"
#include "ranks/parts.h"

namespace tandem::ranks {

namespace {

constexpr int kPromptRows = 512;  // of a prompt, for the split

const graph::StepShape kOneRow{.extents = {.tokens = 1, .outputs = 1}, .sequences = {{.past = 0, .rows = 1}}};

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

// What the layers of a model move and compute in a step, and occupy.
struct LayerWork {
    std::vector<graph::Work> decode;  // before all layers, of each, behind all
    std::vector<graph::Work> prompt;
    std::vector<uint64_t> bytes;
    uint64_t shared = 0;  // of weights that both ends use
};

LayerWork work_of_layers(const graph::Program& program, const graph::Weights& weights) {
    const std::vector<size_t> borders = layer_borders(program);
    LayerWork work;
    const size_t pieces = borders.size() + 1;
    work.decode.resize(pieces);
    work.prompt.resize(pieces);
    work.bytes.resize(pieces);
    std::map<std::string, size_t> counted;
    const graph::StepShape prompt{.extents = {.tokens = kPromptRows, .outputs = 1},
                                  .sequences = {{.past = 0, .rows = kPromptRows}}};
    std::vector<graph::TensorType> types;
    for (size_t n = 0; n < program.nodes.size(); ++n) {
        const auto piece = static_cast<size_t>(std::upper_bound(borders.begin(), borders.end(), n) - borders.begin());
        const graph::Node& node = program.nodes[n];
        types.clear();
        for (const graph::ValueId input : node.inputs) types.push_back(program.value(input).type);
        work.decode[piece] += node.op.work(types, kOneRow);
        work.prompt[piece] += node.op.work(types, prompt);
        for (const graph::ValueId input : node.inputs) {
            const graph::Value& value = program.value(input);
            if (value.kind != graph::Value::Kind::weight) continue;
            const graph::WeightView* view = weights.find(value.name);
            const uint64_t bytes = view == nullptr ? 0 : view->size_bytes();
            const auto [known, is_new] = counted.emplace(value.name, piece);
            if (is_new || known->second != piece) work.bytes[piece] += bytes;
            if (!is_new && known->second == 0 && piece + 1 == pieces) work.shared += bytes;
        }
    }
    return work;
}

plan::PartSeconds seconds_of(const graph::Work& decode, const graph::Work& prompt, const device::Rates& rates) {
    const auto seconds = [&](const graph::Work& work) {
        const double reading = work.bytes / std::max(rates.read_bytes_per_s, 1.0);
        const double computing = rates.matrix_flops_per_s > 0 ? work.flops / rates.matrix_flops_per_s : 0;
        return std::max(reading, computing);
    };
    return {.decode = seconds(decode), .prompt = seconds(prompt)};
}

// The nearest cut before it by which no layers are parted that share keys and values.
std::vector<int> allowed_cuts(const graph::Program& program, std::vector<int> cuts) {
    for (size_t i = 0; i < cuts.size(); ++i) {
        while (cuts[i] > 0 && !cut_into_parts(program, std::span(cuts).subspan(i, 1))) --cuts[i];
    }
    for (size_t i = cuts.size(); i-- > 1;) cuts[i - 1] = std::min(cuts[i - 1], cuts[i]);
    return cuts;
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

Result<std::vector<int>> Ranks::choose_cuts(const graph::Program& program, const graph::Weights& weights) {
    const int layers = static_cast<int>(layer_borders(program).size()) - 1;
    if (options_.split != "layers") return plan::parse_cuts(options_.split, post_->size(), layers);
    const bool alike = std::ranges::all_of(greetings_, [&](const Greeting& each) {
        return each.device == greetings_[0].device && each.hardware == greetings_[0].hardware;
    });
    std::vector<device::Rates> rates(greetings_.size(), {.read_bytes_per_s = 1});
    if (!alike) rates = TRY(measure_all());
    const LayerWork work = work_of_layers(program, weights);
    plan::PartBytes bytes{.layers = {work.bytes.begin() + 1, work.bytes.end() - 1},
                          .first = work.bytes.front(),
                          .last = work.bytes.back(),
                          .shared = work.shared};
    std::vector<plan::SplitDevice> devices;
    for (size_t rank = 0; rank < greetings_.size(); ++rank) {
        plan::SplitDevice& device = devices.emplace_back();
        device.name = post_->name(static_cast<int>(rank));
        for (size_t piece = 0; piece < work.decode.size(); ++piece) {
            const plan::PartSeconds seconds = seconds_of(work.decode[piece], work.prompt[piece], rates[rank]);
            if (piece == 0) {
                device.first = seconds;
            } else if (piece + 1 == work.decode.size()) {
                device.last = seconds;
            } else {
                device.layers.push_back(seconds);
            }
        }
        device.memory_bytes = greetings_[rank].free_bytes;
    }
    const auto stages = TRY(plan::split_layers(bytes, devices, {.all_devices = layers >= post_->size()}));
    std::vector<int> cuts;
    for (size_t i = 1; i < stages.size(); ++i) cuts.push_back(stages[i].first_layer);
    while (std::ssize(cuts) + 1 < post_->size()) cuts.push_back(layers);
    if (!alike) {
        const std::lock_guard lock(mutex_);
        rates_ = std::move(rates);
    }
    return allowed_cuts(program, std::move(cuts));
}

void Ranks::note_parts(const std::vector<Part>& parts, const graph::Weights& weights) {
    const std::lock_guard lock(mutex_);
    stages_.resize(parts.size());
    for (size_t rank = 0; rank < parts.size(); ++rank) {
        StageReport& stage = stages_[rank];
        stage.rank = static_cast<int>(rank);
        stage.host = greetings_[rank].host;
        stage.device = greetings_[rank].device;
        stage.first_layer = parts[rank].first_layer;
        stage.end_layer = parts[rank].end_layer;
        stage.weight_bytes = weights_of(parts[rank].program, weights).size_bytes();
        graph::Work work;
        std::vector<graph::TensorType> types;
        for (const graph::Node& node : parts[rank].program.nodes) {
            types.clear();
            for (const graph::ValueId input : node.inputs) types.push_back(parts[rank].program.value(input).type);
            work += node.op.work(types, kOneRow);
        }
        stage.predicted_share = work.bytes / (rates_.empty() ? 1.0 : std::max(rates_[rank].read_bytes_per_s, 1.0));
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
        stages_[rank].sent_bytes = all[rank].sent[next];
    }
    if (!first_error.empty()) return Error{first_error};
    return Ok{};
}

void Ranks::note_step(double seconds) {
    const std::lock_guard lock(mutex_);
    ++steps_;
    step_seconds_ += seconds;
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
