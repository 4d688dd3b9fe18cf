#include "graph/ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tandem::op {

namespace {

using graph::Dim;

bool is_f32(const TensorType& type) {
    return type.dtype == DType::f32;
}
bool is_matrix(const TensorType& type) {
    return type.shape.size() == 2;
}

std::string_view text(Activation activation) {
    switch (activation) {
        case Activation::silu:
            return "silu";
        case Activation::gelu_tanh:
            return "gelu_tanh";
        case Activation::gelu_erf:
            return "gelu_erf";
        case Activation::clamped:
            return "clamped";
    }
    return "?";
}

std::string_view text(Score score) {
    switch (score) {
        case Score::softmax:
            return "softmax";
        case Score::sigmoid:
            return "sigmoid";
        case Score::chosen_softmax:
            return "chosen_softmax";
    }
    return "?";
}

}  // namespace

TensorType Embed::infer(InputTypes in) const {
    CHECK(in.size() == 2 && is_matrix(in[0]) && in[1].dtype == DType::i32);
    return {DType::f32, {in[1].shape[0], in[0].shape[1]}};
}
std::string Embed::describe() const {
    return scale == 1.0F ? "" : fmt::format("scale={}", scale);
}

TensorType RmsNorm::infer(InputTypes in) const {
    CHECK((in.size() == 1 && width > 0) || (in.size() == 2 && is_f32(in[1])));
    CHECK(is_f32(in[0]) && in[0].cols() % (in.size() == 1 ? width : in[1].cols()) == 0);
    return in[0];
}
std::string RmsNorm::describe() const {
    return fmt::format("eps={}{}", eps, width == 0 ? "" : fmt::format(" width={}", width));
}

TensorType Linear::infer(InputTypes in) const {
    CHECK(in.size() == 2 || in.size() == 3);
    CHECK(is_matrix(in[0]) && is_matrix(in[1]) && is_f32(in[1]) && in[0].cols() == in[1].cols());
    if (in.size() == 3) CHECK(is_f32(in[2]) && in[2].shape[0] == in[0].shape[0]);
    return {DType::f32, {in[1].shape[0], in[0].shape[0]}};
}
std::string Linear::describe() const {
    return "";
}
Work Linear::work(InputTypes in, const StepShape& step) const {
    const int64_t rows = in[1].rows(step.extents);
    if (rows == 0) return {};
    const double elements = static_cast<double>(in[0].rows({})) * static_cast<double>(in[0].cols());
    return {.bytes = static_cast<double>(in[0].size_bytes({})), .flops = 2 * elements * static_cast<double>(rows)};
}

TensorType Rope::infer(InputTypes in) const {
    CHECK(in.size() == 2 && is_f32(in[0]) && in[1].dtype == DType::i32);
    CHECK(in[0].cols() % head_dim == 0 && 2 * inv_freq.size() <= static_cast<size_t>(head_dim));
    return in[0];
}
std::string Rope::describe() const {
    return fmt::format("head_dim={} layout={} slowest={}{}", head_dim,
                       layout == RopeLayout::half ? "half" : "interleaved", inv_freq.back(),
                       magnitude == 1.0F ? "" : fmt::format(" magnitude={}", magnitude));
}

TensorType ScaleByPosition::infer(InputTypes in) const {
    CHECK(in.size() == 2 && is_matrix(in[0]) && is_f32(in[0]) && in[1].dtype == DType::i32 && every > 0);
    return in[0];
}
std::string ScaleByPosition::describe() const {
    return fmt::format("growth={} every={}", growth, every);
}

TensorType KvWrite::infer(InputTypes in) const {
    CHECK(in.size() == 2 && is_f32(in[0]) && in[0] == in[1]);
    return {DType::i32, {Dim::of(0)}};
}
std::string KvWrite::describe() const {
    return fmt::format("cache={}", cache);
}

TensorType Attention::infer(InputTypes in) const {
    CHECK(in.size() == 2 || in.size() == 3);
    CHECK(is_f32(in[0]) && in[0].cols() == int64_t{heads} * head_dim && heads % kv_heads == 0);
    if (in.size() == 3) CHECK(is_f32(in[2]) && in[2].cols() == heads);
    return in[0];
}
std::string Attention::describe() const {
    return fmt::format("cache={} heads={} kv_heads={} head_dim={} scale={}{}{}", cache, heads, kv_heads, head_dim,
                       scale, window == 0 ? "" : fmt::format(" window={}", window),
                       softcap == 0.0F ? "" : fmt::format(" softcap={}", softcap));
}

Work Attention::work(InputTypes /*in*/, const StepShape& step) const {
    const double kv_bytes = 2.0 * static_cast<double>(row_bytes(step.kv_dtype, int64_t{kv_heads} * head_dim));
    Work work;
    for (const StepShape::Sequence& sequence : step.sequences) {
        double pairs = 0;  // of a row and a position it sees
        for (int row = 0; row < sequence.rows; ++row) {
            const int seen = sequence.past + row + 1;
            pairs += window == 0 ? seen : std::min(window, seen);
        }
        const int end = sequence.past + sequence.rows;
        work.bytes += kv_bytes * (window == 0 ? end : std::min(window + sequence.rows - 1, end));
        work.flops += 4 * pairs * heads * head_dim;
    }
    return work;
}

TensorType Glu::infer(InputTypes in) const {
    CHECK(in.size() == 2 && is_f32(in[0]) && in[0] == in[1]);
    return in[0];
}
std::string Glu::describe() const {
    return std::string(text(activation));
}

TensorType Add::infer(InputTypes in) const {
    CHECK(in.size() == 2 && is_f32(in[0]) && in[0] == in[1]);
    return in[0];
}
std::string Add::describe() const {
    return "";
}

TensorType SelectRows::infer(InputTypes in) const {
    CHECK(in.size() == 2 && is_matrix(in[0]) && is_f32(in[0]) && in[1].dtype == DType::i32);
    return {DType::f32, {in[1].shape[0], in[0].shape[1]}};
}
std::string SelectRows::describe() const {
    return "";
}

TensorType Columns::infer(InputTypes in) const {
    CHECK(in.size() == 1 && is_matrix(in[0]) && is_f32(in[0]));
    CHECK(first >= 0 && count > 0 && first + count <= in[0].cols());
    return {DType::f32, {in[0].shape[0], Dim::of(count)}};
}
std::string Columns::describe() const {
    return fmt::format("first={} count={}", first, count);
}

TensorType Softcap::infer(InputTypes in) const {
    CHECK(in.size() == 1 && is_f32(in[0]) && cap > 0.0F);
    return in[0];
}
std::string Softcap::describe() const {
    return fmt::format("cap={}", cap);
}

TensorType Scale::infer(InputTypes in) const {
    CHECK((in.size() == 1 || in.size() == 2) && is_matrix(in[0]) && is_f32(in[0]));
    CHECK(in.size() == 1 || (is_f32(in[1]) && in[1].cols() == in[0].cols()));
    return in[0];
}
std::string Scale::describe() const {
    return fmt::format("factor={}", factor);
}

TensorType SigmoidGate::infer(InputTypes in) const {
    CHECK(in.size() == 2 && is_matrix(in[0]) && is_f32(in[0]) && is_matrix(in[1]) && is_f32(in[1]));
    CHECK(in[0].shape[0] == in[1].shape[0] && in[0].cols() % in[1].cols() == 0);
    return in[0];
}
std::string SigmoidGate::describe() const {
    return "";
}

TensorType Route::infer(InputTypes in) const {
    CHECK((in.size() == 1 || in.size() == 2) && is_matrix(in[0]) && is_f32(in[0]));
    const int64_t experts = in[0].cols();
    CHECK(in.size() == 1 || (is_f32(in[1]) && in[1].cols() == experts));
    CHECK(groups >= 1 && experts % groups == 0 && used_groups >= 1 && used_groups <= groups);
    CHECK(used >= 1 && used <= experts / groups * used_groups);
    return {DType::f32, {in[0].shape[0], Dim::of(int64_t{2} * used)}};
}
std::string Route::describe() const {
    return fmt::format("used={} score={}{}{}{}", used, text(score), normalize ? " normalize" : "",
                       scale == 1.0F ? "" : fmt::format(" scale={}", scale),
                       groups == 1 ? "" : fmt::format(" groups={} of {}", used_groups, groups));
}

TensorType ExpertLinear::infer(InputTypes in) const {
    CHECK(in.size() == bias_at() + (biased ? 1 : 0) && in[0].shape.size() == 3);
    CHECK(is_matrix(in[1]) && is_f32(in[1]) && is_matrix(in[2]) && is_f32(in[2]));
    const int64_t experts = in[0].shape[0].count;
    const int64_t out = in[0].shape[1].count;
    const int64_t used = in[2].cols() / 2;
    CHECK(in[1].cols() == in[0].cols() || in[1].cols() == used * in[0].cols());
    CHECK(first >= 0 && count >= 1 && first + count <= out);
    if (scaled) CHECK(is_f32(in[kScale]) && in[kScale].cols() == experts);
    if (biased) CHECK(is_f32(in[bias_at()]) && in[bias_at()].rows({}) == experts && in[bias_at()].cols() == out);
    return {DType::f32, {in[1].shape[0], Dim::of(used * count)}};
}
std::string ExpertLinear::describe() const {
    return fmt::format("rows={}..{}{}{}", first, first + count, scaled ? " scaled" : "", biased ? " biased" : "");
}
// Of the experts, as many are read as routers that prefer none would choose.
Work ExpertLinear::work(InputTypes in, const StepShape& step) const {
    const auto rows = static_cast<double>(in[1].rows(step.extents));
    const auto experts = static_cast<double>(in[0].shape[0].count);
    const double used = static_cast<double>(in[2].cols()) / 2;
    const double read = experts * (1 - std::pow(1 - used / experts, rows));
    const double bytes = static_cast<double>(count) * static_cast<double>(row_bytes(in[0].dtype, in[0].cols()));
    return {.bytes = read * bytes,
            .flops = 2 * rows * used * static_cast<double>(count) * static_cast<double>(in[0].cols())};
}

TensorType ExpertSum::infer(InputTypes in) const {
    CHECK(in.size() == 2 && is_matrix(in[0]) && is_f32(in[0]) && is_matrix(in[1]) && is_f32(in[1]));
    const int64_t used = in[1].cols() / 2;
    CHECK(in[0].shape[0] == in[1].shape[0] && in[0].cols() % used == 0);
    return {DType::f32, {in[0].shape[0], Dim::of(in[0].cols() / used)}};
}
std::string ExpertSum::describe() const {
    return "";
}

TensorType Sample::infer(InputTypes in) const {
    CHECK(in.size() == 1 && is_matrix(in[0]) && is_f32(in[0]));
    return {DType::i32, {in[0].shape[0]}};
}
std::string Sample::describe() const {
    return "";
}

}  // namespace tandem::op
