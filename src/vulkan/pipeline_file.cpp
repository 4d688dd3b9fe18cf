#include "vulkan/pipeline_file.h"

#include <cstring>

#include "base/file.h"
#include "base/log.h"

namespace tandem::vulkan {

namespace {

constexpr std::string_view kMagic = "TANDEMP1";
constexpr size_t kHeadBytes = kMagic.size() + sizeof(uint64_t);

// FNV-1a: against accidents, not against attackers.
uint64_t checksum(std::string_view data) {
    uint64_t hash = 0xcbf29ce484222325U;
    for (char byte : data) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
    return hash;
}

VkPhysicalDeviceProperties properties_of(const Device& device) {
    VkPhysicalDeviceProperties properties{};
    vkGetPhysicalDeviceProperties(device.physical(), &properties);
    return properties;
}

bool is_for(std::string_view data, const Device& device) {
    VkPipelineCacheHeaderVersionOne head{};
    if (data.size() < sizeof(head)) return false;
    std::memcpy(&head, data.data(), sizeof(head));
    const VkPhysicalDeviceProperties properties = properties_of(device);
    return head.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && head.vendorID == properties.vendorID &&
           head.deviceID == properties.deviceID &&
           std::memcmp(head.pipelineCacheUUID, properties.pipelineCacheUUID, VK_UUID_SIZE) == 0;
}

}  // namespace

std::string pipeline_file_name(const Device& device) {
    const VkPhysicalDeviceProperties properties = properties_of(device);
    std::string name = fmt::format("pipelines-{:04x}-{:04x}-", properties.vendorID, properties.deviceID);
    for (uint8_t byte : properties.pipelineCacheUUID) name += fmt::format("{:02x}", byte);
    return name + ".bin";
}

std::string read_pipeline_file(const std::filesystem::path& file, const Device& device) {
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) return "";
    const Result<std::string> read = read_text_file(file);
    if (!read || read->size() < kHeadBytes || !read->starts_with(kMagic)) return "";
    uint64_t expected = 0;
    std::memcpy(&expected, read->data() + kMagic.size(), sizeof(expected));
    std::string data = read->substr(kHeadBytes);
    return checksum(data) == expected && is_for(data, device) ? data : "";
}

void write_pipeline_file(const std::filesystem::path& file, std::string_view data) {
    std::string content(kMagic);
    const uint64_t sum = checksum(data);
    content.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
    content += data;
    std::error_code ignored;
    std::filesystem::create_directories(file.parent_path(), ignored);
    if (const Status written = write_file(file, content); !written) log::info("{}", written.error().message);
}

}  // namespace tandem::vulkan
