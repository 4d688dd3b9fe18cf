#include "lib/options.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "user/nearest.h"
#include "user/parse.h"

namespace tandem::lib {

namespace {

constexpr int64_t kMostSequences = 4096;
constexpr int64_t kMostContext = 2'000'000'000;

Result<bool> read_switch(std::string_view name, std::string_view value) {
    if (value == "on" || value == "off") return value == "on";
    return fail("option {}={}: it is on or off", name, value.substr(0, 40));
}

Result<int> read_count(std::string_view name, std::string_view value, user::Range<int64_t> range) {
    return static_cast<int>(TRY(user::parse_integer(value, fmt::format("option {}", name), range)));
}

Result<std::string> read_choice(std::string_view name, std::string_view value, std::vector<std::string_view> choices) {
    if (std::find(choices.begin(), choices.end(), value) != choices.end()) return std::string(value);
    return fail("option {}={}: it is one of {}", name, value.substr(0, 40), fmt::join(choices, ", "));
}

struct Option {
    std::string_view name;
    Status (*set)(OpenOptions& options, std::string_view name, std::string_view value);
};

const Option kOptions[] = {
    {"device",
     [](OpenOptions& options, std::string_view, std::string_view value) -> Status {
         options.device.device = value;
         return Ok{};
     }},
    {"split",
     [](OpenOptions& options, std::string_view, std::string_view value) -> Status {
         options.device.split = value;  // checked where the devices are opened
         return Ok{};
     }},
    {"threads",
     [](OpenOptions& options, std::string_view name, std::string_view value) -> Status {
         options.device.threads = TRY(read_count(name, value, {.least = 0, .most = 1024}));
         return Ok{};
     }},
    {"strict",
     [](OpenOptions& options, std::string_view name, std::string_view value) -> Status {
         options.device.strict = TRY(read_switch(name, value));
         return Ok{};
     }},
    {"exact",
     [](OpenOptions& options, std::string_view name, std::string_view value) -> Status {
         options.device.exact = TRY(read_switch(name, value));
         return Ok{};
     }},
    {"npu",
     [](OpenOptions& options, std::string_view name, std::string_view value) -> Status {
         options.device.npu.npu = TRY(read_choice(name, value, {"auto", "on", "emulator", "off"}));
         return Ok{};
     }},
    {"placement",
     [](OpenOptions& options, std::string_view, std::string_view value) -> Status {
         options.device.npu.placement = value;  // checked where the device is opened
         return Ok{};
     }},
    {"context",
     [](OpenOptions& options, std::string_view name, std::string_view value) -> Status {
         options.engine.context = TRY(read_count(name, value, {.least = 0, .most = kMostContext}));
         return Ok{};
     }},
    {"kv",
     [](OpenOptions& options, std::string_view name, std::string_view value) -> Status {
         options.engine.kv_dtype = parse_dtype(TRY(read_choice(name, value, {"f16", "f32", "q8_0"})));
         return Ok{};
     }},
    {"lookup",
     [](OpenOptions& options, std::string_view name, std::string_view value) -> Status {
         options.engine.looks_up = TRY(read_switch(name, value));
         return Ok{};
     }},
    {"sequences",
     [](OpenOptions& options, std::string_view name, std::string_view value) -> Status {
         options.engine.sequences = TRY(read_count(name, value, {.least = 1, .most = kMostSequences}));
         options.engine.rows = std::max(options.engine.rows, 2 * options.engine.sequences);
         return Ok{};
     }},
};

Status set_option(OpenOptions& options, std::string_view text) {
    const size_t equals = text.find('=');
    const std::string name(text.substr(0, equals));
    if (equals == std::string_view::npos) return fail("option '{}': it is written name=value", name.substr(0, 40));
    for (const Option& option : kOptions) {
        if (option.name == name) return option.set(options, name, text.substr(equals + 1));
    }
    std::vector<std::string_view> names;
    for (const Option& option : kOptions) names.push_back(option.name);
    return fail("option '{}' is unknown; there are {}{}", name.substr(0, 40), fmt::join(names, ", "),
                user::suggestion(name, names));
}

}  // namespace

Result<OpenOptions> read_options(const char* const* texts) {
    OpenOptions options;
    for (; texts != nullptr && *texts != nullptr; ++texts) TRY(set_option(options, *texts));
    return options;
}

}  // namespace tandem::lib
