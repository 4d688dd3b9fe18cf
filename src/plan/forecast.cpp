#include "plan/forecast.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "graph/ops.h"

namespace tandem::plan {

namespace {

using graph::Node;
using graph::Program;
using graph::StepShape;
using graph::TensorType;
using graph::Value;
using graph::Work;

// The rows of a product that read a weight together: of experts, those that chose the same one.
double rows_together(const Node& node, const std::vector<TensorType>& in, const StepShape& step, const Work& work) {
    const auto rows = static_cast<double>(in[1].rows(step.extents));
    const auto* const experts = node.op.as<op::ExpertLinear>();
    if (experts == nullptr) return rows;
    const auto all = static_cast<double>(in[0].shape[0].count);
    const double of_all = static_cast<double>(in[0].size_bytes({})) * static_cast<double>(experts->count) /
                          static_cast<double>(in[0].shape[1].count);
    const double used = static_cast<double>(in[2].cols()) / 2;
    return std::max(1.0, rows * used / std::max(1.0, all * work.bytes / of_all));
}

class StepForecast {
  public:
    StepForecast(const Program& program, const StepShape& step, const Speeds& speeds)
        : program_(program),
          step_(step),
          speeds_(speeds),
          dispatch_s_(speeds.dispatch_s + speeds.dispatch_growth_s * std::log2(static_cast<double>(
                                                                         std::max<int64_t>(1, step.extents.tokens)))) {}

    Forecast make() {
        for (const Node& node : program_.nodes) add(node);
        const device::Rates& rates = speeds_.rates;
        const double reading = ratio(work_.bytes, rates.read_bytes_per_s);
        // What fits the caches is not read from memory again.
        const bool is_cached = work_.bytes <= rates.cache_bytes;
        forecast_.limit_s = std::max(is_cached ? 0 : reading, ratio(work_.flops, rates.matrix_flops_per_s));
        forecast_.seconds = forecast_.reading_s + forecast_.computing_s + forecast_.attention_s +
                            forecast_.activation_s + forecast_.dispatch_s;

        return forecast_;
    }

  private:
    static double ratio(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

    void add(const Node& node) {
        std::vector<TensorType> in;
        for (const graph::ValueId input : node.inputs) in.push_back(program_.value(input).type);
        const Work work = node.op.work(in, step_);
        work_ += work;
        if (node.op.as<op::Linear>() != nullptr || node.op.as<op::ExpertLinear>() != nullptr) {
            if (work.flops > 0) add_product(node, in, work);
        } else if (node.op.as<op::Attention>() != nullptr) {
            add_attention(work);
        } else {
            add_other(node);
        }
    }

    // Products of the same rows are one part of a step: q, k and v, gate and up.
    void add_product(const Node& node, const std::vector<TensorType>& in, const Work& work) {
        const double rows = rows_together(node, in, step_, work);
        const double seconds = product_seconds(speeds_, in[0].dtype, rows, work);
        const Work one_row{.bytes = work.bytes, .flops = work.flops / rows};
        const double reading = std::min(seconds, product_seconds(speeds_, in[0].dtype, 1, one_row));
        forecast_.reading_s += reading;
        forecast_.computing_s += seconds - reading;
        forecast_.weight_bytes += work.bytes;
        forecast_.product_flops += work.flops;
        if (sources_.insert(node.inputs[1]).second) forecast_.dispatch_s += dispatch_s_;
    }

    void add_attention(const Work& work) {
        const bool single_rows = std::all_of(step_.sequences.begin(), step_.sequences.end(),
                                             [](const StepShape::Sequence& sequence) { return sequence.rows == 1; });
        const device::Rates& rates = speeds_.rates;
        const double reads = speeds_.attention_bytes_per_s > 0 ? speeds_.attention_bytes_per_s : rates.read_bytes_per_s;
        const double of_prompts =
            speeds_.attention_flops_per_s > 0 ? speeds_.attention_flops_per_s : rates.matrix_flops_per_s;
        const double computes = single_rows ? speeds_.attention_row_flops_per_s : of_prompts;
        forecast_.attention_s += speeds_.attention_s + std::max(ratio(work.bytes, reads), ratio(work.flops, computes));
        forecast_.cache_bytes += work.bytes;
        forecast_.dispatch_s += dispatch_s_;
    }

    void add_other(const Node& node) {
        size_t bytes = program_.value(node.output).type.size_bytes(step_.extents);
        for (const graph::ValueId input : node.inputs) {
            const Value& value = program_.value(input);
            if (value.kind == Value::Kind::computed) bytes += value.type.size_bytes(step_.extents);
        }
        const double rate =
            speeds_.activation_bytes_per_s > 0 ? speeds_.activation_bytes_per_s : speeds_.rates.read_bytes_per_s;
        forecast_.activation_s += ratio(static_cast<double>(bytes), rate);
        // The sums of the residual wait for what comes before and after; the rest is done with a product or attention.
        if (node.op.as<op::Add>() != nullptr) forecast_.dispatch_s += dispatch_s_;
    }

    const Program& program_;
    const StepShape& step_;
    const Speeds& speeds_;
    const double dispatch_s_;
    std::set<graph::ValueId> sources_;  // of the products so far
    Work work_;
    Forecast forecast_;
};

Forecast forecast_draws(const Program& program, const StepShape& step, const Speeds& speeds) {
    return forecast_step(graph::keep_results(program, {"next"}), step, speeds);
}

}  // namespace

Forecast forecast_step(const Program& part, const StepShape& step, const Speeds& speeds) {
    return StepForecast(part, step, speeds).make();
}

std::string_view Forecast::limited_by() const {
    const std::array<std::pair<double, std::string_view>, 5> parts = {{{reading_s, "reading weights"},
                                                                       {computing_s, "matrix products"},
                                                                       {attention_s, "attention"},
                                                                       {activation_s, "activations"},
                                                                       {dispatch_s, "dispatches"}}};
    return std::max_element(parts.begin(), parts.end())->second;
}

Forecast& Forecast::operator+=(const Forecast& next) {
    seconds += next.seconds;
    tokens += next.tokens;
    limit_s += next.limit_s;
    reading_s += next.reading_s;
    computing_s += next.computing_s;
    attention_s += next.attention_s;
    activation_s += next.activation_s;
    dispatch_s += next.dispatch_s;
    weight_bytes += next.weight_bytes;
    cache_bytes += next.cache_bytes;
    product_flops += next.product_flops;
    return *this;
}

Forecast forecast_decode(const Program& program, int sequences, int context, DType kv_dtype, const Speeds& speeds) {
    StepShape step{.extents = {.tokens = sequences, .outputs = sequences}, .kv_dtype = kv_dtype};
    step.sequences.assign(static_cast<size_t>(sequences), {.past = context, .rows = 1});
    Forecast forecast = forecast_draws(program, step, speeds);
    forecast.tokens = sequences;
    return forecast;
}

Forecast forecast_prompt(const Program& program, int tokens, int chunk, DType kv_dtype, const Speeds& speeds) {
    Forecast whole;
    for (int past = 0; past < tokens; past += chunk) {
        const int rows = std::min(chunk, tokens - past);
        StepShape step{.extents = {.tokens = rows, .outputs = past + rows == tokens ? 1 : 0}, .kv_dtype = kv_dtype};
        step.sequences.push_back({.past = past, .rows = rows});
        Forecast part = forecast_draws(program, step, speeds);
        part.tokens = rows;
        whole += part;
    }
    return whole;
}

int sequences_for(const Program& program, double tokens_per_s, int context, DType kv_dtype, const Speeds& speeds,
                  int most) {
    const auto reaches = [&](int sequences) {
        return forecast_decode(program, sequences, context, kv_dtype, speeds).tokens_per_s() >= tokens_per_s;
    };
    int below = 0;
    int enough = 1;
    while (enough < most && !reaches(enough)) {
        below = enough;
        enough = std::min(most, 2 * enough);
    }
    if (!reaches(enough)) return 0;
    while (enough - below > 1) {
        const int middle = (below + enough) / 2;
        (reaches(middle) ? enough : below) = middle;
    }
    return enough;
}

}  // namespace tandem::plan
