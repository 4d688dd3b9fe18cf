#include "format/tensor_record.h"

#include "format/diagnose.h"

namespace tandem::format {

int64_t ForeignTensor::elements() const {
    return *tensor_elements(name, shape);
}

Error cannot_read(const ForeignTensor& tensor) {
    std::string types;
    for (const DType dtype : kAllDTypes) {
        if (dtype != DType::i32) types += fmt::format("{}{}", types.empty() ? "" : ", ", info(dtype).name);
    }
    return fail("tensor {} is stored as {}, which Tandem does not read: get the model in one of {}", quote(tensor.name),
                tensor.type, types);
}

Result<int64_t> tensor_elements(std::string_view name, std::span<const int64_t> shape) {
    int64_t elements = 1;
    for (const int64_t dim : shape) {
        if (__builtin_mul_overflow(elements, dim, &elements))
            return fail("tensor {} has more elements than 63 bits can count", quote(name));
    }
    return elements;
}

Result<uint64_t> tensor_bytes(std::string_view name, DType dtype, std::span<const int64_t> shape) {
    const DTypeInfo& type = info(dtype);
    const int64_t cols = shape.empty() ? 1 : shape.back();
    if (cols % type.block != 0) {
        return fail("tensor {} has rows of {} elements, not a multiple of the block of {} ({})", quote(name), cols,
                    type.name, type.block);
    }
    const int64_t elements = TRY(tensor_elements(name, shape));
    int64_t bytes = 0;
    if (__builtin_mul_overflow(elements / type.block, static_cast<int64_t>(type.block_bytes), &bytes))
        return fail("tensor {} has more bytes than 63 bits can count", quote(name));
    return static_cast<uint64_t>(bytes);
}

}  // namespace tandem::format
