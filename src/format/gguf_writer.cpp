#include "format/gguf_writer.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
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

// Bytes that a thread makes and writes in one go.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

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
    add({.name = std::move(name), .dtype = dtype, .shape = std::move(shape), .data = data});
}

Status GgufWriter::write(const std::filesystem::path& path, const Options& options) const {
    const Result<Layout> planned = layout();
    if (!planned) return fail("{}: {}", path.string(), planned.error().message);
    AtomicFile file = TRY(AtomicFile::create(path));
    TRY(file.reserve(planned->size_bytes));
    TRY(file.write_at(0, planned->head));
    Options how = options;
    if (file.is_in_order()) how.threads = nullptr;
    const auto make = [&file](const Piece& piece) -> Status {
        if (!piece.tensor->fill)
            return file.write_at(piece.offset, piece.tensor->data.subspan(piece.first, piece.size_bytes));
        const auto made = std::make_unique_for_overwrite<std::byte[]>(piece.size_bytes);
        const std::span<std::byte> bytes(made.get(), piece.size_bytes);
        TRY(piece.tensor->fill(piece.first, bytes));
        return file.write_at(piece.offset, bytes);
    };
    TRY(for_each(planned->pieces, how, make));
    if (file.is_in_order()) TRY(file.write_at(planned->size_bytes, {}));  // what comes after the last tensor
    return file.commit();
}

Result<uint64_t> GgufWriter::size_bytes() const {
    return TRY(layout()).size_bytes;
}

Status GgufWriter::write_head(std::span<std::byte> out) const {
    const Layout planned = TRY(layout());
    CHECK(out.size() == planned.size_bytes, "memory of another size");
    std::ranges::copy(planned.head, out.begin());
    return Ok{};
}

Status GgufWriter::write(std::span<std::byte> out, const Options& options) const {
    const Layout planned = TRY(layout());
    CHECK(out.size() == planned.size_bytes, "memory of another size");
    std::ranges::copy(planned.head, out.begin());
    return for_each(planned.pieces, options, [out](const Piece& piece) -> Status {
        const std::span<std::byte> place = out.subspan(piece.offset, piece.size_bytes);
        if (piece.tensor->fill) return piece.tensor->fill(piece.first, place);
        std::ranges::copy(piece.tensor->data.subspan(piece.first, piece.size_bytes), place.begin());
        return Ok{};
    });
}

Result<std::vector<std::byte>> GgufWriter::to_bytes() const {
    std::vector<std::byte> out(TRY(size_bytes()));
    TRY(write(out, Options()));
    return out;
}

Result<GgufWriter::Layout> GgufWriter::layout() const {
    TRY(check());
    const uint32_t align = TRY(alignment());
    Layout layout{.head = header(align), .pieces = {}};
    layout.size_bytes = layout.head.size() + padding(layout.head.size(), align);
    for (const Tensor& tensor : tensors_) {
        const uint64_t size = TRY(tensor_bytes(tensor.name, tensor.dtype, tensor.shape));
        const uint64_t step = std::max<uint64_t>(1, kPieceBytes / tensor.unit_bytes) * tensor.unit_bytes;
        for (uint64_t first = 0; first < size; first += step)
            layout.pieces.push_back({&tensor, first, std::min(step, size - first), layout.size_bytes + first});
        layout.size_bytes += size + padding(size, align);
    }
    return layout;
}

Status GgufWriter::for_each(std::span<const Piece> pieces, const Options& options,
                            const std::function<Status(const Piece&)>& body) {
    uint64_t total = 0;
    for (const Piece& piece : pieces) total += piece.size_bytes;
    uint64_t done = 0;
    Status status = Ok{};  // the first error ends it
    std::mutex mutex;      // of both
    std::atomic<bool> failed = false;
    const auto work = [&](int64_t begin, int64_t end, int /*thread*/) {
        for (int64_t i = begin; i < end && !failed; ++i) {
            const Piece& piece = pieces[static_cast<size_t>(i)];
            Status made = body(piece);
            const std::lock_guard lock(mutex);
            if (failed) return;
            done += piece.size_bytes;
            if (made && options.progress) made = options.progress(done, total);
            if (made) continue;
            status = std::move(made);
            failed = true;
        }
    };
    if (options.threads != nullptr) {
        options.threads->for_each_range(std::ssize(pieces), 1, work);
    } else {
        work(0, std::ssize(pieces), 0);
    }
    return status;
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
        const uint64_t size = TRY(tensor_bytes(tensor.name, tensor.dtype, shape));
        if (!tensor.fill && tensor.data.size() != size)
            return fail("tensor {}: {} bytes were given, {} expected", quote(tensor.name), tensor.data.size(), size);
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
        put(out, info(tensor.dtype).gguf);
        put(out, offset);
        const uint64_t size = *tensor_bytes(tensor.name, tensor.dtype, tensor.shape);
        offset += size + padding(size, align);
    }
    return out;
}

}  // namespace tandem::format
