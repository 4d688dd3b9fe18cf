#include "format/imatrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/byte_reader.h"
#include "base/file.h"
#include "format/diagnose.h"
#include "format/gguf.h"
#include "format/gguf_writer.h"

namespace tandem::format {

namespace {

constexpr std::string_view kSums = ".in_sum2";
constexpr std::string_view kCounts = ".counts";

std::vector<float> floats(std::span<const std::byte> bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
}

bool is_usable(const std::vector<float>& values) {
    return std::ranges::all_of(values, [](float value) { return std::isfinite(value) && value >= 0.0F; });
}

Status check_entry(std::string_view name, const Imatrix::Entry& entry) {
    if (name.empty()) return fail("an entry has no name");
    if (entry.sums.empty()) return fail("tensor {} has counts but no sums", quote(name));
    if (entry.counts.empty()) return fail("tensor {} has sums but no counts", quote(name));
    if (entry.sums.size() % entry.counts.size() != 0)
        return fail("tensor {} has {} sums, no multiple of its {} counts", quote(name), entry.sums.size(),
                    entry.counts.size());
    if (!is_usable(entry.sums) || !is_usable(entry.counts))
        return fail("tensor {} has a sum or count that is negative or not finite", quote(name));
    return Ok{};
}

Status check(const Imatrix& imatrix) {
    if (imatrix.entries.empty()) return fail("has no entries");
    for (const auto& [name, entry] : imatrix.entries) TRY(check_entry(name, entry));
    return Ok{};
}

uint32_t as_count(std::optional<int64_t> value) {
    return static_cast<uint32_t>(std::clamp<int64_t>(value.value_or(0), 0, UINT32_MAX));
}

Status read_gguf(std::span<const std::byte> bytes, Imatrix& imatrix) {
    const GgufFile file = TRY(GgufFile::parse(bytes, imatrix.name));
    if (file.get_string("general.type") != "imatrix")
        return fail("{}: is a GGUF file but no importance matrix: its general.type is not 'imatrix'", imatrix.name);
    for (const TensorRecord& tensor : file.tensors()) {
        const bool sums = tensor.name.ends_with(kSums);
        if (!sums && !tensor.name.ends_with(kCounts)) continue;
        if (tensor.dtype != DType::f32)
            return fail("{}: tensor {} is of type {}, not f32", imatrix.name, quote(tensor.name),
                        tandem::name(tensor.dtype));
        const std::string_view of(tensor.name.data(), tensor.name.size() - (sums ? kSums.size() : kCounts.size()));
        Imatrix::Entry& entry = imatrix.entries[std::string(of)];
        (sums ? entry.sums : entry.counts) = floats(tensor.data);
    }
    if (const auto texts = file.get_strings("imatrix.datasets")) imatrix.datasets.assign(texts->begin(), texts->end());
    imatrix.chunks = as_count(file.get_int("imatrix.chunk_count"));
    imatrix.chunk_tokens = as_count(file.get_int("imatrix.chunk_size"));
    return Ok{};
}

std::string read_text(ByteReader& reader, std::string_view field) {
    const auto size = reader.read<int32_t>(field);
    if (size < 0) reader.set_error(fail("{} has {} characters", field, size));
    const auto bytes = reader.take(static_cast<uint64_t>(std::max(size, 0)), field);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Its entries: a name, calls, and as many sums as are said, of means over rows. Then, in newer files, the calls of all
// and the text.
Status read_dat(std::span<const std::byte> bytes, Imatrix& imatrix) {
    ByteReader reader(bytes);
    const auto count = reader.read<int32_t>("the number of entries");
    if (count < 1)
        return fail("{}: is no importance matrix: neither GGUF nor a file of llama.cpp's older format", imatrix.name);
    for (int32_t i = 0; i < count && reader.ok(); ++i) {
        const std::string tensor = read_text(reader, "the name of an entry");
        const auto calls = reader.read<int32_t>("the calls of an entry");
        const auto values = reader.read<int32_t>("the size of an entry");
        if (values < 1) reader.set_error(fail("an entry of {} values", values));
        const auto sums = reader.take(static_cast<uint64_t>(std::max(values, 0)) * sizeof(float), "an entry");
        imatrix.entries[tensor] = {.sums = floats(sums), .counts = {static_cast<float>(std::max(calls, 1))}};
    }
    if (reader.ok() && reader.remaining() > 0) {
        imatrix.chunks = as_count(reader.read<int32_t>("the number of chunks"));
        if (reader.remaining() > 0) imatrix.datasets.push_back(read_text(reader, "the name of the text"));
    }
    if (const Status status = reader.status(); !status)
        return fail("{}: is no importance matrix, or not whole: {}", imatrix.name, status.error().message);
    return Ok{};
}

}  // namespace

std::vector<float> Imatrix::Entry::means() const {
    std::vector<float> values(sums);
    const size_t cols = sums.size() / counts.size();
    for (size_t i = 0; i < values.size(); ++i) {
        const float count = counts[i / cols];
        values[i] = count > 0.0F ? values[i] / count : 1.0F;
    }
    return values;
}

const Imatrix::Entry* Imatrix::find(std::string_view tensor) const {
    const auto found = entries.find(tensor);
    return found == entries.end() ? nullptr : &found->second;
}

Result<Imatrix> Imatrix::open(const std::filesystem::path& path) {
    const MappedFile file = TRY(MappedFile::open(path));
    return parse(file.bytes(), path.filename().string());
}

Result<Imatrix> Imatrix::parse(std::span<const std::byte> bytes, std::string name) {
    Imatrix imatrix;
    imatrix.name = std::move(name);
    const bool gguf = bytes.size() >= 4 && std::memcmp(bytes.data(), "GGUF", 4) == 0;
    TRY(gguf ? read_gguf(bytes, imatrix) : read_dat(bytes, imatrix));
    if (const Status checked = check(imatrix); !checked) return fail("{}: {}", imatrix.name, checked.error().message);
    return imatrix;
}

Status Imatrix::write(const std::filesystem::path& path) const {
    GgufWriter writer;
    writer.set("general.type", "imatrix");
    writer.set("imatrix.datasets", datasets);
    writer.set("imatrix.chunk_count", chunks);
    writer.set("imatrix.chunk_size", chunk_tokens);
    for (const auto& [tensor, entry] : entries) {
        const auto matrices = static_cast<int64_t>(entry.counts.size());
        const auto cols = static_cast<int64_t>(entry.sums.size()) / matrices;
        writer.add(tensor + std::string(kSums), DType::f32, {matrices, cols}, std::as_bytes(std::span(entry.sums)));
        writer.add(tensor + std::string(kCounts), DType::f32, {matrices, 1}, std::as_bytes(std::span(entry.counts)));
    }
    return writer.write(path);
}

}  // namespace tandem::format
