// The means of one rendering: its limits, and the making of values that counts against them.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/limits.h"
#include "text/jinja/value.h"

namespace tandem::text::jinja {

class Runtime {
  public:
    explicit Runtime(const Limits& limits) : limits_(limits) {}
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;
    ~Runtime();

    const Limits& limits() const { return limits_; }

    // Counts work; fails when a rendering has done too much of it.
    Status step(uint64_t count = 1) {
        steps_ += count;
        if (steps_ > limits_.steps) [[unlikely]]
            return too_many_steps();
        return Ok{};
    }
    Status copy(size_t bytes) { return step(1 + bytes / 64); }

    // Whether so many bytes can be allocated, to ask before building something large. Counts as copying them.
    Status room(size_t bytes);

    // The same for something that stays until the end of the rendering.
    Status keep(size_t bytes) {
        TRY(room(bytes));
        memory_.used += bytes;
        return Ok{};
    }

    Result<Value> string(std::string text, bool safe = false);
    Result<Value> list(std::vector<Value> items);
    Result<Value> tuple(std::vector<Value> items);
    Result<Value> group(Value grouper, Value members);
    Result<Value> dict(std::vector<Entry> entries);  // a later entry replaces an equal earlier one
    Result<Value> range(int64_t start, int64_t stop, int64_t step);
    Result<Value> view(Value dict, ViewOf of);
    Result<Value> iterator(std::vector<Value> items);
    Result<Value> name_space();
    Result<Value> method(Value self, const Native* native);
    Result<Value> loop(std::vector<Value> items);
    Result<Value> joiner(Value separator);
    Result<Value> cycler(std::vector<Value> items);
    Result<Value> undefined(std::string message);

    // Takes charge of an object made elsewhere (macros).
    Status adopt(Object& object, size_t bytes, int depth);

    // Remembers an object with state, so that cycles through it are broken at the end.
    void remember(Value value) { stateful_.push_back(std::move(value)); }

    // For strftime_now; unset: the clock.
    std::optional<std::chrono::system_clock::time_point> now;

    int depth = 0;  // of the evaluation

  private:
    friend class TextBuilder;

    Error too_many_steps() const;
    template <typename T, typename... Args>
    Result<Value> make(Kind kind, size_t bytes, int depth, Args&&... args);

    Limits limits_;
    uint64_t steps_ = 0;
    Memory memory_;
    std::vector<Value> stateful_;
};

// Text under construction, counted as it grows.
class TextBuilder {
  public:
    explicit TextBuilder(Runtime& rt) : rt_(rt) {}
    TextBuilder(const TextBuilder&) = delete;
    TextBuilder& operator=(const TextBuilder&) = delete;
    ~TextBuilder() { rt_.memory_.used -= text_.size(); }

    Status add(std::string_view text);
    Status add(char c) { return add(std::string_view(&c, 1)); }
    size_t size() const { return text_.size(); }
    std::string take();
    Result<Value> finish(bool safe = false) { return rt_.string(take(), safe); }

  private:
    Runtime& rt_;
    std::string text_;
};

}  // namespace tandem::text::jinja
