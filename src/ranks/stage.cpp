#include "ranks/stage.h"

#include <algorithm>
#include <chrono>

#include "ranks/wire.h"

namespace tandem::ranks {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

graph::Extents extents_of(const device::Batch& batch) {
    return {.tokens = std::ssize(batch.tokens), .outputs = std::ssize(batch.output_rows)};
}

// What a failed rank says in place of its rows. The one whose failure it is tells rank 0 why.
Status said_before() {
    return Error{std::string(kOtherFailed)};
}

// The same micro-batch one position on, with the tokens that were drawn.
void advance(device::Batch& batch) {
    for (int32_t& position : batch.positions) ++position;
    for (device::SequenceRows& sequence : batch.sequences) ++sequence.past;
    for (device::SamplingRow& row : batch.sampling) ++row.draw;
}

}  // namespace

Result<std::unique_ptr<Stage>> Stage::open(StageSettings settings) {
    std::unique_ptr<Stage> stage(new Stage(std::move(settings)));
    stage->rank_ = stage->settings_.post.rank();
    TRY(stage->find_neighbours());
    TRY(stage->compile());
    return stage;
}

Result<size_t> Stage::add_value(std::vector<Value>& values, const std::string& name, const graph::TensorType& type) {
    const auto known = std::find_if(values.begin(), values.end(), [&](const Value& each) { return each.name == name; });
    if (known != values.end()) return static_cast<size_t>(known - values.begin());
    auto memory = TRY(device::HostBuffer::allocate(type.size_bytes(settings_.limits), "what ranks hand over",
                                                   "choose a smaller batch"));
    std::ranges::fill(memory.pages(), std::byte{0});
    values.push_back({.name = name, .type = type, .memory = std::move(memory)});
    return values.size() - 1;
}

Status Stage::find_neighbours() {
    const auto type_of = [](const Part& maker, const std::string& name) -> const graph::TensorType* {
        for (const graph::NamedResult& result : maker.program.results) {
            if (result.name == name) return &maker.program.value(result.value).type;
        }
        return nullptr;
    };
    const auto connect = [&](int from, int to, std::vector<Value>& values, auto& list) -> Status {
        std::vector<size_t> handed;
        const Part& maker = settings_.parts[static_cast<size_t>(from)];
        for (const std::string& name : settings_.parts[static_cast<size_t>(to)].takes) {
            if (const graph::TensorType* type = type_of(maker, name))
                handed.push_back(TRY(add_value(values, name, *type)));
        }
        if (!handed.empty()) list.push_back({.rank = from == rank_ ? to : from, .values = std::move(handed)});
        return Ok{};
    };
    for (int other = 0; other < std::ssize(settings_.parts); ++other) {
        if (other < rank_) TRY(connect(other, rank_, taken_, makers_));
        if (other > rank_) TRY(connect(rank_, other, made_, readers_));
    }
    return Ok{};
}

Status Stage::compile() {
    if (part().program.nodes.empty()) return Ok{};
    std::vector<device::SharedValue> shared;
    for (const std::vector<Value>* values : {&taken_, &made_}) {
        for (const Value& value : *values) shared.push_back({value.name, value.memory.pages()});
    }
    for (const Value& value : made_) compiled_results_.push_back(value.name);
    if (is_last()) {
        compiled_results_.insert(compiled_results_.end(), settings_.results.begin(), settings_.results.end());
    }
    weights_ = weights_of(part().program, settings_.weights);
    executable_ = TRY(settings_.backend.compile(part().program, weights_, settings_.cache,
                                                {.limits = settings_.limits,
                                                 .results = compiled_results_,
                                                 .ready = settings_.ready,
                                                 .progress = settings_.progress,
                                                 .shared = std::move(shared)}));
    return Ok{};
}

// ---- A step

// The outer result is the message's, the inner what its sender says.
Result<Status> Stage::take_values(const device::Batch& batch, StageSeconds& seconds) {
    const auto begin = Clock::now();
    Status status = Ok{};
    for (const Maker& maker : makers_) {
        const Post::Message message = TRY(settings_.post.receive(maker.rank, Channel::values));
        ByteReader reader(message.body());
        if (reader.read<uint8_t>("whether it failed") != 0) {
            status = said_before();
            continue;
        }
        for (const size_t index : maker.values) {
            const Value& value = taken_[index];
            const size_t bytes = value.type.size_bytes(extents_of(batch));
            const auto memory = value.memory.bytes().first(bytes);
            const bool exact = settings_.exact_rows || value.type.dtype != DType::f32;
            read_rows(reader, {reinterpret_cast<float*>(memory.data()), bytes / sizeof(float)}, value.type.cols(),
                      exact);
        }
        TRY(reader.status());
    }
    seconds.waiting += seconds_since(begin);
    return status;
}

void Stage::hand_over(const device::Batch& batch, const Status& status) {
    for (const Reader& reader : readers_) {
        Writer writer;
        writer.put(static_cast<uint8_t>(status ? 0 : 1));
        for (const size_t index : reader.values) {
            if (!status) break;
            const Value& value = made_[index];
            const size_t bytes = value.type.size_bytes(extents_of(batch));
            const bool exact = settings_.exact_rows || value.type.dtype != DType::f32;
            const auto* const rows = reinterpret_cast<const float*>(value.memory.data());
            write_rows(writer, {rows, bytes / sizeof(float)}, value.type.cols(), exact);
        }
        settings_.post.send(reader.rank, Channel::values, writer.bytes());
    }
}

void Stage::send_results(const Status& status) {
    Writer writer;
    writer.put(static_cast<uint8_t>(status ? 0 : 1));
    for (size_t i = 0; status && i < settings_.results.size(); ++i)
        writer.put_list(executable_->result(made_.size() + i));
    settings_.post.send(0, Channel::draws, writer.bytes());
}

// Of the first rank: what the last one made of a micro-batch.
Result<Status> Stage::collect(const plan::MicroBatch& part, int step, const StepRun& run,
                              std::vector<int32_t>& tokens) {
    const Post::Message message = TRY(settings_.post.receive(settings_.post.size() - 1, Channel::draws));
    ByteReader reader(message.body());
    if (reader.read<uint8_t>("whether it failed") != 0) return said_before();
    for (size_t i = 0; i < settings_.results.size(); ++i) {
        const auto count = reader.read<uint32_t>("bytes of a result");
        const auto bytes = reader.take(count, "a result");
        if (settings_.results[i] == "next") {
            tokens.resize(bytes.size() / sizeof(int32_t));
            if (!bytes.empty()) std::memcpy(tokens.data(), bytes.data(), bytes.size());
        }
        if (reader.ok() && run.on_result) run.on_result(part, step, i, bytes);
    }
    TRY(reader.status());
    return Status(Ok{});
}

Status Stage::run_part(const device::Batch& batch, const device::FindAllowed& find_allowed, StageSeconds& seconds) {
    if (!executable_) return Ok{};
    const auto begin = Clock::now();
    Status done = device::run(*executable_, batch, find_allowed);
    seconds.busy += seconds_since(begin);
    return done;
}

Status Stage::run(const StepRun& run, StageSeconds& seconds, bool& broken) {
    broken = true;  // unless all of it comes
    std::vector<plan::MicroBatch> parts = plan::split(run.batch, run.micro_rows);
    if (!is_last()) {  // draws, and what limits them, are the last one's
        for (plan::MicroBatch& each : parts) {
            each.batch.output_rows.clear();
            each.batch.sampling.clear();
        }
    }
    Status first_failure = Ok{};
    const auto note = [&](const Status& status) {
        if (first_failure && !status) first_failure = status;
    };
    std::vector<int32_t> drawn;
    for (int step = 0; step < run.batch.steps; ++step) {
        for (plan::MicroBatch& each : parts) {
            each.batch.steps = 1;
            Status status = Ok{};
            if (step > 0) {
                advance(each.batch);
                if (is_first()) {
                    status = TRY(collect(each, step - 1, run, drawn));
                    if (status) each.batch.tokens = drawn;
                }
            }
            Status taken = TRY(take_values(each.batch, seconds));
            if (status) status = std::move(taken);
            if (status) status = run_part(each.batch, is_last() ? run.find_allowed : device::FindAllowed(), seconds);
            note(status);
            hand_over(each.batch, status);
            if (is_last()) send_results(status);
        }
    }
    if (is_first()) {
        if (run.find_allowed) run.find_allowed();
        for (const plan::MicroBatch& each : parts) note(TRY(collect(each, run.batch.steps - 1, run, drawn)));
    }
    broken = false;
    return first_failure;
}

}  // namespace tandem::ranks
