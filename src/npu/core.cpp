#include <algorithm>
#include <cstring>

#include "npu/machine.h"
#include "npu/memory_map.h"

namespace tandem::npu {
Result<Core> Core::make(const Design& design, const Worker& worker, const KernelFinder& kernels, std::vector<End> ends,
                        const Array& array) {
    Core core;
    core.tile_ = worker.tile;
    core.ends_ = std::move(ends);
    core.locals_.reserve(worker.buffers.size());
    for (const LocalBuffer& buffer : worker.buffers)
        core.locals_.push_back({buffer.name, buffer.type.size_bytes(), GuardedMemory(buffer.type.size_bytes(), 1)});
    TRY(core.add_statements({design, worker, kernels, array}, worker.body));
    core.reset();
    return core;
}

void Core::reset() {
    at_ = 0;
    begun_ = false;
    iterations_left_.clear();
    activity_ = {.tile = tile_, .calls = 0, .cycles = 0, .counts = {}};
    for (End& end : ends_) end.held = 0;
    for (Local& local : locals_) local.memory.poison();
}

size_t Core::find_end(const std::string& fifo) const {
    return static_cast<size_t>(
        std::ranges::find_if(ends_, [&](const End& end) { return end.pool->fifo().name == fifo; }) - ends_.begin());
}

Status Core::add_statements(const Source& source, const std::vector<Statement>& body) {
    for (const Statement& statement : body) {
        if (const auto* wanted = std::get_if<Acquire>(&statement)) {
            ops_.push_back({Op::Kind::acquire, find_end(wanted->fifo), static_cast<uint64_t>(wanted->count), 0});
        } else if (const auto* done = std::get_if<Release>(&statement)) {
            ops_.push_back({Op::Kind::release, find_end(done->fifo), static_cast<uint64_t>(done->count), 0});
        } else if (const auto* to_call = std::get_if<Call>(&statement)) {
            TRY(add_call(source, *to_call));
        } else {
            const auto& loop = std::get<Loop>(statement);
            const size_t begin = ops_.size();
            Op op{Op::Kind::loop, 0, static_cast<uint64_t>(loop.count), 0};
            if (!loop.counter.empty()) op.counter = local(loop.counter).memory.object(0);
            ops_.push_back(op);
            TRY(add_statements(source, loop.body));
            ops_.push_back({Op::Kind::next, 0, 0, begin + 1});
            ops_[begin].jump = ops_.size();
        }
    }
    return Ok{};
}

const Core::Local& Core::local(const std::string& name) const {
    return *std::ranges::find(locals_, name, &Local::name);
}

Status Core::add_call(const Source& source, const Call& call) {
    PreparedCall made;
    made.kernel = source.kernels(call.kernel);
    if (made.kernel == nullptr) return fail("design '{}': there is no kernel '{}'", source.design.name, call.kernel);
    made.rates = issue_rates(source.design, source.worker, source.array, call, *made.kernel);
    for (size_t i = 0; i < call.arguments.size(); ++i) {
        KernelArgument argument{};
        if (const auto* object = std::get_if<ObjectArgument>(&call.arguments[i])) {
            const size_t end = find_end(object->fifo);
            made.objects.push_back({i, end, static_cast<uint64_t>(object->object)});
            argument.size_bytes = ends_[end].pool->fifo().object.size_bytes();
        } else if (const auto* buffer = std::get_if<BufferArgument>(&call.arguments[i])) {
            const Local& used = local(buffer->buffer);
            made.buffers.push_back(static_cast<size_t>(&used - locals_.data()));
            argument.data = used.memory.object(0);
            argument.size_bytes = used.size_bytes;
        } else {
            argument.value = std::get<int32_t>(call.arguments[i]);
            argument.is_value = true;
        }
        made.arguments.push_back(argument);
    }
    ops_.push_back({Op::Kind::call, calls_.size(), 0, 0});
    calls_.push_back(std::move(made));
    return Ok{};
}

Result<bool> Core::run() {
    bool got_on = false;
    if (ops_.empty()) return got_on;
    while (true) {
        if (at_ == ops_.size()) {  // a round is done
            at_ = 0;
            begun_ = false;
        }
        const Op& op = ops_[at_];
        ++at_;
        switch (op.kind) {
            case Op::Kind::acquire:
                if (!acquire(op)) {
                    --at_;
                    return got_on;
                }
                break;
            case Op::Kind::release:
                release(op);
                break;
            case Op::Kind::call:
                TRY(call(calls_[op.index]));
                break;
            case Op::Kind::loop:
                TRY(enter(op));
                break;
            case Op::Kind::next:
                if (--iterations_left_.back() > 0)
                    at_ = op.jump;
                else
                    iterations_left_.pop_back();
                break;
        }
        got_on = got_on || begun_;
    }
}

Status Core::enter(const Op& op) {
    uint64_t count = op.count;
    if (op.counter != nullptr) {
        int32_t rounds = 0;
        std::memcpy(&rounds, op.counter, sizeof rounds);
        if (rounds < 0) return fail("worker on tile {} is told to make {} rounds of a loop", text(tile_), rounds);
        count = static_cast<uint64_t>(rounds);
    }
    if (count == 0)
        at_ = op.jump;
    else
        iterations_left_.push_back(count);
    return Ok{};
}

bool Core::acquire(const Op& op) {
    End& end = ends_[op.index];
    const bool there = end.produces ? end.pool->can_write(end.index, end.held + op.count)
                                    : end.pool->can_read(end.index, end.held + op.count);
    if (there) end.held += op.count;
    if (there && !end.produces) begun_ = true;
    return there;
}

void Core::release(const Op& op) {
    End& end = ends_[op.index];
    end.held -= op.count;
    if (end.produces)
        end.pool->wrote(end.index, op.count);
    else
        end.pool->has_read(end.index, op.count);
}

Status Core::call(PreparedCall& call) {
    for (const ObjectOf& wanted : call.objects) {
        const End& end = ends_[wanted.end];
        call.arguments[wanted.argument].data =
            end.produces ? end.pool->to_write(end.index, wanted.object) : end.pool->to_read(end.index, wanted.object);
    }
    TRY(check_call(*call.kernel, call.arguments));  // each time: sizes may be in a buffer
    const Counts counts = run_kernel(*call.kernel, call.arguments);
    TRY(check_guards(call));
    ++activity_.calls;
    activity_.cycles += counts.cycles(call.rates);
    activity_.counts.add(counts);
    return Ok{};
}

Status Core::check_guards(const PreparedCall& call) const {
    const auto broken = [&](const std::string& buffer) {
        return fail("kernel '{}' on tile {} writes past the ends of '{}'", call.kernel->name, text(tile_), buffer);
    };
    for (const ObjectOf& used : call.objects) {
        const auto* object = static_cast<const std::byte*>(call.arguments[used.argument].data);
        const Pool& pool = *ends_[used.end].pool;
        if (!pool.intact(object)) return broken(pool.fifo().name);
    }
    for (const size_t used : call.buffers) {
        const Local& local = locals_[used];
        if (!local.memory.intact(local.memory.object(0))) return broken(local.name);
    }
    return Ok{};
}

bool Core::is_stuck() const {
    if (begun_ || at_ >= ops_.size()) return begun_;
    return ops_[at_].kind == Op::Kind::acquire && ends_[ops_[at_].index].produces;
}

std::string Core::waits_for() const {
    const End& end = ends_[ops_[at_].index];
    return fmt::format("worker on tile {} waits for {} FIFO '{}'", text(tile_),
                       end.produces ? "space in" : "an object of", end.pool->fifo().name);
}

}  // namespace tandem::npu
