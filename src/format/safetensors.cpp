#include "format/safetensors.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/byte_reader.h"
#include "format/diagnose.h"

namespace tandem::format {

namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr size_t kMaxShape = 8;

std::optional<DType> dtype_named(std::string_view name) {
    if (name == "F32") return DType::f32;
    if (name == "F16") return DType::f16;
    if (name == "BF16") return DType::bf16;
    if (name == "I32") return DType::i32;
    return std::nullopt;
}

// Of a type that has no DType, as it is shown; the file may hold anything there.
std::string foreign_type_name(std::string_view name) {
    constexpr size_t kLongest = 32;
    if (name.empty() || name.size() > kLongest || !is_printable(name)) return "type " + quote(name);
    std::string lower(name);
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    return lower;
}

struct HeaderEntry {
    std::string name;
    std::optional<std::string> dtype;
    std::optional<std::vector<int64_t>> shape;
    std::optional<std::vector<int64_t>> offsets;  // begin and end in the data
};

struct HeaderContent {
    std::vector<HeaderEntry> tensors;
    std::vector<std::pair<std::string, std::string>> metadata;
};

// Takes the events of the JSON parser, which does not recurse, and accepts exactly the shape of a header:
// {"NAME": {"dtype": "F32", "shape": [...], "data_offsets": [begin, end]}, ..., "__metadata__": {"KEY": "TEXT"}}
class HeaderHandler final : public nlohmann::json_sax<Json> {
  public:
    explicit HeaderHandler(HeaderContent& content) : content_(content) {}

    const std::string& error() const { return error_; }

    bool start_object(std::size_t) override {
        if (place_ == Place::start) return enter(Place::top);
        if (place_ == Place::top_value) return enter(in_metadata_ ? Place::metadata : Place::tensor);
        return unexpected("an object");
    }

    bool key(string_t& name) override {
        if (place_ == Place::top) {
            in_metadata_ = name == "__metadata__";
            if (in_metadata_ && std::exchange(metadata_seen_, true)) return refuse("__metadata__ occurs twice");
            if (!in_metadata_) content_.tensors.emplace_back().name = std::move(name);
            return enter(Place::top_value);
        }
        if (place_ == Place::metadata) {
            content_.metadata.emplace_back(std::move(name), std::string());
            return enter(Place::metadata_value);
        }
        if (name == "dtype") return enter_field(Place::dtype, tensor().dtype.has_value(), name);
        if (name == "shape") return enter_field(Place::shape, tensor().shape.has_value(), name);
        if (name == "data_offsets") return enter_field(Place::offsets, tensor().offsets.has_value(), name);
        return refuse(fmt::format("tensor {} has an unknown field {}", quote(tensor().name), quote(name)));
    }

    bool end_object() override {
        if (place_ == Place::top) return enter(Place::end);
        if (place_ == Place::tensor && !(tensor().dtype && tensor().shape && tensor().offsets))
            return refuse(fmt::format("tensor {} lacks dtype, shape or data_offsets", quote(tensor().name)));
        return enter(Place::top);
    }

    bool start_array(std::size_t) override {
        if (place_ == Place::shape && !in_array_) {
            tensor().shape.emplace();
        } else if (place_ == Place::offsets && !in_array_) {
            tensor().offsets.emplace();
        } else {
            return unexpected("an array");
        }
        in_array_ = true;
        return true;
    }

    bool end_array() override {
        in_array_ = false;
        if (place_ == Place::offsets && tensor().offsets->size() != 2)
            return refuse(fmt::format("tensor {}: data_offsets must be [begin, end]", quote(tensor().name)));
        return enter(Place::tensor);
    }

    bool number_unsigned(number_unsigned_t value) override {
        if (!in_array_) return unexpected("a number");
        auto& values = place_ == Place::shape ? *tensor().shape : *tensor().offsets;
        const size_t limit = place_ == Place::shape ? kMaxShape : 2;
        if (values.size() == limit)
            return refuse(fmt::format("tensor {} has more than {} numbers in shape or data_offsets",
                                      quote(tensor().name), limit));
        if (value > static_cast<uint64_t>(INT64_MAX))
            return refuse(fmt::format("tensor {} has {} in shape or data_offsets", quote(tensor().name), value));
        values.push_back(static_cast<int64_t>(value));
        return true;
    }

    bool string(string_t& value) override {
        if (place_ == Place::metadata_value) {
            content_.metadata.back().second = std::move(value);
            return enter(Place::metadata);
        }
        if (place_ != Place::dtype) return unexpected("a string");
        tensor().dtype = std::move(value);
        return enter(Place::tensor);
    }

    bool null() override { return unexpected("null"); }
    bool boolean(bool) override { return unexpected("a boolean"); }
    bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
    bool number_float(number_float_t, const string_t&) override { return unexpected("a fraction"); }
    bool binary(binary_t&) override { return unexpected("binary data"); }
    bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
        return refuse(fmt::format("the header is not valid JSON at its byte {}", position));
    }

  private:
    enum class Place { start, top, top_value, metadata, metadata_value, tensor, dtype, shape, offsets, end };

    HeaderEntry& tensor() { return content_.tensors.back(); }

    bool enter(Place place) {
        place_ = place;
        return true;
    }

    bool enter_field(Place place, bool seen, std::string_view field) {
        if (seen) return refuse(fmt::format("tensor {} has {} twice", quote(tensor().name), field));
        return enter(place);
    }

    bool refuse(std::string message) {
        error_ = std::move(message);
        return false;
    }

    bool unexpected(std::string_view what) {
        if (content_.tensors.empty() || in_metadata_)
            return refuse(fmt::format("{} in a wrong place of the header", what));
        return refuse(fmt::format("{} in a wrong place of the header, near tensor {}", what, quote(tensor().name)));
    }

    HeaderContent& content_;
    Place place_ = Place::start;
    bool in_metadata_ = false;
    bool metadata_seen_ = false;
    bool in_array_ = false;
    std::string error_;
};

Result<HeaderContent> parse_header(std::span<const std::byte> bytes) {
    ByteReader reader(bytes);
    const auto length = reader.read<uint64_t>("header length");
    if (!reader.ok()) return fail("not a safetensors file{}", likely_mistake(bytes));
    if (length > kMaxHeaderBytes || length > reader.remaining()) {
        const std::string_view mistake = likely_mistake(bytes);
        if (!mistake.empty()) return fail("not a safetensors file{}", mistake);
        return fail("a header of {} bytes in a file of {}: not a safetensors file, or an incomplete download", length,
                    bytes.size());
    }
    const auto header = reader.take(length, "header");
    const char* text = reinterpret_cast<const char*>(header.data());
    HeaderContent content;
    HeaderHandler handler(content);
    if (!Json::sax_parse(text, text + header.size(), &handler)) return fail("{}", handler.error());
    return content;
}

// The bytes of a tensor.
Result<std::span<const std::byte>> slice_of(const HeaderEntry& entry, std::span<const std::byte> data) {
    if (entry.name.empty()) return fail("a tensor has an empty name");
    TRY(tensor_elements(entry.name, *entry.shape));
    const auto begin = static_cast<uint64_t>((*entry.offsets)[0]);
    const auto end = static_cast<uint64_t>((*entry.offsets)[1]);
    if (begin > end) return fail("tensor {} has data_offsets [{}, {}], the end first", quote(entry.name), begin, end);
    const std::optional<DType> dtype = dtype_named(*entry.dtype);
    // Where the type does not tell the size, the offsets are taken at their word.
    const uint64_t size = dtype ? TRY(tensor_bytes(entry.name, *dtype, *entry.shape)) : end - begin;
    if (end - begin != size) {
        return fail("tensor {} has data_offsets [{}, {}] but its shape takes {} bytes", quote(entry.name), begin, end,
                    size);
    }
    if (end > data.size()) {
        return fail("tensor {} ends at byte {} of the data but there are {}: the download is incomplete",
                    quote(entry.name), end, data.size());
    }
    return data.subspan(begin, size);
}

// The format demands that the tensors cover the data without holes or overlaps.
Status check_coverage(std::vector<std::pair<std::span<const std::byte>, std::string_view>> slices,
                      std::span<const std::byte> data) {
    const auto begin_size = [](const auto& slice) { return std::pair(slice.first.data(), slice.first.size()); };
    std::sort(slices.begin(), slices.end(),
              [&](const auto& a, const auto& b) { return begin_size(a) < begin_size(b); });
    size_t covered = 0;
    for (const auto& [slice, name] : slices) {
        const auto begin = static_cast<size_t>(slice.data() - data.data());
        if (begin != covered) {
            return fail("tensor {} begins at byte {} of the data, {} was expected: tensors overlap or leave a hole",
                        quote(name), begin, covered);
        }
        covered += slice.size();
    }
    if (covered != data.size()) return fail("{} bytes after the last tensor", data.size() - covered);
    return Ok{};
}

// Sorts by name; an error names the first that occurs twice.
template <typename T, typename Name>
Status sort_by_name(std::vector<T>& items, std::string_view what, Name name_of) {
    std::sort(items.begin(), items.end(), [&](const T& a, const T& b) { return name_of(a) < name_of(b); });
    for (size_t i = 1; i < items.size(); ++i) {
        if (name_of(items[i - 1]) == name_of(items[i]))
            return fail("{} {} occurs twice", what, quote(name_of(items[i])));
    }
    return Ok{};
}

constexpr auto kTensorName = [](const auto& tensor) { return std::string_view(tensor.name); };

struct Tensors {
    std::vector<TensorRecord> known;
    std::vector<ForeignTensor> foreign;
};

// Both sorted by name.
Result<Tensors> make_tensors(std::vector<HeaderEntry> entries, std::span<const std::byte> data) {
    TRY(sort_by_name(entries, "tensor", kTensorName));
    std::vector<std::pair<std::span<const std::byte>, std::string_view>> slices;
    for (const HeaderEntry& entry : entries) slices.emplace_back(TRY(slice_of(entry, data)), entry.name);
    TRY(check_coverage(slices, data));
    Tensors tensors;
    for (size_t i = 0; i < entries.size(); ++i) {
        HeaderEntry& entry = entries[i];
        if (const auto dtype = dtype_named(*entry.dtype)) {
            tensors.known.push_back({std::move(entry.name), *dtype, std::move(*entry.shape), slices[i].first});
        } else {
            tensors.foreign.push_back(
                {std::move(entry.name), foreign_type_name(*entry.dtype), std::move(*entry.shape), slices[i].first});
        }
    }
    return tensors;
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
    MappedFile mapped = TRY(MappedFile::open(path));
    SafetensorsFile file = TRY(parse(mapped.bytes(), path.string()));
    file.file_ = std::move(mapped);
    return file;
}

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes, std::string name) {
    SafetensorsFile file;
    file.name_ = std::move(name);
    auto content = parse_header(bytes);
    if (!content) return fail("{}: {}", file.name_, content.error().message);
    file.metadata_ = std::move(content->metadata);
    uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
    const auto data = bytes.subspan(sizeof(header_bytes) + header_bytes);
    const Status sorted =
        sort_by_name(file.metadata_, "metadata key", [](const auto& m) { return std::string_view(m.first); });
    if (!sorted) return fail("{}: {}", file.name_, sorted.error().message);
    Result<Tensors> tensors = make_tensors(std::move(content->tensors), data);
    if (!tensors) return fail("{}: {}", file.name_, tensors.error().message);
    file.tensors_ = std::move(tensors->known);
    file.foreign_tensors_ = std::move(tensors->foreign);
    return file;
}

namespace {

template <typename T>
const T* find_by_name(const std::vector<T>& sorted, std::string_view name) {
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), name,
                                     [](const T& tensor, std::string_view wanted) { return tensor.name < wanted; });
    return at == sorted.end() || at->name != name ? nullptr : &*at;
}

}  // namespace

const TensorRecord* SafetensorsFile::find_tensor(std::string_view name) const {
    return find_by_name(tensors_, name);
}

bool SafetensorsFile::contains(std::string_view name) const {
    return find_tensor(name) != nullptr || find_by_name(foreign_tensors_, name) != nullptr;
}

}  // namespace tandem::format
