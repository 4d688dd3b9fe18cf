#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/text_output.h"
#include "user/devices.h"

namespace tandem::cli {

namespace {

using Json = nlohmann::ordered_json;

std::string to_json(const user::DeviceList& devices) {
    Json list = Json::array();
    for (const auto& [device, is_default] : devices.devices) {
        Json pools = Json::array();
        for (const device::MemoryPool& pool : device.pools) {
            pools.push_back({{"name", pool.name}, {"size_bytes", pool.size_bytes}, {"free_bytes", pool.free_bytes}});
        }
        list.push_back({{"name", device.name},
                        {"hardware", device.hardware},
                        {"details", device.details},
                        {"usable", device.unusable.empty()},
                        {"default", is_default},
                        {"pools", std::move(pools)}});
    }
    return Json{{"devices", std::move(list)}, {"why", devices.why}}.dump(2, ' ', false,
                                                                         Json::error_handler_t::replace) +
           "\n";
}

std::string to_table(const user::DeviceList& devices) {
    Table table({"", "DEVICE", "HARDWARE", "DETAILS", "MEMORY"});
    for (const auto& [device, is_default] : devices.devices) {
        std::string memory;
        for (const device::MemoryPool& pool : device.pools) {
            memory += fmt::format("{}{}: {} ({} free)", memory.empty() ? "" : ", ", pool.name,
                                  format_bytes(pool.size_bytes), format_bytes(pool.free_bytes));
        }
        table.add({is_default ? "*" : "", device.name, device.hardware, device.details, memory});
    }
    return table.to_string() + "\n* what --device auto takes for a model that fits" +
           (devices.why.empty() ? "" : "; " + devices.why) + "\n";
}

}  // namespace

Command add_devices(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("devices", "List the devices that models can run on");
    const auto json = std::make_shared<bool>(false);
    app->add_flag("--json", *json, "Print JSON");
    app->footer("DEVICE is what --device takes; * marks what it takes by itself.");
    return {app, [json]() -> Result<int> {
                const user::DeviceList devices = TRY(user::list_devices());
                print(*json ? to_json(devices) : to_table(devices));
                return 0;
            }};
}

}  // namespace tandem::cli
