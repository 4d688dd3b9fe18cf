#include "format/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <utility>

#include "base/byte_reader.h"
#include "base/units.h"
#include "format/diagnose.h"

static_assert(std::endian::native == std::endian::little, "GGUF values are used in place");

namespace tandem::format {

namespace {

constexpr uint32_t kMagic = 0x46554747;    // "GGUF"
constexpr uint64_t kMaxEntries = 1 << 20;  // of metadata and of tensors: far above any model, memory stays bounded
constexpr size_t kMaxTensorName = 255;
constexpr uint32_t kMaxDims = 4;

std::optional<DType> dtype_of(uint32_t number) {
    const auto* const found = std::find_if(std::begin(kAllDTypes), std::end(kAllDTypes),
                                           [&](DType dtype) { return info(dtype).gguf == number; });
    return found == std::end(kAllDTypes) ? std::nullopt : std::optional(*found);
}

// Types of GGUF that are not read, by number.
struct ForeignType {
    uint32_t number;
    std::string_view name;
};
constexpr ForeignType kForeignTypes[] = {{9, "q8_1"}, {15, "q8_k"}, {24, "i8"}, {25, "i16"}, {27, "i64"}, {28, "f64"}};

std::string foreign_type_name(uint32_t number) {
    for (const ForeignType& type : kForeignTypes) {
        if (type.number == number) return std::string(type.name);
    }
    return fmt::format("type {}", number);
}

// A key or the name of a tensor.
Result<std::string_view> read_name(ByteReader& reader, std::string_view field, size_t limit) {
    const size_t offset = reader.offset();
    const GgufValue value = read_gguf_value(reader, GgufType::string, field);
    TRY(reader.status());
    const std::string_view text = *value.as_string();
    if (text.empty() || text.size() > limit)
        return fail("{} at offset {} has {} bytes, 1 to {} are allowed", field, offset, text.size(), limit);
    if (!is_printable(text)) return fail("{} {} at offset {} is not printable ASCII", field, quote(text), offset);
    return text;
}

struct Header {
    uint32_t version = 0;
    uint64_t tensors = 0;
    uint64_t entries = 0;
};

// What a file without our magic seems to be.
std::string_view other_than_gguf(std::span<const std::byte> bytes) {
    const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 16));
    if (!start.empty() && std::string_view("GGUF").starts_with(start)) return ": the download is incomplete";
    if (start.size() > 8 && start.substr(8).starts_with("{\""))
        return ": it is a safetensors file, name the directory that it is in";
    return likely_mistake(bytes);
}

Result<Header> read_header(ByteReader& reader, std::span<const std::byte> bytes) {
    if (reader.read<uint32_t>("magic") != kMagic) return fail("not a GGUF file{}", other_than_gguf(bytes));
    Header header;
    header.version = reader.read<uint32_t>("version");
    header.tensors = reader.read<uint64_t>("tensor count");
    header.entries = reader.read<uint64_t>("metadata count");
    if (reader.ended()) return fail("{}: the download is incomplete", reader.status().error().message);
    if ((header.version & 0xffffU) == 0) return fail("a big-endian GGUF file: get the little-endian one");
    if (header.version != 2 && header.version != 3)
        return fail("GGUF version {} is not supported, only 2 and 3: get a newer copy of the model", header.version);
    constexpr uint64_t kLeastEntry = 8 + 1 + 4 + 1;           // key, type, value
    constexpr uint64_t kLeastTensor = 8 + 1 + 4 + 8 + 4 + 8;  // name, dimensions, type, offset
    if (header.entries > kMaxEntries || header.tensors > kMaxEntries)
        return fail("{} metadata entries and {} tensors are more than any model has: the file is damaged, get it again",
                    header.entries, header.tensors);
    const uint64_t least_bytes = header.entries * kLeastEntry + header.tensors * kLeastTensor;
    if (least_bytes > reader.remaining())
        return fail("{} metadata entries and {} tensors do not fit into the {} of the file: the download is incomplete",
                    header.entries, header.tensors, format_bytes(bytes.size()));
    return header;
}

Result<GgufEntry> read_entry(ByteReader& reader) {
    const std::string_view key = TRY(read_name(reader, "metadata key", kMaxGgufKey));
    const size_t offset = reader.offset();
    const auto type = reader.read<uint32_t>("metadata type");
    TRY(reader.status());
    if (type >= kGgufTypes) return fail("metadata {} has unknown type {} at offset {}", quote(key), type, offset);
    const GgufValue value = read_gguf_value(reader, static_cast<GgufType>(type), "metadata value");
    if (!reader.ok()) return fail("metadata {}: {}", quote(key), reader.status().error().message);
    return GgufEntry{key, value};
}

struct TensorInfo {
    std::string name;
    std::vector<int64_t> shape;
    uint32_t type = 0;
    uint64_t offset = 0;  // from the start of the data
    uint64_t begin = 0;   // in the file
    uint64_t end = 0;

    std::optional<DType> dtype() const { return dtype_of(type); }
};

Result<TensorInfo> read_tensor_info(ByteReader& reader, uint32_t alignment) {
    TensorInfo tensor;
    tensor.name = TRY(read_name(reader, "tensor name", kMaxTensorName));
    const auto dims = reader.read<uint32_t>("tensor dimension count");
    TRY(reader.status());
    if (dims == 0 || dims > kMaxDims)
        return fail("tensor {} has {} dimensions, 1 to {} are allowed", quote(tensor.name), dims, kMaxDims);
    tensor.shape.resize(dims);
    for (uint32_t i = dims; i-- > 0;) {  // innermost first in the file
        const auto dim = reader.read<uint64_t>("tensor dimension");
        TRY(reader.status());
        if (dim == 0 || dim > static_cast<uint64_t>(INT64_MAX))
            return fail("tensor {} has a dimension of {}", quote(tensor.name), dim);
        tensor.shape[i] = static_cast<int64_t>(dim);
    }
    TRY(tensor_elements(tensor.name, tensor.shape));
    tensor.type = reader.read<uint32_t>("tensor type");
    tensor.offset = reader.read<uint64_t>("tensor offset");
    TRY(reader.status());
    if (tensor.offset % alignment != 0) {
        return fail("tensor {} starts at offset {} of the data, not a multiple of the alignment {}", quote(tensor.name),
                    tensor.offset, alignment);
    }
    return tensor;
}

Status place(TensorInfo& tensor, uint64_t data_start, uint64_t file_bytes) {
    // One whose size its type does not tell has at least a byte.
    const uint64_t size = tensor.dtype() ? TRY(tensor_bytes(tensor.name, *tensor.dtype(), tensor.shape)) : 1;
    if (__builtin_add_overflow(data_start, tensor.offset, &tensor.begin) ||
        __builtin_add_overflow(tensor.begin, size, &tensor.end))
        return fail("tensor {} has an absurd offset of {}", quote(tensor.name), tensor.offset);
    if (tensor.end > file_bytes) {
        return fail("tensor {} ends at byte {} but the file has {}: the download is incomplete", quote(tensor.name),
                    tensor.end, file_bytes);
    }
    return Ok{};
}

// Finds where each begins and ends. Tensors that share bytes would let a small file stand for any amount of memory.
Status place(std::vector<TensorInfo>& tensors, uint64_t data_start, uint64_t file_bytes) {
    std::vector<TensorInfo*> order;
    order.reserve(tensors.size());
    for (TensorInfo& tensor : tensors) {
        TRY(place(tensor, data_start, file_bytes));
        order.push_back(&tensor);
    }
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->begin < b->begin; });
    for (size_t i = 0; i < order.size(); ++i) {
        TensorInfo& tensor = *order[i];
        const bool last = i + 1 == order.size();
        if (!last && tensor.end > order[i + 1]->begin)
            return fail("tensors {} and {} overlap", quote(tensor.name), quote(order[i + 1]->name));
        if (!tensor.dtype()) tensor.end = last ? file_bytes : order[i + 1]->begin;
    }
    return Ok{};
}

// The positions of `items` in the order of key(item); an error names the first that occurs twice.
template <typename Items, typename Key>
Result<std::vector<uint32_t>> sorted_index(const Items& items, std::string_view what, Key key) {
    std::vector<uint32_t> index(items.size());
    for (uint32_t i = 0; i < index.size(); ++i) index[i] = i;
    std::sort(index.begin(), index.end(), [&](uint32_t a, uint32_t b) { return key(items[a]) < key(items[b]); });
    for (size_t i = 1; i < index.size(); ++i) {
        if (key(items[index[i - 1]]) == key(items[index[i]]))
            return fail("{} {} occurs twice", what, quote(key(items[index[i]])));
    }
    return index;
}

template <typename Items, typename Key>
auto find_in(const Items& items, const std::vector<uint32_t>& index, std::string_view wanted, Key key)
    -> decltype(items.data()) {
    const auto at = std::lower_bound(index.begin(), index.end(), wanted,
                                     [&](uint32_t i, std::string_view name) { return key(items[i]) < name; });
    if (at == index.end() || key(items[*at]) != wanted) return nullptr;
    return &items[*at];
}

constexpr auto kKeyOf = [](const GgufEntry& entry) { return entry.key; };
constexpr auto kNameOf = [](const auto& tensor) { return std::string_view(tensor.name); };

// name-0000i-of-0000n.gguf
struct SplitName {
    std::string prefix;
    uint32_t number = 0;
    uint32_t count = 0;

    std::string member(uint32_t i) const { return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, i, count); }
};

std::optional<SplitName> parse_split_name(const std::string& file) {
    constexpr std::string_view kPattern = "-00000-of-00000.gguf";
    if (file.size() <= kPattern.size()) return std::nullopt;
    SplitName split;
    split.prefix = file.substr(0, file.size() - kPattern.size());
    const std::string_view tail = std::string_view(file).substr(split.prefix.size());
    std::from_chars(tail.data() + 1, tail.data() + 6, split.number);
    std::from_chars(tail.data() + 10, tail.data() + 15, split.count);
    if (split.number == 0 || split.number > split.count || split.member(split.number) != file) return std::nullopt;
    return split;
}

}  // namespace

Result<GgufFile> GgufFile::open(const std::filesystem::path& path) {
    const auto split = parse_split_name(path.filename().string());
    if (split && split->count > 1) return open_split(path);
    MappedFile mapped = TRY(MappedFile::open(path));
    GgufFile file = TRY(parse(mapped.bytes(), path.string()));
    file.files_.push_back(std::move(mapped));
    return file;
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
    GgufFile file;
    file.name_ = std::move(name);
    const Status parsed = file.parse_part(bytes);
    if (!parsed) return fail("{}: {}", file.name_, parsed.error().message);
    if (file.get_int("split.count").value_or(1) > 1) {
        return fail("{}: one of {} parts of a model: open it under its name ...-0000i-of-0000n.gguf, beside the others",
                    file.name_, *file.get_int("split.count"));
    }
    return file;
}

Status GgufFile::parse_part(std::span<const std::byte> bytes) {
    ByteReader reader(bytes);
    const Header header = TRY(read_header(reader, bytes));
    version_ = header.version;
    file_bytes_ = bytes.size();
    const auto read_all = [&]() -> Result<std::vector<TensorInfo>> {
        metadata_.reserve(header.entries);
        for (uint64_t i = 0; i < header.entries; ++i) metadata_.push_back(TRY(read_entry(reader)));
        keys_by_name_ = TRY(sorted_index(metadata_, "metadata key", kKeyOf));
        alignment_ = TRY(gguf_alignment(find("general.alignment")));
        std::vector<TensorInfo> infos;
        for (uint64_t i = 0; i < header.tensors; ++i) infos.push_back(TRY(read_tensor_info(reader, alignment_)));
        return infos;
    };
    Result<std::vector<TensorInfo>> infos = read_all();
    if (!infos && reader.ended()) return fail("{}: the download is incomplete", infos.error().message);
    if (!infos) return infos.error();
    TRY(place(*infos, (uint64_t{reader.offset()} + alignment_ - 1) / alignment_ * alignment_, bytes.size()));
    TRY(sorted_index(*infos, "tensor", kNameOf));
    for (TensorInfo& tensor : *infos) {
        const auto data = bytes.subspan(tensor.begin, tensor.end - tensor.begin);
        if (const auto dtype = tensor.dtype()) {
            tensors_.push_back({std::move(tensor.name), *dtype, std::move(tensor.shape), data});
        } else {
            foreign_tensors_.push_back(
                {std::move(tensor.name), foreign_type_name(tensor.type), std::move(tensor.shape), data});
        }
    }
    tensors_by_name_ = TRY(sorted_index(tensors_, "tensor", kNameOf));
    return Ok{};
}

Result<GgufFile> GgufFile::open_split(const std::filesystem::path& path) {
    const SplitName split = *parse_split_name(path.filename().string());
    GgufFile whole;
    for (uint32_t i = 1; i <= split.count; ++i) {
        const std::filesystem::path member = path.parent_path() / split.member(i);
        auto mapped = MappedFile::open(member);
        if (!mapped) return fail("{} (all {} parts must be in one folder)", mapped.error().message, split.count);
        GgufFile part;
        part.name_ = member.string();
        const Status parsed = part.parse_part(mapped->bytes());
        if (!parsed) return fail("{}: {}", part.name_, parsed.error().message);
        part.files_.push_back(std::move(*mapped));
        if (part.get_int("split.no") != int64_t{i} - 1 || part.get_int("split.count") != int64_t{split.count}) {
            return fail("{}: its metadata says part {} of {} (split.no, split.count), its name part {} of {}",
                        part.name_, part.get_int("split.no").value_or(-1) + 1, part.get_int("split.count").value_or(0),
                        i, split.count);
        }
        if (i == 1) {
            whole = std::move(part);
        } else {
            whole.append(std::move(part));
        }
    }
    TRY(whole.check_split());
    return whole;
}

void GgufFile::append(GgufFile part) {
    ++parts_;
    file_bytes_ += part.file_bytes_;
    for (MappedFile& file : part.files_) files_.push_back(std::move(file));
    for (TensorRecord& tensor : part.tensors_) tensors_.push_back(std::move(tensor));
    for (ForeignTensor& tensor : part.foreign_tensors_) foreign_tensors_.push_back(std::move(tensor));
}

Status GgufFile::check_split() {
    auto index = sorted_index(tensors_, "tensor", kNameOf);
    if (!index) return fail("{}: {} in its {} parts", name_, index.error().message, parts_);
    tensors_by_name_ = std::move(*index);
    const auto expected = get_int("split.tensors.count");
    const size_t found = tensors_.size() + foreign_tensors_.size();
    if (expected && *expected != static_cast<int64_t>(found)) {
        return fail("{}: split.tensors.count is {} but the {} parts have {} tensors: they belong to different models",
                    name_, *expected, parts_, found);
    }
    return Ok{};
}

const GgufValue* GgufFile::find(std::string_view key) const {
    const GgufEntry* entry = find_in(metadata_, keys_by_name_, key, kKeyOf);
    return entry == nullptr ? nullptr : &entry->value;
}

const TensorRecord* GgufFile::find_tensor(std::string_view name) const {
    return find_in(tensors_, tensors_by_name_, name, kNameOf);
}

std::optional<int64_t> GgufFile::get_int(std::string_view key) const {
    const GgufValue* value = find(key);
    return value == nullptr ? std::nullopt : value->as_int();
}

std::optional<double> GgufFile::get_float(std::string_view key) const {
    const GgufValue* value = find(key);
    return value == nullptr ? std::nullopt : value->as_float();
}

std::optional<bool> GgufFile::get_bool(std::string_view key) const {
    const GgufValue* value = find(key);
    return value == nullptr ? std::nullopt : value->as_bool();
}

std::optional<std::string_view> GgufFile::get_string(std::string_view key) const {
    const GgufValue* value = find(key);
    return value == nullptr ? std::nullopt : value->as_string();
}

namespace {

// All elements of an array through `as`; nothing when the value is no array or an element is of another kind.
template <typename T, typename As>
std::optional<std::vector<T>> elements_as(const GgufValue* value, As as) {
    const auto array = value == nullptr ? std::nullopt : value->as_array();
    if (!array) return std::nullopt;
    std::vector<T> out;
    for (const GgufValue& element : *array) {
        const auto decoded = as(element);
        if (!decoded) return std::nullopt;
        out.push_back(static_cast<T>(*decoded));
    }
    return out;
}

}  // namespace

std::optional<std::vector<int64_t>> GgufFile::get_ints(std::string_view key) const {
    return elements_as<int64_t>(find(key), [](const GgufValue& value) { return value.as_int(); });
}

std::optional<std::vector<float>> GgufFile::get_floats(std::string_view key) const {
    return elements_as<float>(find(key), [](const GgufValue& value) { return value.as_float(); });
}

std::optional<std::vector<std::string_view>> GgufFile::get_strings(std::string_view key) const {
    return elements_as<std::string_view>(find(key), [](const GgufValue& value) { return value.as_string(); });
}

}  // namespace tandem::format
