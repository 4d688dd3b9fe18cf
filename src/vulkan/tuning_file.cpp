#include "vulkan/tuning_file.h"

#include <bit>
#include <cctype>
#include <concepts>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/file.h"
#include "base/log.h"
#include "vulkan/kernels/matmul.h"

namespace tandem::vulkan {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kFileLimitBytes = size_t{1} << 20;
constexpr size_t kMostEntries = 16;  // of a list
constexpr uint64_t kMostChainedRows = 1024;

// What a value may be.
struct Bounds {
    uint32_t least = 1;
    uint32_t most = 0xffffffff;
    bool power_of_two = false;
    uint32_t multiple_of = 1;

    bool take(uint64_t value) const {
        return value >= least && value <= most && value % multiple_of == 0 &&
               (!power_of_two || std::has_single_bit(value));
    }
    std::string kind() const {
        if (power_of_two) return "power of two";
        return multiple_of == 1 ? "number" : fmt::format("multiple of {}", multiple_of);
    }
};

// Every value of a tuning with its name, for reading and writing alike.
template <typename T, typename F>
void for_each_value(T& t, const F& value) requires std::same_as<std::remove_const_t<T>, GemvTuning> {
    value("max_outputs", t.max_outputs, {});
    value("max_inputs", t.max_inputs, {});
    value("lanes", t.lanes, {.least = 32, .most = 1024, .power_of_two = true});
    value("lanes_per_row", t.lanes_per_row, {.least = 4, .most = 64, .power_of_two = true});
    value("rows", t.rows, {.most = 16, .power_of_two = true});
    value("unroll", t.unroll, {.most = 16});
    value("groups", t.groups, {.most = 1 << 16});
    value("staged", t.staged, {.least = 0, .most = 1});
    value("clamped", t.clamped, {.least = 0, .most = 1});
}

template <typename T, typename F>
void for_each_value(T& t, const F& value) requires std::same_as<std::remove_const_t<T>, StreamTuning> {
    value("max_rows", t.max_rows, {});
    value("max_outputs", t.max_outputs, {});
    value("col_tiles", t.col_tiles, {.least = 2, .most = 16, .power_of_two = true});
    value("row_tiles", t.row_tiles, {.most = 16, .power_of_two = true});
    value("warps", t.warps, {.most = 32, .power_of_two = true});
    value("row_warps", t.row_warps, {.most = 32, .power_of_two = true});
    value("depth_warps", t.depth_warps, {.most = 32, .power_of_two = true});
    value("groups", t.groups, {.most = 1 << 16});
}

template <typename T, typename F>
void for_each_value(T& t, const F& value) requires std::same_as<std::remove_const_t<T>, MatmulTuning> {
    value("max_rows", t.max_rows, {});
    value("tile_rows", t.tile_rows, {.least = 8, .most = 512});
    value("tile_cols", t.tile_cols, {.least = 32, .most = 512});
    value("depth", t.depth, {.least = 32, .most = 512});
    value("warp_rows", t.warp_rows, {.least = 8, .most = 512});
    value("warp_cols", t.warp_cols, {.least = 32, .most = 512});
    value("stages", t.stages, {.most = 2});
    value("groups", t.groups, {.most = 1 << 16});
}

template <typename T, typename F>
void for_each_value(T& t, const F& value) requires std::same_as<std::remove_const_t<T>, AttentionTuning> {
    value("lanes", t.lanes, {.least = 64, .most = 256, .power_of_two = true});
    value("groups", t.groups, {.most = 1 << 16});
    value("matrix_lanes", t.matrix_lanes, {.least = 0, .most = 256, .multiple_of = 32});
    value("matrix_groups", t.matrix_groups, {.most = 1 << 16});
    value("wide_lanes", t.wide_lanes, {.least = 32, .most = 256, .multiple_of = 32});
    value("wide_groups", t.wide_groups, {.most = 1 << 16});
    value("lane_rows", t.lane_rows, {.least = 0, .most = 128, .multiple_of = 16});
    value("lane_positions", t.lane_positions, {.least = 16, .most = 64, .power_of_two = true});
    value("tile_rows", t.tile_rows, {.least = 16, .most = 128, .power_of_two = true});
    value("tile_positions", t.tile_positions, {.least = 16, .most = 64, .power_of_two = true});
    value("tile_warp", t.tile_warp, {.least = 32, .most = 64, .power_of_two = true});
}

template <typename T>
Json to_json(const T& tuning) {
    Json json = Json::object();
    for_each_value(tuning, [&](const char* name, uint32_t value, const Bounds&) { json[name] = value; });
    return json;
}

template <typename T>
Status read(const Json& json, const char* section, T& tuning) {
    if (!json.is_object()) return fail("'{}' is no object", section);
    std::string problem;
    size_t known = 0;
    for_each_value(tuning, [&](const char* name, uint32_t& value, const Bounds& bounds) {
        const auto found = json.find(name);
        if (found == json.end()) return;
        ++known;
        if (!found->is_number_unsigned() || !bounds.take(found->template get<uint64_t>())) {
            problem = fmt::format("{}.{} is {}, expected a {} from {} to {}", section, name, found->dump(),
                                  bounds.kind(), bounds.least, bounds.most);
            return;
        }
        value = found->template get<uint32_t>();
    });
    if (!problem.empty()) return fail("{}", problem);
    if (known != json.size()) return fail("'{}' has a value that is not known", section);
    return Ok{};
}

// What an entry is for, by which they are in order.
auto limits(const GemvTuning& entry) {
    return std::pair(entry.max_outputs, entry.max_inputs);
}
auto limits(const StreamTuning& entry) {
    return std::pair(entry.max_rows, entry.max_outputs);
}
auto limits(const MatmulTuning& entry) {
    return entry.max_rows;
}

template <typename T>
Status read_list(const Json& json, const char* section, std::vector<T>& list) {
    if (!json.is_array() || json.empty() || json.size() > kMostEntries)
        return fail("'{}' is no list of 1 to {} entries", section, kMostEntries);
    list.clear();
    for (const Json& entry : json) {
        T tuning;
        TRY(read(entry, section, tuning));
        if (!list.empty() && limits(tuning) <= limits(list.back()))
            return fail("'{}' is not in ascending order of its limits", section);
        list.push_back(tuning);
    }
    return Ok{};
}

template <typename T>
Json list_to_json(const std::vector<T>& list) {
    Json json = Json::array();
    for (const T& entry : list) json.push_back(to_json(entry));
    return json;
}

Status check(const GemvTuning& gemv, const DeviceInfo& device) {
    if (gemv.lanes > device.capabilities.max_workgroup)
        return fail("gemv.lanes is {}, the device has {}", gemv.lanes, device.capabilities.max_workgroup);
    if (gemv.lanes_per_row > gemv.lanes)
        return fail("gemv: {} lanes cannot be in groups of {}", gemv.lanes, gemv.lanes_per_row);
    return Ok{};
}

Status check(const Tuning& tuning, const DeviceInfo& device) {
    for (const GemvTuning& gemv : tuning.gemv) TRY(check(gemv, device));
    TRY(check(tuning.gated, device));
    // A GLU is written in whole blocks of 32.
    if (tuning.gated.lanes / tuning.gated.lanes_per_row * tuning.gated.rows % 32 != 0)
        return fail("gated: {} lanes in groups of {} with {} rows each make no multiple of 32 rows", tuning.gated.lanes,
                    tuning.gated.lanes_per_row, tuning.gated.rows);
    for (const MatmulTuning& matmul : tuning.matmul) TRY(fit_matmul(matmul, device.capabilities));
    for (const StreamTuning& stream : tuning.stream) {
        // what a lane leaves of its sums for the other warps, in shares that may be one too large
        const uint64_t left = uint64_t{stream.col_tiles} * stream.row_tiles * 8 + 2 * (stream.depth_warps - 1);
        const uint64_t shared = (stream.depth_warps - 1) * left * 128 * stream.warps / stream.depth_warps;
        if (stream.warps % (stream.row_warps * stream.depth_warps) != 0 ||
            stream.warps * 32 > device.capabilities.max_workgroup || shared > device.capabilities.shared_bytes)
            return fail("stream: {} warps, {} along the rows and {} along the inputs, are not possible", stream.warps,
                        stream.row_warps, stream.depth_warps);
    }
    return Ok{};
}

}  // namespace

std::string tuning_file_name(const DeviceInfo& device) {
    std::string name;
    for (char letter : device.name) {
        const auto byte = static_cast<unsigned char>(letter);
        if (std::isalnum(byte) != 0) {
            name += static_cast<char>(std::tolower(byte));
        } else if (!name.empty() && name.back() != '-') {
            name += '-';
        }
    }
    while (name.ends_with('-')) name.pop_back();
    return (name.empty() ? "device" : name) + ".json";
}

std::string tuning_to_json(const Tuning& tuning, const DeviceInfo& device) {
    const Json json{{"device", device.name},
                    {"gemv", list_to_json(tuning.gemv)},
                    {"gated", to_json(tuning.gated)},
                    {"chained_rows", tuning.chained_rows},
                    {"matmul", list_to_json(tuning.matmul)},
                    {"stream", list_to_json(tuning.stream)},
                    {"attention", to_json(tuning.attention)}};
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Tuning> tuning_from_json(const std::string& text, const DeviceInfo& device) {
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_object()) return fail("it is no JSON object");
    Tuning tuning = default_tuning(device);
    if (json.contains("gemv")) TRY(read_list(json["gemv"], "gemv", tuning.gemv));
    if (json.contains("gated")) TRY(read(json["gated"], "gated", tuning.gated));
    if (json.contains("chained_rows")) {
        const Json& rows = json["chained_rows"];
        if (!rows.is_number_unsigned() || rows.get<uint64_t>() > kMostChainedRows)
            return fail("chained_rows is {}, expected a number up to {}", rows.dump(), kMostChainedRows);
        tuning.chained_rows = rows.get<uint32_t>();
    }
    if (json.contains("matmul")) TRY(read_list(json["matmul"], "matmul", tuning.matmul));
    if (json.contains("stream") && json["stream"] != Json::array())
        TRY(read_list(json["stream"], "stream", tuning.stream));
    if (json.contains("attention")) TRY(read(json["attention"], "attention", tuning.attention));
    TRY(check(tuning, device));
    return tuning;
}

Tuning load_tuning(const std::filesystem::path& directory, const DeviceInfo& device) {
    const std::filesystem::path file = directory / tuning_file_name(device);
    std::error_code ignored;
    if (directory.empty() || !std::filesystem::exists(file, ignored)) return default_tuning(device);
    const Result<std::string> text = read_text_file(file, kFileLimitBytes);
    if (!text) {
        log::warn("{}; the defaults are used", text.error().message);
        return default_tuning(device);
    }
    Result<Tuning> tuning = tuning_from_json(*text, device);
    if (tuning) return std::move(*tuning);
    log::warn("{}: {}; the defaults are used", file.string(), tuning.error().message);
    return default_tuning(device);
}

Status save_tuning(const std::filesystem::path& directory, const Tuning& tuning, const DeviceInfo& device) {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    return write_file(directory / tuning_file_name(device), tuning_to_json(tuning, device));
}

}  // namespace tandem::vulkan
