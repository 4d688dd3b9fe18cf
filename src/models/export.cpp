#include "models/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/log.h"
#include "format/quant.h"
#include "models/family.h"

namespace tandem::models {

namespace {

using format::GgufWriter;
using format::TensorSink;
using graph::WeightView;

constexpr int64_t kSliceElements = int64_t{1} << 22;  // converted at a time: 16 MiB of f32

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
    DType type;
    RowOrder order;
};

uint64_t stored_bytes(const TensorJob& job) {
    const auto cols = job.view.shape.empty() ? 1 : job.view.shape.back();
    const uint64_t row = row_bytes(job.view.dtype, cols);
    return row == 0 ? 0 : job.view.data.size() / row * row_bytes(job.type, cols);
}

// A vector that is permuted is a matrix of one column.
int64_t columns(const TensorJob& job) {
    if (job.view.shape.empty()) return 1;
    return job.view.shape.size() == 1 && job.order.head_dim != 0 ? 1 : job.view.shape.back();
}

class Converter {
  public:
    Converter(const ExportOptions& options, uint64_t total) : options_(options), total_(total) {}

    Status convert(const TensorJob& job, const TensorSink& sink) {
        const bool as_it_is = job.type == job.view.dtype && job.order.head_dim == 0;
        return as_it_is ? copy(job, sink) : encode(job, sink);
    }

  private:
    Status copy(const TensorJob& job, const TensorSink& sink) {
        constexpr size_t kPiece = size_t{16} << 20;
        for (size_t at = 0; at < job.view.data.size(); at += kPiece) {
            TRY(deliver(job.view.data.subspan(at, std::min(kPiece, job.view.data.size() - at)), sink));
        }
        return Ok{};
    }

    Status encode(const TensorJob& job, const TensorSink& sink) {
        const int64_t cols = columns(job);
        const size_t in_row = row_bytes(job.view.dtype, cols);
        const size_t out_row = row_bytes(job.type, cols);
        const int64_t rows = in_row == 0 ? 0 : static_cast<int64_t>(job.view.data.size() / in_row);
        const int64_t slice = std::max<int64_t>(1, kSliceElements / std::max<int64_t>(1, cols));
        std::vector<std::byte> out;
        for (int64_t first = 0; first < rows; first += slice) {
            const int64_t count = std::min(slice, rows - first);
            out.resize(static_cast<size_t>(count) * out_row);
            const auto body = [&](int64_t begin, int64_t end, int) {
                std::vector<float> row(static_cast<size_t>(cols));
                for (int64_t r = begin; r < end; ++r) {
                    const auto source = static_cast<size_t>(job.order.source(first + r));
                    format::decode_row(job.view.dtype, job.view.data.data() + source * in_row, row.data(), cols);
                    format::encode_row(job.type, row.data(), out.data() + static_cast<size_t>(r) * out_row, cols);
                }
            };
            if (options_.threads != nullptr) {
                options_.threads->for_each_range(count, std::max<int64_t>(1, count / 64), body);
            } else {
                body(0, count, 0);
            }
            TRY(deliver(out, sink));
        }
        return Ok{};
    }

    Status deliver(std::span<const std::byte> bytes, const TensorSink& sink) {
        TRY(sink(bytes));
        done_ += bytes.size();
        if (options_.progress) options_.progress(done_, total_);
        return Ok{};
    }

    const ExportOptions& options_;
    uint64_t total_;
    uint64_t done_ = 0;
};

// The number of general.file_type.
uint32_t file_type(DType type) {
    switch (type) {
        case DType::f32:
        case DType::i32:
            return 0;
        case DType::f16:
            return 1;
        case DType::q4_0:
            return 2;
        case DType::q4_1:
            return 3;
        case DType::q8_0:
            return 7;
        case DType::q5_0:
            return 8;
        case DType::q5_1:
            return 9;
        case DType::q4_k:
            return 14;  // "small": only the logits' matrix is of another type
        case DType::q5_k:
            return 16;
        case DType::q6_k:
            return 18;
        case DType::bf16:
            return 32;
    }
    return 0;
}

bool is_matrix(std::string_view name, const std::vector<int64_t>& shape) {
    return shape.size() >= 2 && name.ends_with(".weight") && !name.ends_with("norm.weight");
}

Status write_all(GgufWriter& writer, const std::vector<TensorJob>& jobs, const std::filesystem::path& path,
                 const ExportOptions& options) {
    writer.set("general.file_type", file_type(options.type));
    writer.set("general.quantization_version", uint32_t{2});
    uint64_t total = 0;
    int fallbacks = 0;
    for (const TensorJob& job : jobs) {
        total += stored_bytes(job);
        if (is_matrix(job.name, job.view.shape) && job.type != stored_type(options.type, 0, false)) ++fallbacks;
    }
    if (fallbacks > 0) {
        log::info("{} of {} tensors are not {}: rows that are no whole number of blocks, or the logits' matrix",
                  fallbacks, jobs.size(), name(options.type));
    }
    Converter converter(options, total);
    for (const TensorJob& job : jobs) {
        writer.add({.name = job.name,
                    .dtype = job.type,
                    .shape = job.view.shape,
                    .source = [&job, &converter](const TensorSink& sink) { return converter.convert(job, sink); }});
    }
    return writer.write(path);
}

Status export_from_gguf(const format::Checkpoint& checkpoint, const std::filesystem::path& path,
                        const ExportOptions& options) {
    GgufWriter writer;
    for (const format::GgufEntry& entry : checkpoint.gguf()->metadata()) {
        if (!entry.key.starts_with("split.")) writer.set(entry.key, entry.value);
    }
    if (options.add_metadata) TRY(options.add_metadata(writer));
    const bool tied = checkpoint.find("output.weight") == nullptr;
    const std::string_view logits = tied ? "token_embd.weight" : "output.weight";
    std::vector<TensorJob> jobs;
    for (const format::TensorRecord& tensor : checkpoint.tensors()) {
        const bool matrix = is_matrix(tensor.name, tensor.shape) && tensor.dtype != DType::i32;
        const DType type = matrix ? stored_type(options.type, tensor.cols(), tensor.name == logits) : tensor.dtype;
        jobs.push_back({tensor.name, {tensor.dtype, tensor.shape, tensor.data}, type, {}});
    }
    return write_all(writer, jobs, path, options);
}

Status export_from_hf(const format::Checkpoint& checkpoint, const std::filesystem::path& path,
                      const ExportOptions& options) {
    Identified found = TRY(identify(checkpoint));
    const Model model = TRY(load(checkpoint));
    GgufWriter writer;
    writer.set("general.architecture", found.family->architecture);
    writer.set("general.type", "model");
    writer.set("general.name", model.name);
    TRY(found.family->write_settings(std::move(found.settings), writer));
    if (options.add_metadata) TRY(options.add_metadata(writer));

    const bool permuted = found.family->gguf_rope == op::RopeLayout::interleaved;
    const RowOrder interleaved{.head_dim = model.head_dim, .rope_dim = model.rope_dim};
    const bool tied = model.weights.find("output.weight") == nullptr;
    const std::string_view logits = tied ? "token_embd.weight" : "output.weight";
    std::vector<TensorJob> jobs;
    for (const graph::Value& value : model.program.values) {
        if (value.kind != graph::Value::Kind::weight) continue;
        const WeightView& view = *model.weights.find(value.name);
        const bool turns =
            value.name.find(".attn_q.") != std::string::npos || value.name.find(".attn_k.") != std::string::npos;
        const DType type = is_matrix(value.name, view.shape)
                               ? stored_type(options.type, view.shape.back(), value.name == logits)
                               : view.dtype;
        jobs.push_back({value.name, view, type, permuted && turns ? interleaved : RowOrder{}});
    }
    return write_all(writer, jobs, path, options);
}

}  // namespace

DType stored_type(DType type, int64_t cols, bool makes_logits) {
    if (makes_logits && (type == DType::q4_k || type == DType::q5_k)) type = DType::q6_k;
    if (cols % info(type).block == 0) return type;
    return cols % info(DType::q8_0).block == 0 ? DType::q8_0 : DType::f16;
}

Status export_gguf(const format::Checkpoint& checkpoint, const std::filesystem::path& path,
                   const ExportOptions& options) {
    if (options.type == DType::i32) return fail("i32 is no type of weights");
    return checkpoint.gguf() != nullptr ? export_from_gguf(checkpoint, path, options)
                                        : export_from_hf(checkpoint, path, options);
}

}  // namespace tandem::models
