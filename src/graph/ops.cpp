#include "graph/ops.h"

#include <fmt/format.h>

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
    CHECK(in.size() == 2 && is_f32(in[0]) && in[0].cols() == int64_t{heads} * head_dim && heads % kv_heads == 0);
    return in[0];
}
std::string Attention::describe() const {
    return fmt::format("cache={} heads={} kv_heads={} head_dim={} scale={}{}{}", cache, heads, kv_heads, head_dim,
                       scale, window == 0 ? "" : fmt::format(" window={}", window),
                       softcap == 0.0F ? "" : fmt::format(" softcap={}", softcap));
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

TensorType Sample::infer(InputTypes in) const {
    CHECK(in.size() == 1 && is_matrix(in[0]) && is_f32(in[0]));
    return {DType::i32, {in[0].shape[0]}};
}
std::string Sample::describe() const {
    return "";
}

}  // namespace tandem::op
