#include "models/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "format/quant.h"
#include "models/binder.h"
#include "models/family.h"

namespace tandem::models {

namespace {

using format::GgufWriter;
using graph::WeightView;

// Which row of the source a row of the file is: the queries and keys of some families are permuted.
struct RowOrder {
    int head_dim = 0;  // 0: as they are
    int rope_dim = 0;

    // Pairs i and i + half of the part of a head that turns come to lie at 2i and 2i + 1.
    int64_t source(int64_t row) const {
        if (head_dim == 0) return row;
        const int64_t at = row % head_dim;
        if (at >= rope_dim) return row;
        return row - at + at % 2 * (rope_dim / 2) + at / 2;
    }
};

struct TensorJob {
    std::string name;
    WeightView view;
    RowOrder order = {};
    ChosenType type = {};
    std::vector<float> importance = {};  // of the columns, for each matrix of the tensor; empty: all the same

    TensorShape shape() const { return {name, view.shape, view.dtype}; }
    // A vector that is permuted is a matrix of one column.
    int64_t cols() const {
        if (view.shape.empty()) return 1;
        return view.shape.size() == 1 && order.head_dim != 0 ? 1 : view.shape.back();
    }
    int64_t rows() const { return view.elements() / std::max<int64_t>(1, cols()); }
    bool is_encoded() const { return is_quantized(type.stored) && type.stored != view.dtype; }
    bool is_copy() const { return type.stored == view.dtype && order.head_dim == 0 && view.parts.empty(); }
};

// Whole rows of the tensor as it will be stored.
void convert(const TensorJob& job, uint64_t first_byte, std::span<std::byte> out) {
    const int64_t cols = job.cols();
    const size_t in_row = row_bytes(job.view.dtype, cols);
    const size_t out_row = row_bytes(job.type.stored, cols);
    const auto per_matrix = job.view.shape.size() < 3 ? job.rows() : job.view.shape[job.view.shape.size() - 2];
    std::vector<float> values(static_cast<size_t>(cols));
    int64_t row = static_cast<int64_t>(first_byte / out_row);
    for (size_t at = 0; at < out.size(); at += out_row, ++row) {
        const int64_t source = job.order.source(row);
        const std::byte* const from = job.view.parts.empty()
                                          ? job.view.data.data() + static_cast<size_t>(source) * in_row
                                          : job.view.parts[static_cast<size_t>(source / per_matrix)].data() +
                                                static_cast<size_t>(source % per_matrix) * in_row;
        if (job.view.dtype == job.type.stored) {
            std::memcpy(out.data() + at, from, out_row);
            continue;
        }
        format::decode_row(job.view.dtype, from, values.data(), cols);
        const float* const importance =
            job.importance.empty() ? nullptr : job.importance.data() + row / per_matrix * cols;
        format::encode_row(job.type.stored, values.data(), out.data() + at, cols, importance);
    }
}

// All that is known before the first byte is written.
struct Export {
    std::optional<Model> model = {};  // of a Hugging Face directory, whose weights are views of it
    ModelTraits traits;
    GgufWriter writer;
    std::vector<TensorJob> jobs;
};

std::optional<int64_t> first_int(const format::GgufFile& gguf, const std::string& key) {
    if (const auto one = gguf.get_int(key)) return one;
    const auto list = gguf.get_ints(key);  // one for each layer
    return list && !list->empty() ? std::optional(list->front()) : std::nullopt;
}

Result<Export> prepare_gguf(const format::Checkpoint& checkpoint) {
    TRY(checkpoint.check_readable());
    Export made;
    const format::GgufFile& gguf = *checkpoint.gguf();
    for (const format::GgufEntry& entry : gguf.metadata()) {
        if (!entry.key.starts_with("split.")) made.writer.set(entry.key, entry.value);
    }
    const std::string architecture(gguf.get_string("general.architecture").value_or(""));
    const auto heads = [&](const char* key) {
        return static_cast<int>(first_int(gguf, fmt::format("{}.attention.{}", architecture, key)).value_or(0));
    };
    made.traits = {.architecture = architecture, .heads = heads("head_count"), .kv_heads = heads("head_count_kv")};
    for (const format::TensorRecord& tensor : checkpoint.tensors())
        made.jobs.push_back({.name = tensor.name, .view = {tensor.dtype, tensor.shape, tensor.data}});
    return made;
}

// Rows of a tensor that the model uses apart from its other rows, in their order: it is written as one.
Status add_rows(std::vector<TensorJob>& jobs, std::string_view name, const WeightView& rows, std::string_view file) {
    const std::string_view whole = whole_name(name);
    const auto found = std::ranges::find(jobs, whole, &TensorJob::name);
    if (found == jobs.end()) {
        jobs.push_back({.name = std::string(whole), .view = rows});
        return Ok{};
    }
    WeightView& view = found->view;
    if (view.data.data() + view.data.size() != rows.data.data()) {
        return fail("{}: tensor '{}' is not aligned in its file: save the model again", file, whole);
    }
    view.shape[0] += rows.shape[0];
    view.data = {view.data.data(), view.data.size() + rows.data.size()};
    return Ok{};
}

Result<Export> prepare_hf(const format::Checkpoint& checkpoint) {
    Identified found = TRY(identify(checkpoint));
    Export made;
    made.model = TRY(load(checkpoint));
    const Model& model = *made.model;
    made.writer.set("general.architecture", found.family->architecture);
    made.writer.set("general.type", "model");
    made.writer.set("general.name", model.name);
    TRY(found.family->write_settings(std::move(found.settings), made.writer));
    made.traits = {
        .architecture = std::string(found.family->architecture), .heads = model.heads, .kv_heads = model.kv_heads};

    const bool permuted = found.family->gguf_rope == op::RopeLayout::interleaved;
    const RowOrder interleaved{.head_dim = model.head_dim, .rope_dim = model.rope_dim};
    for (const graph::Value& value : model.program.values) {
        if (value.kind != graph::Value::Kind::weight) continue;
        if (whole_name(value.name) != value.name) {
            TRY(add_rows(made.jobs, value.name, *model.weights.find(value.name), checkpoint.name()));
            continue;
        }
        const bool turns =
            value.name.find(".attn_q.") != std::string::npos || value.name.find(".attn_k.") != std::string::npos;
        WeightView view = *model.weights.find(value.name);
        if (view.shape.size() == 2 && view.shape[0] == 1) view.shape.erase(view.shape.begin());  // Binder::row()
        made.jobs.push_back(
            {.name = value.name, .view = std::move(view), .order = permuted && turns ? interleaved : RowOrder{}});
    }
    return made;
}

Status add_importance(TensorJob& job, const format::Imatrix& imatrix) {
    const format::Imatrix::Entry* const entry = imatrix.find(job.name);
    if (entry == nullptr || !job.is_encoded()) return Ok{};
    const int64_t matrices =
        job.view.shape.size() < 3 ? 1 : job.view.elements() / (job.cols() * job.view.shape.rbegin()[1]);
    const auto expected = static_cast<size_t>(job.cols() * matrices);
    if (entry->sums.size() != expected) {
        return fail("{}: has {} columns for tensor '{}', which has {}: it is of another model", imatrix.name,
                    entry->sums.size(), job.name, expected);
    }
    job.importance = entry->means();
    return Ok{};
}

Status choose(Export& made, const ExportOptions& options) {
    made.traits.importance = options.imatrix != nullptr;
    std::vector<TensorShape> shapes;
    for (const TensorJob& job : made.jobs) shapes.push_back(job.shape());
    const std::vector<ChosenType> types = choose_types(options.type, made.traits, shapes);
    for (size_t i = 0; i < types.size(); ++i) {
        TensorJob& job = made.jobs[i];
        job.type = types[i];
        if (job.type.stored != job.view.dtype && !format::has_encoder(job.type.stored))
            return fail("tensor '{}': no encoder for {}: choose another type", job.name, name(job.type.stored));
        if (options.imatrix != nullptr) TRY(add_importance(job, *options.imatrix));
    }
    const auto has_importance = [](const TensorJob& job) { return !job.importance.empty(); };
    const auto wants_it = [](const TensorJob& job) { return job.is_encoded(); };
    if (options.imatrix != nullptr && std::ranges::any_of(made.jobs, wants_it) &&
        std::ranges::none_of(made.jobs, has_importance)) {
        return fail("{}: has nothing on any matrix of the model: it is of another one", options.imatrix->name);
    }
    return Ok{};
}

ExportPlan plan_of(const std::vector<TensorJob>& jobs) {
    ExportPlan plan;
    for (const TensorJob& job : jobs) {
        plan.tensors.push_back(
            {.name = job.name,
             .shape = job.view.shape,
             .from = job.view.dtype,
             .type = job.type,
             .is_matrix = is_quantizable(job.shape()),
             .has_importance = !job.importance.empty(),
             .elements = static_cast<uint64_t>(job.view.elements()),
             .size_bytes = static_cast<uint64_t>(job.rows()) * row_bytes(job.type.stored, job.cols())});
    }
    return plan;
}

void describe(GgufWriter& writer, const ExportOptions& options) {
    writer.set("general.file_type", static_cast<uint32_t>(options.type.mix.file_type));
    writer.set("general.quantization_version", uint32_t{2});
    if (options.imatrix == nullptr) return;
    writer.set("quantize.imatrix.file", options.imatrix->name);
    writer.set("quantize.imatrix.entries_count", static_cast<uint32_t>(options.imatrix->entries.size()));
    writer.set("quantize.imatrix.chunks_count", options.imatrix->chunks);
    if (!options.imatrix->datasets.empty())
        writer.set("quantize.imatrix.dataset", std::string_view(options.imatrix->datasets.front()));
}

}  // namespace

double ExportPlan::bits_per_weight() const {
    uint64_t elements = 0;
    uint64_t bytes = 0;
    for (const PlannedTensor& tensor : tensors) {
        elements += tensor.elements;
        bytes += tensor.size_bytes;
    }
    return elements > 0 ? 8 * static_cast<double>(bytes) / static_cast<double>(elements) : 0;
}

Status export_gguf(const format::Checkpoint& checkpoint, const std::filesystem::path& path,
                   const ExportOptions& options) {
    if (options.type.mix.base == DType::i32) return fail("i32 is no type of weights");
    Export made = TRY(checkpoint.gguf() != nullptr ? prepare_gguf(checkpoint) : prepare_hf(checkpoint));
    TRY(choose(made, options));
    if (options.planned && !options.planned(plan_of(made.jobs))) return Ok{};
    if (options.add_metadata) TRY(options.add_metadata(made.writer));
    describe(made.writer, options);
    for (const TensorJob& job : made.jobs) {
        GgufWriter::Tensor tensor{.name = job.name, .dtype = job.type.stored, .shape = job.view.shape};
        if (job.is_copy()) {
            tensor.data = job.view.data;
        } else {
            tensor.unit_bytes = row_bytes(job.type.stored, job.cols());
            tensor.fill = [&job](uint64_t first, std::span<std::byte> out) -> Status {
                convert(job, first, out);
                return Ok{};
            };
        }
        made.writer.add(std::move(tensor));
    }
    return made.writer.write(path, {.threads = options.threads, .progress = options.progress});
}

}  // namespace tandem::models
