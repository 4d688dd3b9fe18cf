// What was measured of this machine's devices, kept so that it need not be measured again.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/backend.h"
#include "plan/speeds.h"
#include "user/devices.h"

namespace tandem::cli {

struct DeviceProfile {
    std::string device;    // "vulkan:0"
    std::string hardware;  // with `details`: what must be the same for the figures to hold
    std::string details;
    plan::Speeds speeds;
    double upload_bytes_per_s = 0;  // 0: weights are used where they lie
};

// In the cache folder; empty where there is none.
std::filesystem::path profile_file();

// What was kept of the device by this version of the program.
std::optional<DeviceProfile> kept_profile(const std::filesystem::path& file, const device::Description& device);
// Beside what is kept of other devices.
Status keep_profile(const std::filesystem::path& file, const DeviceProfile& profile);

// Kept, or else measured now and kept; `measure` is told how far it is, from 0 to 1.
Result<DeviceProfile> profile_of(user::Devices& devices, device::Backend& backend);
// Measured now and kept.
Result<DeviceProfile> measure_profile(user::Devices& devices, device::Backend& backend);

}  // namespace tandem::cli
