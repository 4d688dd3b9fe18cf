// The functions every template can call.
#include <array>
#include <ctime>

#include "text/jinja/native.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace tandem::text::jinja {

namespace {

Result<Value> range(const Call& call) {
    int64_t first = TRY(integer_argument(call.param[0], 0));
    if (!call.param[1]) return call.rt.range(0, first, 1);
    int64_t stop = TRY(integer_argument(call.param[1], 0));
    return call.rt.range(first, stop, TRY(integer_argument(call.param[2], 1)));
}

// What dict() and namespace() take: a dict or pairs, then keywords.
Result<std::vector<Entry>> entries_of(const Call& call) {
    std::vector<Entry> entries;
    if (call.args.positional.size() > 1) return fail("dict expected at most 1 argument");
    if (!call.args.positional.empty()) {
        const Value& from = call.args.positional[0];
        if (from.is(Kind::dict)) {
            entries = from.get<DictObject>().entries;
        } else {
            for (const Value& pair : TRY(iterate(call.rt, from))) {
                std::vector<Value> two = TRY(iterate(call.rt, pair));
                if (two.size() != 2) return fail("dict() needs pairs, and got {} values", two.size());
                entries.emplace_back(std::move(two[0]), std::move(two[1]));
            }
        }
    }
    for (const auto& [name, value] : call.args.named) entries.emplace_back(TRY(call.rt.string(name)), value);
    return entries;
}

Result<Value> dict(const Call& call) {
    return call.rt.dict(TRY(entries_of(call)));
}

Result<Value> name_space(const Call& call) {
    Value attributes = TRY(dict(call));
    Value ns = TRY(call.rt.name_space());
    for (const auto& [key, value] : attributes.get<DictObject>().entries) {
        // Python keeps other keys too, where nothing can reach them.
        if (key.is(Kind::string)) TRY(set_attribute(call.rt, ns.state<NamespaceObject>(), key.text(), value));
    }
    return ns;
}

Result<Value> joiner(const Call& call) {
    return call.rt.joiner(call.param[0] ? *call.param[0] : TRY(call.rt.string(", ")));
}

Result<Value> cycler(const Call& call) {
    if (!call.args.named.empty()) return fail("cycler() takes no keyword arguments");
    if (call.args.positional.empty()) return fail("cycler(): at least one item has to be provided");
    return call.rt.cycler(call.args.positional);
}

Result<Value> lipsum(const Call&) {
    return fail("lipsum() is not offered: the same conversation must give the same prompt");
}

Result<Value> raise_exception(const Call& call) {
    Value message = TRY(to_str(call.rt, *call.param[0]));
    return fail("{}", message.text());
}

// Without a time zone, as Python's datetime.now() has none: %z and %Z give nothing.
std::string without_zone(std::string_view format) {
    std::string out;
    for (size_t i = 0; i < format.size(); i++) {
        if (format[i] == '%' && i + 1 < format.size()) {
            char c = format[++i];
            if (c == 'z' || c == 'Z') continue;
            out += '%';
            out += c;
        } else {
            out += format[i];
        }
    }
    return out;
}

Result<Value> strftime_now(const Call& call) {
    constexpr size_t kMaxBytes = 4096;
    std::string_view format = TRY(string_argument(*call.param[0]));
    if (format.size() > kMaxBytes / 4) return fail("strftime_now: the format has {} bytes", format.size());
    auto now = call.rt.now ? *call.rt.now : std::chrono::system_clock::now();
    std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    std::tm local{};
    if (!localtime_r(&seconds, &local)) return fail("strftime_now: the time cannot be shown as a date");
    std::string pattern = without_zone(format) + ".";  // so that an empty result is not taken for an error
    std::string out(kMaxBytes, '\0');
    size_t size = std::strftime(out.data(), out.size(), pattern.c_str(), &local);
    if (size == 0) return fail("strftime_now: the date would have more than {} bytes", kMaxBytes);
    out.resize(size - 1);
    return call.rt.string(std::move(out));
}

constexpr auto kFunctions = std::to_array<Native>({
    {"cycler", cycler, {}, 0, true},
    {"dict", dict, {}, 0, true},
    {"joiner", joiner, {"sep"}},
    {"lipsum", lipsum, {}, 0, true},
    {"namespace", name_space, {}, 0, true},
    {"raise_exception", raise_exception, {"message"}, 1},
    {"range", range, {"/start", "/stop", "/step"}, 1},
    {"strftime_now", strftime_now, {"format"}, 1},
});

}  // namespace

const Native* find_function(std::string_view name) {
    return find_native(kFunctions, name);
}

}  // namespace tandem::text::jinja
