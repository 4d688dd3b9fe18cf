#include "format/gguf_writer.h"

#include <algorithm>
#include <set>

#include "base/file.h"
#include "format/diagnose.h"
#include "format/gguf.h"
#include "format/tensor_record.h"

namespace tandem::format {

namespace {

// The limits of llama.cpp, so that it reads what we write.
constexpr size_t kMaxNameWritten = 63;
constexpr size_t kMaxDimsWritten = 4;

void put(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
}

template <typename T>
requires std::is_arithmetic_v<T>
void put(std::vector<std::byte>& out, T value) {
    put(out, std::as_bytes(std::span(&value, 1)));
}

void put(std::vector<std::byte>& out, std::string_view text) {
    put(out, uint64_t{text.size()});
    put(out, std::as_bytes(std::span(text)));
}

uint64_t padding(uint64_t size, uint32_t alignment) {
    return (alignment - size % alignment) % alignment;
}

Status write_padding(const TensorSink& sink, uint64_t size, uint32_t alignment) {
    const std::vector<std::byte> zeros(padding(size, alignment));
    return sink(zeros);
}

}  // namespace

void GgufWriter::set(std::string_view key, std::string_view value) {
    std::vector<std::byte> encoded;
    put(encoded, value);
    set_bytes(key, GgufType::string, encoded);
}

void GgufWriter::set(std::string_view key, std::span<const std::string_view> values) {
    std::vector<std::byte> encoded;
    for (std::string_view value : values) put(encoded, value);
    set_array(key, GgufType::string, values.size(), encoded);
}

void GgufWriter::set(std::string_view key, const std::vector<std::string>& values) {
    const std::vector<std::string_view> views(values.begin(), values.end());
    set(key, std::span<const std::string_view>(views));
}

void GgufWriter::set(std::string_view key, const GgufValue& value) {
    if (const auto text = value.as_string()) {
        set(key, *text);
    } else {
        set_bytes(key, value.type, value.bytes);
    }
}

void GgufWriter::remove(std::string_view key) {
    if (!place_.contains(key)) return;
    std::erase_if(entries_, [key](const Entry& entry) { return entry.key == key; });
    place_.clear();
    for (size_t i = 0; i < entries_.size(); ++i) place_.emplace(entries_[i].key, i);
}

void GgufWriter::set_array(std::string_view key, GgufType type, uint64_t count, std::span<const std::byte> elements) {
    std::vector<std::byte> encoded;
    put(encoded, static_cast<uint32_t>(type));
    put(encoded, count);
    put(encoded, elements);
    set_bytes(key, GgufType::array, encoded);
}

void GgufWriter::set_bytes(std::string_view key, GgufType type, std::span<const std::byte> value) {
    const auto [at, is_new] = place_.emplace(key, entries_.size());
    if (is_new) entries_.push_back({.key = std::string(key)});
    Entry& entry = entries_[at->second];
    entry.type = type;
    entry.value.assign(value.begin(), value.end());
}

void GgufWriter::add(Tensor tensor) {
    tensors_.push_back(std::move(tensor));
}

void GgufWriter::add(std::string name, DType dtype, std::vector<int64_t> shape, std::span<const std::byte> data) {
    add({.name = std::move(name), .dtype = dtype, .shape = std::move(shape), .source = [data](const TensorSink& sink) {
             return sink(data);
         }});
}

Status GgufWriter::write(const std::filesystem::path& path) const {
    const Status checked = check();
    if (!checked) return fail("{}: {}", path.string(), checked.error().message);
    AtomicFile file = TRY(AtomicFile::create(path));
    TRY(write_to([&file](std::span<const std::byte> bytes) { return file.write(bytes); }));
    return file.commit();
}

Result<std::vector<std::byte>> GgufWriter::to_bytes() const {
    TRY(check());
    std::vector<std::byte> out;
    TRY(write_to([&out](std::span<const std::byte> bytes) {
        put(out, bytes);
        return Status(Ok{});
    }));
    return out;
}

Result<GgufWriter::Frame> GgufWriter::frame() const {
    TRY(check());
    const uint32_t align = TRY(alignment());
    Frame frame{.head = header(align)};
    frame.size_bytes = frame.head.size() + padding(frame.head.size(), align);
    for (const Tensor& tensor : tensors_) {
        const uint64_t size = TRY(tensor_bytes(tensor.name, tensor.dtype, tensor.shape));
        frame.size_bytes += size + padding(size, align);
    }
    return frame;
}

Result<uint32_t> GgufWriter::alignment() const {
    const auto at = place_.find("general.alignment");
    if (at == place_.end()) return gguf_alignment(nullptr);
    const Entry& entry = entries_[at->second];
    const GgufValue value{entry.type, entry.value};
    return gguf_alignment(&value);
}

Status GgufWriter::check() const {
    TRY(alignment());
    for (const Entry& entry : entries_) {
        if (entry.key.empty() || entry.key.size() > kMaxGgufKey || !is_printable(entry.key))
            return fail("metadata key {} must be 1 to {} characters of printable ASCII", quote(entry.key), kMaxGgufKey);
    }
    std::set<std::string_view> names;
    for (const Tensor& tensor : tensors_) {
        if (tensor.name.empty() || tensor.name.size() > kMaxNameWritten || !is_printable(tensor.name)) {
            return fail("tensor {}: a name of {} bytes, GGUF allows 1 to {} of printable ASCII", quote(tensor.name),
                        tensor.name.size(), kMaxNameWritten);
        }
        if (!names.insert(tensor.name).second) return fail("tensor {} was added twice", quote(tensor.name));
        const auto& shape = tensor.shape;
        if (shape.empty() || shape.size() > kMaxDimsWritten ||
            std::any_of(shape.begin(), shape.end(), [](int64_t dim) { return dim <= 0; })) {
            return fail("tensor {}: its shape ({}) must have 1 to {} dimensions of at least 1", quote(tensor.name),
                        fmt::join(shape, ", "), kMaxDimsWritten);
        }
        TRY(tensor_bytes(tensor.name, tensor.dtype, shape));
    }
    return Ok{};
}

std::vector<std::byte> GgufWriter::header(uint32_t align) const {
    std::vector<std::byte> out;
    put(out, std::as_bytes(std::span("GGUF", 4)));
    put(out, uint32_t{3});
    put(out, uint64_t{tensors_.size()});
    put(out, uint64_t{entries_.size()});
    for (const Entry& entry : entries_) {
        put(out, std::string_view(entry.key));
        put(out, static_cast<uint32_t>(entry.type));
        put(out, std::span<const std::byte>(entry.value));
    }
    uint64_t offset = 0;
    for (const Tensor& tensor : tensors_) {
        put(out, std::string_view(tensor.name));
        put(out, static_cast<uint32_t>(tensor.shape.size()));
        for (size_t i = tensor.shape.size(); i-- > 0;) put(out, static_cast<uint64_t>(tensor.shape[i]));
        put(out, ggml_type(tensor.dtype));
        put(out, offset);
        const uint64_t size = *tensor_bytes(tensor.name, tensor.dtype, tensor.shape);
        offset += size + padding(size, align);
    }
    return out;
}

Status GgufWriter::write_to(const TensorSink& sink) const {
    const uint32_t align = TRY(alignment());
    const std::vector<std::byte> head = header(align);
    TRY(sink(head));
    TRY(write_padding(sink, head.size(), align));
    for (const Tensor& tensor : tensors_) {
        const uint64_t expected = TRY(tensor_bytes(tensor.name, tensor.dtype, tensor.shape));
        uint64_t given = 0;
        TRY(tensor.source([&](std::span<const std::byte> bytes) -> Status {
            given += bytes.size();
            if (given > expected) return fail("tensor {}: more than its {} bytes", quote(tensor.name), expected);
            return sink(bytes);
        }));
        if (given != expected)
            return fail("tensor {}: {} bytes were given, {} expected", quote(tensor.name), given, expected);
        TRY(write_padding(sink, expected, align));
    }
    return Ok{};
}

}  // namespace tandem::format
