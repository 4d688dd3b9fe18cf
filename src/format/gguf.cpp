#include "format/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <utility>

#include "base/byte_reader.h"
#include "format/diagnose.h"

static_assert(std::endian::native == std::endian::little, "GGUF values are used in place");

namespace tandem::format {

namespace {

constexpr uint32_t kMagic = 0x46554747;    // "GGUF"
constexpr uint64_t kMaxEntries = 1 << 20;  // of metadata and of tensors: far above any model, memory stays bounded
constexpr size_t kMaxTensorName = 255;
constexpr uint32_t kMaxDims = 4;

// The tensor types of GGUF by number; only those with a dtype can be used. Numbers that were withdrawn have no name.
struct GgmlType {
    std::string_view name;
    std::optional<DType> dtype = std::nullopt;
};
constexpr std::array<GgmlType, 41> kGgmlTypes = {{
    {"F32", DType::f32},
    {"F16", DType::f16},
    {"Q4_0", DType::q4_0},
    {"Q4_1", DType::q4_1},
    {},
    {},
    {"Q5_0", DType::q5_0},
    {"Q5_1", DType::q5_1},
    {"Q8_0", DType::q8_0},
    {"Q8_1"},
    {"Q2_K"},
    {"Q3_K"},
    {"Q4_K", DType::q4_k},
    {"Q5_K", DType::q5_k},
    {"Q6_K", DType::q6_k},
    {"Q8_K"},
    {"IQ2_XXS"},
    {"IQ2_XS"},
    {"IQ3_XXS"},
    {"IQ1_S"},
    {"IQ4_NL"},
    {"IQ3_S"},
    {"IQ2_S"},
    {"IQ4_XS"},
    {"I8"},
    {"I16"},
    {"I32", DType::i32},
    {"I64"},
    {"F64"},
    {"IQ1_M"},
    {"BF16", DType::bf16},
    {},
    {},
    {},
    {"TQ1_0"},
    {"TQ2_0"},
    {},
    {},
    {},
    {"MXFP4"},
    {"NVFP4"},
}};

Result<DType> parse_ggml_type(uint32_t number, std::string_view tensor) {
    const GgmlType type = number < kGgmlTypes.size() ? kGgmlTypes[number] : GgmlType{};
    if (type.dtype) return *type.dtype;
    std::string supported;
    for (const GgmlType& known : kGgmlTypes) {
        if (known.dtype) supported += fmt::format("{}{}", supported.empty() ? "" : ", ", known.name);
    }
    return fail("tensor {} has type {} ({}), which Tandem does not read: get the model in one of {}", quote(tensor),
                number, type.name.empty() ? "unknown" : type.name, supported);
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

Result<Header> read_header(ByteReader& reader, std::span<const std::byte> bytes) {
    if (reader.read<uint32_t>("magic") != kMagic || !reader.ok())
        return fail("not a GGUF file{}", likely_mistake(bytes));
    Header header;
    header.version = reader.read<uint32_t>("version");
    header.tensors = reader.read<uint64_t>("tensor count");
    header.entries = reader.read<uint64_t>("metadata count");
    TRY(reader.status());
    if ((header.version & 0xffffU) == 0) return fail("a big-endian GGUF file: get the little-endian one");
    if (header.version != 2 && header.version != 3)
        return fail("GGUF version {} is not supported, only 2 and 3: get a newer copy of the model", header.version);
    constexpr uint64_t kLeastEntry = 8 + 1 + 4 + 1;           // key, type, value
    constexpr uint64_t kLeastTensor = 8 + 1 + 4 + 8 + 4 + 8;  // name, dimensions, type, offset
    if (header.entries > kMaxEntries || header.entries > reader.remaining() / kLeastEntry)
        return fail("metadata count {} at offset 16 is more than {} bytes can hold", header.entries, bytes.size());
    if (header.tensors > kMaxEntries || header.tensors > reader.remaining() / kLeastTensor)
        return fail("tensor count {} at offset 8 is more than {} bytes can hold", header.tensors, bytes.size());
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
    TensorRecord record;  // without its data
    uint64_t offset = 0;  // from the start of the data
    uint64_t size_bytes = 0;
};

Result<TensorInfo> read_tensor_info(ByteReader& reader, uint32_t alignment) {
    TensorInfo tensor;
    tensor.record.name = TRY(read_name(reader, "tensor name", kMaxTensorName));
    const auto dims = reader.read<uint32_t>("tensor dimension count");
    TRY(reader.status());
    if (dims == 0 || dims > kMaxDims)
        return fail("tensor {} has {} dimensions, 1 to {} are allowed", quote(tensor.record.name), dims, kMaxDims);
    tensor.record.shape.resize(dims);
    for (uint32_t i = dims; i-- > 0;) {  // innermost first in the file
        const auto dim = reader.read<uint64_t>("tensor dimension");
        TRY(reader.status());
        if (dim == 0 || dim > static_cast<uint64_t>(INT64_MAX))
            return fail("tensor {} has a dimension of {}", quote(tensor.record.name), dim);
        tensor.record.shape[i] = static_cast<int64_t>(dim);
    }
    const auto type = reader.read<uint32_t>("tensor type");
    tensor.offset = reader.read<uint64_t>("tensor offset");
    TRY(reader.status());
    tensor.record.dtype = TRY(parse_ggml_type(type, tensor.record.name));
    tensor.size_bytes = TRY(tensor_bytes(tensor.record.name, tensor.record.dtype, tensor.record.shape));
    if (tensor.offset % alignment != 0) {
        return fail("tensor {} starts at offset {} of the data, not a multiple of the alignment {}",
                    quote(tensor.record.name), tensor.offset, alignment);
    }
    return tensor;
}

Result<TensorRecord> with_data(TensorInfo tensor, std::span<const std::byte> bytes, uint64_t data_start) {
    uint64_t begin = 0;
    uint64_t end = 0;
    if (__builtin_add_overflow(data_start, tensor.offset, &begin) ||
        __builtin_add_overflow(begin, tensor.size_bytes, &end))
        return fail("tensor {} has an absurd offset of {}", quote(tensor.record.name), tensor.offset);
    if (end > bytes.size()) {
        return fail("tensor {} ends at byte {} but the file has {}: the download is incomplete",
                    quote(tensor.record.name), end, bytes.size());
    }
    tensor.record.data = bytes.subspan(begin, tensor.size_bytes);
    return std::move(tensor.record);
}

// Tensors that share bytes would let a small file stand for any amount of memory.
Status check_no_overlap(const std::vector<TensorRecord>& tensors) {
    std::vector<const TensorRecord*> order;
    order.reserve(tensors.size());
    for (const TensorRecord& tensor : tensors) order.push_back(&tensor);
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->data.data() < b->data.data(); });
    for (size_t i = 1; i < order.size(); ++i) {
        if (order[i - 1]->data.data() + order[i - 1]->data.size() > order[i]->data.data())
            return fail("tensors {} and {} overlap", quote(order[i - 1]->name), quote(order[i]->name));
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
constexpr auto kNameOf = [](const TensorRecord& tensor) { return std::string_view(tensor.name); };

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

uint32_t ggml_type(DType dtype) {
    for (uint32_t number = 0; number < kGgmlTypes.size(); ++number) {
        if (kGgmlTypes[number].dtype == dtype) return number;
    }
    check_failed(__FILE__, __LINE__, "every dtype has a number in GGUF");
}

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
    metadata_.reserve(header.entries);
    for (uint64_t i = 0; i < header.entries; ++i) metadata_.push_back(TRY(read_entry(reader)));
    keys_by_name_ = TRY(sorted_index(metadata_, "metadata key", kKeyOf));
    alignment_ = TRY(gguf_alignment(find("general.alignment")));

    std::vector<TensorInfo> infos;
    for (uint64_t i = 0; i < header.tensors; ++i) infos.push_back(TRY(read_tensor_info(reader, alignment_)));
    const uint64_t data_start = (uint64_t{reader.offset()} + alignment_ - 1) / alignment_ * alignment_;
    tensors_.reserve(infos.size());
    for (TensorInfo& tensor : infos) tensors_.push_back(TRY(with_data(std::move(tensor), bytes, data_start)));
    TRY(check_no_overlap(tensors_));
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
}

Status GgufFile::check_split() {
    auto index = sorted_index(tensors_, "tensor", kNameOf);
    if (!index) return fail("{}: {} in its {} parts", name_, index.error().message, parts_);
    tensors_by_name_ = std::move(*index);
    const auto expected = get_int("split.tensors.count");
    if (expected && *expected != static_cast<int64_t>(tensors_.size())) {
        return fail("{}: split.tensors.count is {} but the {} parts have {} tensors: they belong to different models",
                    name_, *expected, parts_, tensors_.size());
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
