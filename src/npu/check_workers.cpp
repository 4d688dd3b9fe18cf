// What cores do: objects are held before they are used, kernels get what they take, and all that is sent is taken.
#include <algorithm>

#include "npu/check_parts.h"

namespace tandem::npu {
namespace {

constexpr int kMaxNesting = 8;
constexpr int64_t kMaxObjects = int64_t{1} << 40;

template <typename... Visitors>
struct StatementVisitor : Visitors... {
    using Visitors::operator()...;
};
template <typename... Visitors>
StatementVisitor(Visitors...) -> StatementVisitor<Visitors...>;

// Follows the statements of a worker, with the objects of each FIFO that it holds.
class BodyCheck {
  public:
    BodyCheck(const Design& design, const Array& array, const Worker& worker)
        : design_(design), array_(array), worker_(worker) {}

    Status run() {
        TRY(check_body(worker_.body, 0, 1));
        for (const auto& [fifo, held] : held_)
            if (held != 0)
                return fail("the worker of {} ends with {} objects of FIFO '{}': release them", where(), held, fifo);
        return Ok{};
    }

  private:
    std::string where() const { return describe(array_, worker_.tile); }

    Status check_body(const std::vector<Statement>& body, int nesting, int64_t times) {
        if (nesting > kMaxNesting) return fail("the worker of {} nests loops deeper than {}", where(), kMaxNesting);
        for (const Statement& statement : body) {
            TRY(std::visit(StatementVisitor{[&](const Acquire& acquire) { return check_acquire(acquire); },
                                            [&](const Release& release) { return check_release(release, times); },
                                            [&](const Call& call) { return check_call(call); },
                                            [&](const Loop& loop) { return check_loop(loop, nesting, times); }},
                           statement));
        }
        return Ok{};
    }

    Status check_loop(const Loop& loop, int nesting, int64_t times) {
        int64_t total = 0;
        if (loop.count < 1 || __builtin_mul_overflow(times, loop.count, &total) || total > kMaxObjects)
            return fail("the worker of {} has a loop of {} rounds: they must be 1 to {} in all", where(), loop.count,
                        kMaxObjects);
        if (!loop.counter.empty()) TRY(check_counter(loop.counter));
        const std::map<std::string, int64_t> before = held_;
        TRY(check_body(loop.body, nesting + 1, total));
        for (const auto& [fifo, held] : held_) {
            const auto was = before.find(fifo);
            const int64_t had = was == before.end() ? 0 : was->second;
            if (held != had)
                return fail("the worker of {} has a loop that begins with {} and ends with {} objects of FIFO '{}'",
                            where(), had, held, fifo);
        }
        return Ok{};
    }

    Status check_counter(const std::string& counter) const {
        const LocalBuffer* const buffer = find_buffer(worker_, counter);
        if (buffer == nullptr)
            return fail("the worker of {} counts a loop by buffer '{}', which is not there", where(), counter);
        if (buffer->type.element == Element::i32) return Ok{};
        return fail("the worker of {} counts a loop by buffer '{}' of {}: it must be of i32", where(), counter,
                    name(buffer->type.element));
    }

    Result<const Fifo*> fifo_of(const std::string& name) const {
        const Fifo* fifo = find_fifo(design_, name);
        if (fifo == nullptr) return fail("the worker of {} names FIFO '{}', which is not there", where(), name);
        const auto& consumers = fifo->consumers;
        if (fifo->producer != worker_.tile &&
            std::find(consumers.begin(), consumers.end(), worker_.tile) == consumers.end())
            return fail("the worker of {} names FIFO '{}', which does not come there", where(), name);
        return fifo;
    }

    Status check_acquire(const Acquire& acquire) {
        const Fifo* fifo = TRY(fifo_of(acquire.fifo));
        const int64_t held = held_[acquire.fifo] += acquire.count;
        if (acquire.count < 1 || held > fifo->depth)
            return fail("the worker of {} acquires {} objects of FIFO '{}' and then has {}, but its depth is {}",
                        where(), acquire.count, acquire.fifo, held, fifo->depth);
        return Ok{};
    }

    Status check_release(const Release& release, int64_t times) {
        TRY(fifo_of(release.fifo));
        int64_t& held = held_[release.fifo];
        if (release.count < 1 || release.count > held)
            return fail("the worker of {} releases {} objects of FIFO '{}', but has {}", where(), release.count,
                        release.fifo, held);
        held -= release.count;
        int64_t total = 0;
        if (__builtin_mul_overflow(times, int64_t{release.count}, &total) || total > kMaxObjects)
            return fail("the worker of {} releases more than {} objects of FIFO '{}'", where(), kMaxObjects,
                        release.fifo);
        return Ok{};
    }

    Status check_call(const Call& call) const {
        const KernelUse* kernel = find_kernel_use(design_, call.kernel);
        if (kernel == nullptr)
            return fail("the worker of {} calls '{}', which is no kernel of the design", where(), call.kernel);
        if (!kernel->mmul.empty() && !array_.multiplies(kernel->mmul))
            return fail("the worker of {} calls '{}', which multiplies in the shape '{}': cores of {} have others ({})",
                        where(), call.kernel, kernel->mmul, array_.name, fmt::join(array_.mmul_shapes, ", "));
        if (call.arguments.size() != kernel->arguments.size())
            return fail("the worker of {} calls '{}' with {} arguments, but it takes {}", where(), call.kernel,
                        call.arguments.size(), kernel->arguments.size());
        for (size_t i = 0; i < call.arguments.size(); ++i) {
            const bool number = std::holds_alternative<int32_t>(call.arguments[i]);
            if (number != kernel->arguments[i].number)
                return fail("the worker of {} calls '{}' with a {} as argument {}, but it takes a {}", where(),
                            call.kernel, number ? "number" : "buffer", i, number ? "buffer" : "number");
            if (number) continue;
            const ObjectType given = TRY(buffer_of(call.arguments[i]));
            const ObjectType& taken = kernel->arguments[i].buffer;
            if (given.element != taken.element || given.count < taken.count)
                return fail("the worker of {} calls '{}' with {} {} as argument {}, but it takes {} {}", where(),
                            call.kernel, given.count, name(given.element), i, taken.count, name(taken.element));
        }
        return Ok{};
    }

    template <typename Argument>
    Result<ObjectType> buffer_of(const Argument& argument) const {
        if (const auto* local = std::get_if<BufferArgument>(&argument)) {
            const LocalBuffer* buffer = find_buffer(worker_, local->buffer);
            if (buffer == nullptr) return fail("the worker of {} has no buffer '{}'", where(), local->buffer);
            return buffer->type;
        }
        const auto& object = std::get<ObjectArgument>(argument);
        const Fifo* fifo = TRY(fifo_of(object.fifo));
        const auto held = held_.find(object.fifo);
        const int64_t count = held == held_.end() ? 0 : held->second;
        if (object.object < 0 || object.object >= count)
            return fail("the worker of {} uses object {} of FIFO '{}', but has acquired {}", where(), object.object,
                        object.fifo, count);
        return fifo->object;
    }

    const Design& design_;
    const Array& array_;
    const Worker& worker_;
    std::map<std::string, int64_t> held_;
};

void add_released(const std::vector<Statement>& body, int64_t times, std::map<std::string, int64_t>& released) {
    for (const Statement& statement : body) {
        if (const auto* release = std::get_if<Release>(&statement)) released[release->fifo] += times * release->count;
        if (const auto* loop = std::get_if<Loop>(&statement)) add_released(loop->body, times * loop->count, released);
    }
}

}  // namespace

std::map<std::string, int64_t> released_objects(const Worker& worker) {
    std::map<std::string, int64_t> released;
    add_released(worker.body, 1, released);
    return released;
}

Status check_workers(const Design& design, const Array& array) {
    for (const Worker& worker : design.workers) TRY(BodyCheck(design, array, worker).run());
    return Ok{};
}

}  // namespace tandem::npu
