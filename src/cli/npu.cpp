#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "cli/command.h"
#include "cli/npu_selftest.h"
#include "cli/text_output.h"
#include "device/host_memory.h"
#include "npu/check.h"
#include "npu/designs/library.h"
#include "npu/emulator.h"
#include "npu/estimate.h"
#include "npu/memory_map.h"
#include "npu/mlir.h"
#include "npu/tile_use.h"
#include "npu/toolchain.h"
#include "npu/xrt/discovery.h"
#include "npu/xrt/runtime.h"
#include "user/npu.h"
#include "user/paths.h"

namespace tandem::cli {

namespace {

using Json = nlohmann::ordered_json;

struct NpuOptions {
    std::string design;
    std::string array = "npu1";
    std::string out;
    uint32_t seed = 1;
    std::optional<double> minutes;
    bool emulator = false;
    bool json = false;
};

void print_npu_json(const Json& json) {
    print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::vector<std::string> example_names() {
    std::vector<std::string> names;
    for (const npu::DesignFamily& family : npu::design_families())
        names.insert(names.end(), family.examples.begin(), family.examples.end());
    return names;
}

Json device_json(const npu::Discovery& found) {
    Json obstacles = Json::array();
    for (const npu::Obstacle& obstacle : found.obstacles)
        obstacles.push_back({{"what", obstacle.what}, {"remedy", obstacle.remedy}});
    return {{"usable", found.obstacles.empty()},
            {"array", found.device ? Json(found.device->array) : Json()},
            {"hardware", found.device ? Json(found.device->hardware) : Json()},
            {"xrt", found.xrt.empty() ? Json() : Json(found.xrt)},
            {"obstacles", std::move(obstacles)}};
}

std::string device_text(const npu::Discovery& found) {
    std::string text = fmt::format("device: {}{}\n", found.device ? found.device->hardware : "no NPU",
                                   found.obstacles.empty() ? ", usable" : "");
    for (const npu::Obstacle& obstacle : found.obstacles)
        text += fmt::format("  {}: {}\n", obstacle.what, obstacle.remedy);
    return text;
}

Result<int> list_designs(const NpuOptions& options) {
    const npu::Discovery found = npu::discover(npu::System::here());
    const Result<npu::Toolchain> toolchain = npu::find_toolchain(npu::ToolPlaces::of_environment());
    const std::string tools = toolchain ? toolchain->version : toolchain.error().message;
    Json arrays = Json::array();
    Json families = Json::array();
    Table array_table({"ARRAY", "HARDWARE", "CORES", "INT8 TOPS", "MEMORY GB/S"}, {2, 3, 4});
    for (const npu::Array& array : npu::arrays()) {
        const double tops = 2.0 * array.macs_per_cycle_i8 * array.compute_tiles() * array.clock_mhz * 1e-6;
        arrays.push_back({{"name", array.name},
                          {"hardware", array.description},
                          {"cores", array.compute_tiles()},
                          {"int8_tops", tops},
                          {"memory_gb_s", array.ddr_gb_s}});
        array_table.add({std::string(array.name), std::string(array.description), std::to_string(array.compute_tiles()),
                         fmt::format("{:.1f}", tops), fmt::format("{:.0f}", array.ddr_gb_s)});
    }
    Table family_table({"DESIGN", "WHAT", "SUCH AS"});
    for (const npu::DesignFamily& family : npu::design_families()) {
        families.push_back({{"pattern", family.pattern}, {"what", family.what}, {"examples", family.examples}});
        family_table.add({family.pattern, family.what, family.examples.front()});
    }
    if (options.json) {
        print_npu_json({{"device", device_json(found)},
                        {"arrays", std::move(arrays)},
                        {"designs", std::move(families)},
                        {"toolchain", {{"found", static_cast<bool>(toolchain)}, {"details", tools}}}});
    } else {
        print(device_text(found) + "\n" + array_table.to_string() + "\n" + family_table.to_string() +
              "\ntoolchain: " + tools + "\n");
    }
    return 0;
}

std::string of_limit(int64_t used, int64_t limit) {
    return fmt::format("{} of {}", used, limit);
}

Json tile_json(const npu::Array& array, npu::Tile tile, const npu::TileUse& use) {
    const npu::TileLimits& limits = array.limits(array.kind(tile));
    const auto share = [](int64_t used, int64_t limit) { return Json{{"used", used}, {"limit", limit}}; };
    return {{"column", tile.column},
            {"row", tile.row},
            {"kind", npu::name(array.kind(tile))},
            {"memory_bytes", share(use.memory_bytes, limits.memory_bytes)},
            {"descriptors", share(use.descriptors, limits.descriptors)},
            {"locks", share(use.locks, limits.locks)},
            {"channels_in", share(use.channels_in, limits.channels_in)},
            {"channels_out", share(use.channels_out, limits.channels_out)}};
}

void add_tile(Table& table, const npu::Array& array, npu::Tile tile, const npu::TileUse& use) {
    const npu::TileLimits& limits = array.limits(array.kind(tile));
    table.add({fmt::format("{} ({}, {})", npu::name(array.kind(tile)), tile.column, tile.row),
               of_limit(use.memory_bytes, limits.memory_bytes), of_limit(use.descriptors, limits.descriptors),
               of_limit(use.locks, limits.locks), of_limit(use.channels_in, limits.channels_in),
               of_limit(use.channels_out, limits.channels_out)});
}

Result<int> check_design(const NpuOptions& options) {
    const npu::Array& array = *npu::find_array(options.array);
    const npu::Design design = TRY(npu::make_design(options.design, options.array));
    TRY(npu::check(design, array));
    Table table({"TILE", "MEMORY", "DESCRIPTORS", "LOCKS", "CHANNELS IN", "CHANNELS OUT"}, {1, 2, 3, 4, 5});
    Json tiles = Json::array();
    for (const auto& entry : npu::tile_use(design, array)) {
        add_tile(table, array, entry.first, entry.second);
        tiles.push_back(tile_json(array, entry.first, entry.second));
    }
    if (options.json)
        print_npu_json({{"checked", {{{"design", options.design}, {"array", options.array}, {"tiles", tiles}}}}});
    else
        print(fmt::format("{}{}: within the limits of {}\n", table.to_string(), options.design, options.array));
    return 0;
}

std::string upper(std::string_view text) {
    std::string made(text);
    std::ranges::transform(made, made.begin(), [](unsigned char c) { return std::toupper(c); });
    return made;
}

// Every design of the library by every rule: "ok", what is wrong, or "-" where it was not asked any more.
Result<int> check_designs(const NpuOptions& options) {
    if (options.design != "all") return check_design(options);
    const npu::Array& array = *npu::find_array(options.array);
    std::vector<std::string> columns{"DESIGN"};
    for (const npu::Rule& rule : npu::rules()) columns.push_back(upper(rule.name));
    columns.emplace_back("BANKS");
    Table table(columns);
    Json checked = Json::array();
    std::string wrong;
    for (const std::string& name : example_names()) {
        const npu::Design design = TRY(npu::make_design(name, options.array));
        std::vector<std::string> row{name};
        Json rules = Json::object();
        bool fine = true;
        for (const npu::Rule& rule : npu::rules()) {
            const Status status = fine ? rule.check(design, array) : Status(Ok{});
            row.emplace_back(!fine ? "-" : status ? "ok" : "NO");
            rules[std::string(rule.name)] = row.back();
            if (!status) wrong += fmt::format("{}: {}\n", name, status.error().message);
            fine = fine && status;
        }
        // Operands of a product that share a bank are slower, not wrong: the estimate counts it.
        row.emplace_back(!fine ? "-" : npu::operands_apart(design, array) ? "apart" : "shared");
        rules["banks"] = row.back();
        table.add(row);
        checked.push_back({{"design", name}, {"array", options.array}, {"rules", std::move(rules)}});
    }
    if (options.json)
        print_npu_json({{"checked", std::move(checked)}});
    else
        print(table.to_string() + wrong);
    return wrong.empty() ? 0 : 1;
}

Result<int> emit_design(const NpuOptions& options) {
    const npu::Design design = TRY(npu::make_design(options.design, options.array));
    TRY(npu::check(design));
    const std::string text = npu::to_mlir(design);
    if (options.out.empty())
        print(text);
    else
        TRY(write_file(options.out, text));
    return 0;
}

Result<int> build(const NpuOptions& options) {
    const npu::Design design = TRY(npu::make_design(options.design, options.array));
    TRY(npu::check(design));
    const npu::BuiltDesign built = TRY(user::build_npu_design(design, note));
    if (options.json) {
        print_npu_json({{"design", options.design},
                        {"xclbin", built.xclbin.string()},
                        {"instructions", built.instructions.string()},
                        {"from_cache", built.from_cache}});
    } else {
        print(fmt::format("{}\n{}\n", built.xclbin.string(), built.instructions.string()));
    }
    return 0;
}

Result<std::shared_ptr<npu::Buffer>> import_argument(npu::Runtime& runtime, const std::vector<std::byte>& argument) {
    auto memory = std::make_shared<device::HostBuffer>(
        TRY(device::HostBuffer::allocate(argument.size(), "an argument of the design", "choose a smaller design")));
    std::memcpy(memory->data(), argument.data(), argument.size());
    return runtime.import_memory(memory->pages(), {.keeper = memory});
}

Result<int> run_on_device(const NpuOptions& options, npu::Trial& trial) {
    const auto runtime =
        TRY(npu::open_npu({.built = [](const npu::Design& design) { return user::built_npu_design(design, note); }}));
    const auto loaded = TRY(runtime->load(trial.design));
    std::vector<std::shared_ptr<npu::Buffer>> buffers;
    std::vector<npu::Buffer*> arguments;
    buffers.reserve(trial.arguments.size());
    arguments.reserve(trial.arguments.size());
    for (const std::vector<std::byte>& argument : trial.arguments) {
        buffers.push_back(TRY(import_argument(*runtime, argument)));
        arguments.push_back(buffers.back().get());
    }
    const npu::RunReport report = TRY(loaded->run(arguments));
    for (size_t i = 0; i < buffers.size(); ++i)
        std::memcpy(trial.arguments[i].data(), buffers[i]->bytes().data(), trial.arguments[i].size());
    const int64_t compared = TRY(trial.compare(trial.arguments));
    if (options.json) {
        print_npu_json({{"design", options.design},
                        {"array", options.array},
                        {"ran_on", runtime->name()},
                        {"compared", compared},
                        {"seconds", report.seconds}});
    } else {
        print(fmt::format("{} on the {}: {} results agree with a plain computation, {:.3f} ms\n", options.design,
                          runtime->name(), compared, report.seconds * 1e3));
    }
    return 0;
}

struct Traffic {
    uint64_t read_bytes = 0;     // by the array
    uint64_t written_bytes = 0;  // by it
};

Traffic traffic_of(const npu::Activity& activity) {
    Traffic traffic;
    for (const npu::HostActivity& channel : activity.host)
        (channel.to_array ? traffic.read_bytes : traffic.written_bytes) += channel.size_bytes;
    return traffic;
}

Result<int> run_on_emulator(const NpuOptions& options, npu::Trial& trial) {
    const npu::Array& array = *npu::find_array(options.array);
    npu::Emulator emulator = TRY(npu::Emulator::make(trial.design));
    const std::vector<std::span<std::byte>> arguments(trial.arguments.begin(), trial.arguments.end());
    const npu::Activity activity = TRY(emulator.run(arguments));
    const int64_t compared = TRY(trial.compare(trial.arguments));
    const Traffic traffic = traffic_of(activity);
    const npu::Estimate estimate = npu::estimate(activity, array);
    if (options.json) {
        print_npu_json({{"design", options.design},
                        {"array", options.array},
                        {"ran_on", "npu emulator"},
                        {"compared", compared},
                        {"macs", estimate.macs},
                        {"read_bytes", traffic.read_bytes},
                        {"written_bytes", traffic.written_bytes},
                        {"estimated_seconds", estimate.seconds()},
                        {"estimated_tops", estimate.tops()},
                        {"bound_by", npu::name(estimate.bound())}});
        return 0;
    }
    print(fmt::format("{} on the npu emulator ({}): {} results agree with a plain computation\n", options.design,
                      options.array, compared));
    print(fmt::format("{} multiply-adds, {} to the array, {} from it\n", format_count(estimate.macs),
                      format_bytes(traffic.read_bytes), format_bytes(traffic.written_bytes)));
    print(fmt::format("estimated on the array, not measured: {:.3f} ms, {:.2f} TOPS, bound by {}\n",
                      estimate.seconds() * 1e3, estimate.tops(), npu::name(estimate.bound())));
    return 0;
}

Result<int> run_design(const NpuOptions& options) {
    if (!options.emulator) {
        const Status usable = npu::discover(npu::System::here()).usable();
        if (!usable) return fail("{}; --emulator runs it on the CPU", usable.error().message);
    }
    npu::Trial trial = TRY(npu::make_trial(options.design, options.array, options.seed));
    TRY(npu::check(trial.design));
    return options.emulator ? run_on_emulator(options, trial) : run_on_device(options, trial);
}

constexpr const char* kNpuExamples =
    "Examples:\n"
    "  tandem npu list                                    the device or what is in its way, arrays, designs, "
    "toolchain\n"
    "  tandem npu check gemm_i8_512x2048x2048             what each tile of a design needs\n"
    "  tandem npu check all --array npu2                  all of them on the larger array\n"
    "  tandem npu emit gemm_i8_512x2048x2048 --out a.mlir  the design in MLIR\n"
    "  tandem npu build gemm_i8_512x2048x2048             compile it with the vendor's toolchain\n"
    "  tandem npu run gemm_i8_64x256x256 --emulator       run it with random data and compare the results\n"
    "  tandem npu selftest                                all of it on this machine's NPU, one report to paste\n"
    "\n"
    "`tandem npu COMMAND --help` explains a command.";

Result<int> selftest(const NpuOptions& options) {
    return npu_selftest({.emulator = options.emulator, .minutes = options.minutes, .json = options.json});
}

struct NpuCommand {
    CLI::App* app;
    Result<int> (*main)(const NpuOptions&);
};

CLI::App* add_sub(CLI::App& app, const char* name, const char* what, NpuOptions& options, bool design) {
    CLI::App* const sub = app.add_subcommand(name, what);
    if (!design) return sub;
    sub->add_option("DESIGN", options.design, "Its name, as `tandem npu list` shows them")->required();
    std::vector<std::string> arrays;
    for (const npu::Array& array : npu::arrays()) arrays.emplace_back(array.name);
    sub->add_option("--array", options.array, "The array it is for")
        ->check(CLI::IsMember(arrays))
        ->capture_default_str();
    return sub;
}

}  // namespace

Command add_npu(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("npu", "Designs for the NPU: list, check, write, build and try them");
    app->footer(kNpuExamples);
    app->require_subcommand(1);
    const auto options = std::make_shared<NpuOptions>();
    const std::vector<NpuCommand> commands{
        {add_sub(*app, "list", "List the device, arrays, designs and the toolchain", *options, false), list_designs},
        {add_sub(*app, "check", "Check a design, or all, against the limits of the array", *options, true),
         check_designs},
        {add_sub(*app, "emit", "Write a design as MLIR", *options, true), emit_design},
        {add_sub(*app, "build", "Compile a design with the vendor's toolchain", *options, true), build},
        {add_sub(*app, "run", "Run a design with random data and compare the results", *options, true), run_design},
        {add_sub(*app, "selftest", "Try the NPU of this machine from building to ten minutes of load", *options, false),
         selftest},
    };
    for (const NpuCommand& command : commands) {
        if (command.main != emit_design) command.app->add_flag("--json", options->json, "Print JSON");
        if (command.main == emit_design)
            command.app->add_option("--out", options->out, "The file to write, in place of standard output");
        if (command.main == selftest)
            command.app->add_option("--minutes", options->minutes, "Of load, at the end: 10, of the emulator none")
                ->check(CLI::Range(0.0, 1440.0));
        if (command.main != run_design && command.main != selftest) continue;
        command.app->add_flag("--emulator", options->emulator, "Run it on the CPU, with the emulator of the array");
        if (command.main != run_design) continue;
        command.app->add_option("--seed", options->seed, "Of the random data")->capture_default_str();
    }
    return {app, [options, commands]() -> Result<int> {
                for (const NpuCommand& command : commands)
                    if (command.app->parsed()) return command.main(*options);
                CHECK(false, "the parser asks for a command");
            }};
}

}  // namespace tandem::cli
