#include "format/json.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "format/json_reader.h"

namespace tandem::format {

namespace {

// A value on its way into an object or an array.
template <typename Json>
struct Member {
    std::string key = {};  // of an object
    Json value = nullptr;
};

template <typename Json>
using Members = std::span<Member<Json>>;

nlohmann::json object_of(Members<nlohmann::json> members) {
    std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
    nlohmann::json::object_t object;
    for (auto& member : members) {
        object.insert_or_assign(object.end(), std::move(member.key), std::move(member.value));
    }
    return object;
}

// An ordered_map looks through all keys for each that is added. Here the repeated ones are found by sorting (a table of
// hashes could be attacked), and what is left is added as it is.
nlohmann::ordered_json object_of(Members<nlohmann::ordered_json> members) {
    std::vector<uint32_t> sorted(members.size());
    std::iota(sorted.begin(), sorted.end(), 0U);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](uint32_t a, uint32_t b) { return members[a].key < members[b].key; });
    std::vector<bool> is_repeated(members.size());
    size_t first = 0;
    for (size_t i = 1; i < sorted.size(); ++i) {
        if (members[sorted[i]].key != members[sorted[first]].key) {
            first = i;
            continue;
        }
        members[sorted[first]].value = std::move(members[sorted[i]].value);
        is_repeated[sorted[i]] = true;
    }
    nlohmann::ordered_json::object_t object;
    object.reserve(members.size());
    for (size_t i = 0; i < members.size(); ++i) {
        if (!is_repeated[i]) object.emplace_back(std::move(members[i].key), std::move(members[i].value));
    }
    return object;
}

template <typename Json>
Json array_of(Members<Json> members) {
    typename Json::array_t array;
    array.reserve(members.size());
    for (auto& member : members) array.push_back(std::move(member.value));
    return array;
}

// What a JsonReader tells. What is not complete yet lies on one stack: the members of every open object and array
// behind the value that they will become.
template <typename Json>
class Builder {
  public:
    explicit Builder(const JsonLimits& limits) : limits_(limits), members_(1) {}

    bool null() { return add(nullptr); }
    bool boolean(bool value) { return add(value); }
    bool natural(uint64_t value) { return add(value); }
    bool negative(int64_t value) { return add(value); }
    bool fraction(double value) {
        return ++fractions_ > limits_.fractions ? refuse(limits_.fractions, "fractions") : add(value);
    }
    bool string(std::string& text) { return keep() && add(std::move(text)); }

    bool start_object() { return open(true); }
    bool start_array() { return open(false); }
    bool end_object() { return close(); }
    bool end_array() { return close(); }

    bool key(std::string& name) {
        if (members_.size() - open_.back().begin >= limits_.keys) return refuse(limits_.keys, "keys in one object");
        if (++keys_ > limits_.members) return refuse(limits_.members, "keys");
        members_.push_back({.key = std::move(name)});
        return true;
    }

    // Why it took no more; empty where it took everything.
    const std::string& error() const { return error_; }
    Json take() { return std::move(members_.front().value); }

  private:
    struct Open {
        size_t begin = 0;  // of its members
        bool is_object = false;
    };

    template <typename Value>
    bool add(Value&& value) {
        if (!make_place()) return false;
        members_.back().value = std::forward<Value>(value);
        return true;
    }

    // The next value goes to the back: where the key is, or to a place of its own.
    bool make_place() {
        if (++values_ > limits_.values) return refuse(limits_.values, "values");
        if (!open_.empty() && !open_.back().is_object) members_.emplace_back();
        return true;
    }

    bool keep() { return ++kept_ > limits_.kept ? refuse(limits_.kept, "strings, arrays and objects") : true; }

    bool open(bool is_object) {
        if (open_.size() >= static_cast<size_t>(limits_.depth)) {
            error_ = fmt::format("nested deeper than {} levels", limits_.depth);
            return false;
        }
        if (!keep() || !make_place()) return false;
        open_.push_back({.begin = members_.size(), .is_object = is_object});
        return true;
    }

    bool close() {
        const Open done = open_.back();
        open_.pop_back();
        const Members<Json> members = Members<Json>(members_).subspan(done.begin);
        Json made = done.is_object ? object_of(members) : array_of<Json>(members);
        members_.resize(done.begin);
        members_.back().value = std::move(made);
        return true;
    }

    bool refuse(size_t most, std::string_view of_what) {
        error_ = fmt::format("more than {} {}", most, of_what);
        return false;
    }

    JsonLimits limits_;
    std::vector<Member<Json>> members_;  // the first is the whole
    std::vector<Open> open_;
    size_t values_ = 0;
    size_t kept_ = 0;
    size_t keys_ = 0;
    size_t fractions_ = 0;
    std::string error_;
};

template <typename Json>
Result<Json> parse(std::string_view text, std::string_view name, const JsonLimits& limits) {
    Builder<Json> builder(limits);
    JsonTokens tokens(text, limits.digits);
    if (!JsonReader(tokens, builder).read())
        return fail("{}: {}", name, builder.error().empty() ? tokens.error() : builder.error());
    return builder.take();
}

}  // namespace

Result<nlohmann::json> parse_json(std::string_view text, std::string_view name, const JsonLimits& limits) {
    return parse<nlohmann::json>(text, name, limits);
}

Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text, std::string_view name,
                                                  const JsonLimits& limits) {
    return parse<nlohmann::ordered_json>(text, name, limits);
}

std::string dump(const nlohmann::ordered_json& json) {
    return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace tandem::format
