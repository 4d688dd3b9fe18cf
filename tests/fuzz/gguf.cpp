// Reads any bytes as a GGUF file and touches all that it gives.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "format/gguf.h"
#include "format/gguf_writer.h"
#include "format/quant.h"

namespace tandem::format {
namespace {

uint64_t touch(const GgufValue& value) {
    uint64_t sum = 0;
    for (std::byte byte : value.bytes) sum += static_cast<uint64_t>(byte);
    if (value.as_int()) ++sum;
    if (value.as_float() > 0.0) ++sum;
    if (value.as_bool() == true) ++sum;
    if (value.as_string()) ++sum;
    if (const auto array = value.as_array()) {
        for (const GgufValue& element : *array) sum += touch(element);
    }
    return sum;
}

uint64_t touch(const TensorRecord& tensor) {
    uint64_t sum = 0;
    for (std::byte byte : tensor.data) sum += static_cast<uint64_t>(byte);
    const int64_t cols = std::min<int64_t>(tensor.cols(), 1024) / info(tensor.dtype).block * info(tensor.dtype).block;
    std::vector<float> row(static_cast<size_t>(cols));
    decode_row(tensor.dtype, tensor.data.data(), row.data(), cols);
    return sum;
}

// What was read can be written and read again.
void copy(const GgufFile& file) {
    GgufWriter writer;
    for (const GgufEntry& entry : file.metadata()) writer.set(entry.key, entry.value);
    for (const TensorRecord& tensor : file.tensors()) writer.add(tensor.name, tensor.dtype, tensor.shape, tensor.data);
    const auto bytes = writer.to_bytes();
    if (!bytes) return;  // names of more than 63 bytes are read, but not written
    const auto again = GgufFile::parse(*bytes, "copy");
    CHECK(again, again ? "" : again.error().message);
    CHECK(again->metadata().size() == file.metadata().size());
    CHECK(again->tensors().size() == file.tensors().size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto file = GgufFile::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    if (!file) {
        CHECK(!file.error().message.empty());
        return 0;
    }
    volatile uint64_t sink = 0;
    for (const GgufEntry& entry : file->metadata()) {
        sink = sink + touch(entry.value);
        CHECK(file->find(entry.key) != nullptr);
        if (const auto ints = file->get_ints(entry.key)) sink = sink + ints->size();
        if (const auto floats = file->get_floats(entry.key)) sink = sink + floats->size();
        if (const auto strings = file->get_strings(entry.key)) sink = sink + strings->size();
    }
    for (const TensorRecord& tensor : file->tensors()) {
        sink = sink + touch(tensor);
        CHECK(file->find_tensor(tensor.name) == &tensor);
    }
    for (const ForeignTensor& tensor : file->foreign_tensors()) {
        for (std::byte byte : tensor.data) sink = sink + static_cast<uint64_t>(byte);
        CHECK(!tensor.data.empty() && tensor.elements() > 0);
        CHECK(file->find_tensor(tensor.name) == nullptr);
    }
    copy(*file);
    return 0;
}

}  // namespace tandem::format
