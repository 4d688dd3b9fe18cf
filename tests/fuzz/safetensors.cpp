// Reads any bytes as a safetensors file and touches all that it gives.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "format/quant.h"
#include "format/safetensors.h"

namespace tandem::format {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto file = SafetensorsFile::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    if (!file) {
        CHECK(!file.error().message.empty());
        return 0;
    }
    volatile uint64_t sink = 0;
    size_t bytes = 0;
    for (const TensorRecord& tensor : file->tensors()) {
        CHECK(file->find_tensor(tensor.name) == &tensor);
        bytes += tensor.data.size();
        for (std::byte byte : tensor.data) sink = sink + static_cast<uint64_t>(byte);
        const int64_t count = std::min<int64_t>(tensor.elements(), 1024);
        std::vector<float> values(static_cast<size_t>(count));
        decode_row(tensor.dtype, tensor.data.data(), values.data(), count);
    }
    CHECK(bytes < size);
    for (const auto& [key, value] : file->metadata()) sink = sink + key.size() + value.size();
    return 0;
}

}  // namespace tandem::format
