#include "vulkan/lower.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "vulkan/experts.h"
#include "vulkan/kernel.h"
#include "vulkan/kernels/attention.h"
#include "vulkan/kernels/heads.h"
#include "vulkan/kernels/norm_act.h"
#include "vulkan/kernels/rope.h"
#include "vulkan/patterns.h"
#include "vulkan/product.h"

namespace tandem::vulkan {

namespace {

using graph::Node;
using graph::ValueId;

uint32_t row_count(graph::Dim rows, const Bucket& bucket) {
    return static_cast<uint32_t>(extent(rows, bucket.extents));
}

// An op by itself, as its kernel registered: its operands on the device.
struct SingleOp {
    struct Input {
        graph::Value value;  // of the Program
        ValueIndex made = kNone;
        WeightIndex weight = kNone;
    };
    graph::Op op;
    std::vector<Input> inputs;
    graph::TensorType type;
    ValueIndex y;

    Operand input(const Input& input, const StageArgs& args) const;
    Status record(Recorder& rec, const StageArgs& args) const;
};

bool is_step_input(const graph::Value& value) {
    return value.kind == graph::Value::Kind::input &&
           (value.name == graph::kTokens || value.name == graph::kPositions || value.name == graph::kOutputRows);
}

VkDeviceAddress step_input(std::string_view name, const StepState::Addresses& step) {
    if (name == graph::kTokens) return step.tokens;
    if (name == graph::kPositions) return step.positions;
    CHECK(name == graph::kOutputRows, name);
    return step.output_rows;
}

Operand operand_of(const graph::TensorType& type, const Bucket& bucket) {
    return {.dtype = type.dtype,
            .rows = static_cast<uint32_t>(type.rows(bucket.extents)),
            .cols = static_cast<uint32_t>(extent(type.shape.back(), bucket.extents)),
            .matrices = type.shape.size() == 3 ? static_cast<uint32_t>(type.shape[0].count) : 1,
            .size_bytes = type.size_bytes(bucket.extents)};
}

Operand SingleOp::input(const Input& input, const StageArgs& args) const {
    Operand operand = operand_of(input.value.type, args.bucket);
    if (input.weight != kNone) {
        operand.weight = args.weight(input.weight);
        operand.address = operand.weight.planes[Planes::quants];
    } else {
        operand.address = input.made != kNone ? args.value(input.made).begin : step_input(input.value.name, args.step);
    }
    return operand;
}

Status SingleOp::record(Recorder& rec, const StageArgs& args) const {
    Operand out = operand_of(type, args.bucket);
    out.address = args.value(y).begin;
    std::vector<Operand> in;
    in.reserve(inputs.size());
    for (const Input& each : inputs) in.push_back(input(each, args));
    return find_entry(op)->record(rec, op,
                                  {.in = in,
                                   .out = out,
                                   .step = args.step,
                                   .cache = args.cache,
                                   .capabilities = args.capabilities,
                                   .constant = args.constant});
}

NormParams norm_params(const StageArgs& args, WeightIndex index, float eps) {
    return {args.weight(index).planes[Planes::quants], eps};
}

// What is made of the products of q, k and v, by a stage of its own or by attention.
struct HeadsStage {
    Product qkv;
    std::optional<Product> v;
    graph::Dim rows;
    uint32_t kv_sets;
    WeightIndex q_norm, k_norm;
    float eps;
    bool norms_v;
    op::ScaleByPosition q_scale;
    std::optional<op::Rope> rope;
    uint32_t heads;
    int layer;
    ValueIndex q;

    std::vector<ValueIndex> reads() const {
        return v ? std::vector<ValueIndex>{qkv.y, v->y} : std::vector<ValueIndex>{qkv.y};
    }
    Result<HeadsCall> call(const StageArgs& args) const;
};

Result<HeadsCall> HeadsStage::call(const StageArgs& args) const {
    const uint32_t count = row_count(rows, args.bucket);
    const std::vector<uint64_t> turns = rope ? turns_of(rope->inv_freq) : std::vector<uint64_t>();
    const auto vector = [&](WeightIndex index) {
        return index == kNone ? 0 : args.weight(index).planes[Planes::quants];
    };
    return HeadsCall{.qkv = args.value(qkv.y).begin,
                     .kv_sets = kv_sets,
                     .splits = product_splits(qkv, args.tuning, count),
                     .v = v ? args.value(v->y).begin : 0,
                     .v_splits = v ? product_splits(*v, args.tuning, count) : 0,
                     .rows = count,
                     .heads = heads,
                     .q_norm = vector(q_norm),
                     .k_norm = vector(k_norm),
                     .eps = eps,
                     .norms_v = norms_v,
                     .q_scale = q_scale,
                     .rope = rope ? &*rope : nullptr,
                     .turns = rope ? TRY(args.constant(std::as_bytes(std::span(turns)))) : 0,
                     .cache = *args.cache,
                     .layer = layer,
                     .step = args.step,
                     .q = args.value(q).begin};
}

// Single rows of sequences wait for nobody else's keys.
bool made_by_attention(const Bucket& bucket, const Tuning& tuning, const Capabilities& device,
                       const op::Attention& op) {
    return bucket.one_row_each && attention_makes_heads(tuning.attention, device, op);
}

class Lowering {
  public:
    Lowering(const graph::Program& program, const LoweringOptions& options)
        : program_(program), options_(options), uses_(program) {
        if (options.exact) return;
        patterns_ = find_patterns(program, uses_);
        std::erase_if(patterns_.attention, [&](const AttentionInputs& match) {
            const Node& node = program.nodes[match.attention];
            const op::Attention& op = *node.op.as<op::Attention>();
            return !heads_supported(*options.cache, op.cache) ||
                   !attention_supported(options.tuning.attention, options.capabilities, op, *options.cache);
        });
    }

    Result<StagedProgram> run();

  private:
    Status lower_node(NodeIndex n);
    Status single(const Node& node);
    void residual(const Residual& match);
    void norm(NodeIndex n);
    void product(NodeIndex n);
    void gated(const GatedProduct& match);
    void experts(const ExpertBlock& match);
    void attention_inputs(const AttentionInputs& match);
    void attention(NodeIndex n);
    ValueIndex new_attention_scratch(graph::Dim rows);

    ValueIndex add_value(StageValue value) {
        staged_.values.push_back(std::move(value));
        return static_cast<ValueIndex>(staged_.values.size()) - 1;
    }
    ValueIndex tensor(ValueId id);  // as the Program has it
    ValueIndex new_activations(ValueId id, DType weight);
    ValueIndex activations(ValueId id, DType weight);  // made from the tensor if nobody made them yet
    WeightIndex weight(const std::vector<ValueId>& ids);
    Product new_product(const std::vector<NodeIndex>& linears);
    void emit(std::string name, std::vector<ValueIndex> reads, std::vector<ValueIndex> writes,
              std::function<Status(Recorder&, const StageArgs&)> record) {
        staged_.stages.push_back({std::move(name), std::move(reads), std::move(writes), std::move(record)});
    }
    void emit_product(const Product& product, graph::Dim rows);
    // For the splits of a product, which are left to the reader.
    ValueIndex partial_result(const Product& product, graph::Dim rows);
    // Emitted, with such a result.
    Product partial_product(const std::vector<NodeIndex>& linears, graph::Dim rows);

    graph::Dim rows_of(ValueId id) const { return program_.value(id).type.shape[0]; }
    uint32_t cols_of(ValueId id) const { return static_cast<uint32_t>(program_.value(id).type.cols()); }
    DType weight_dtype(NodeIndex linear) const { return program_.value(program_.nodes[linear].inputs[0]).type.dtype; }

    const graph::Program& program_;
    const LoweringOptions& options_;
    Uses uses_;
    Patterns patterns_;
    StagedProgram staged_;
    std::set<NodeIndex> done_;
    std::map<ValueId, ValueIndex> tensors_;
    std::map<std::pair<ValueId, RowKind>, ValueIndex> activations_;  // by the value, and what reads it
    std::map<ValueId, Product> partials_;                            // products whose splits the reader adds up
    std::map<ValueId, HeadsStage> heads_;                            // by the queries
    std::map<std::vector<ValueId>, WeightIndex> weights_;
    ValueIndex attention_scratch_ = kNone;
};

ValueIndex Lowering::tensor(ValueId id) {
    if (const auto found = tensors_.find(id); found != tensors_.end()) return found->second;
    const graph::TensorType type = program_.value(id).type;
    const auto row_bytes = type.size_bytes({.tokens = 1, .outputs = 1});
    const graph::Dim rows = type.shape[0];
    const bool fixed = rows.kind == graph::Dim::Kind::fixed;
    const ValueIndex index = add_value({.rows = rows, .cols = cols_of(id), .size_bytes = [=](uint32_t count) {
                                            return fixed ? row_bytes : row_bytes * count;
                                        }});
    if (program_.value(id).kind == graph::Value::Kind::input)
        staged_.inputs.push_back({program_.value(id).name, index});
    return tensors_[id] = index;
}

ValueIndex Lowering::new_activations(ValueId id, DType weight) {
    const uint32_t cols = cols_of(id);
    const Tuning* const tuning = &options_.tuning;
    const ValueIndex made =
        add_value({.rows = rows_of(id), .cols = cols, .size_bytes = [=](uint32_t rows) {
                       return activation_bytes(activation_format(*tuning, weight, rows, cols), rows, cols);
                   }});
    activations_[{id, row_kind(weight)}] = made;
    return made;
}

ValueIndex Lowering::activations(ValueId id, DType weight) {
    if (const auto found = activations_.find({id, row_kind(weight)}); found != activations_.end()) return found->second;
    const ValueIndex x = tensor(id);
    const ValueIndex y = new_activations(id, weight);
    const graph::Dim rows = rows_of(id);
    const uint32_t cols = cols_of(id);
    emit("activations", {x}, {y}, [=](Recorder& rec, const StageArgs& args) {
        const uint32_t count = row_count(rows, args.bucket);
        return record_norm_act(rec, args.capabilities,
                               {.x = args.value(x),
                                .rows = count,
                                .cols = cols,
                                .format = activation_format(args.tuning, weight, count, cols),
                                .y = args.value(y)});
    });
    return y;
}

WeightIndex Lowering::weight(const std::vector<ValueId>& ids) {
    if (const auto found = weights_.find(ids); found != weights_.end()) return found->second;
    const graph::TensorType& type = program_.value(ids.front()).type;
    StageWeight merged{.names = {}, .dtype = type.dtype, .rows = 0, .cols = cols_of(ids.front())};
    for (ValueId id : ids) {
        merged.names.push_back(program_.value(id).name);
        merged.rows += static_cast<uint32_t>(program_.value(id).type.rows({}));
    }
    staged_.weights.push_back(std::move(merged));
    return weights_[ids] = static_cast<WeightIndex>(staged_.weights.size()) - 1;
}

Product Lowering::new_product(const std::vector<NodeIndex>& linears) {
    std::vector<ValueId> matrices;
    std::vector<ValueId> biases;
    for (NodeIndex n : linears) {
        const Node& node = program_.nodes[n];
        matrices.push_back(node.inputs[0]);
        if (node.inputs.size() > 2) biases.push_back(node.inputs[2]);
        done_.insert(n);
    }
    Product product;
    product.weight = weight(matrices);
    product.matrix = staged_.weights[static_cast<size_t>(product.weight)];
    if (!biases.empty()) product.bias = weight(biases);
    product.x = activations(program_.nodes[linears.front()].inputs[1], product.matrix.dtype);
    return product;
}

void Lowering::product(NodeIndex n) {
    const Node& node = program_.nodes[n];
    Product product = new_product({n});
    const graph::Dim rows = rows_of(node.output);
    const auto reader = std::find_if(patterns_.residuals.begin(), patterns_.residuals.end(),
                                     [&](const Residual& residual) { return residual.linear == n; });
    if (reader != patterns_.residuals.end()) {
        product.partial = true;
        product.y = partial_result(product, rows);
        partials_[node.output] = product;
    } else {
        product.y = tensor(node.output);
    }
    emit_product(product, rows);
}

void Lowering::emit_product(const Product& product, graph::Dim rows) {
    std::vector<ValueIndex> writes = {product.y};
    if (product.glu) writes.push_back(product.scratch);
    emit(fmt::format("product {} {} x {}", name(product.matrix.dtype), product.matrix.rows, product.matrix.cols),
         {product.x}, std::move(writes), [=](Recorder& rec, const StageArgs& args) {
             return record_product(rec, product, row_count(rows, args.bucket), args);
         });
    staged_.stages.back().weight_bytes =
        row_bytes(product.matrix.dtype, int64_t{product.matrix.rows} * product.matrix.cols);
}

void Lowering::gated(const GatedProduct& match) {
    const ValueId out = program_.nodes[match.glu].output;
    Product product = new_product({match.gate, match.up});
    done_.insert(match.glu);
    staged_.weights[static_cast<size_t>(product.weight)].bounded =
        !options_.tuning.stream.empty() && product.bias == kNone;
    product.glu = program_.nodes[match.glu].op.as<op::Glu>()->activation;
    product.scratch = tensor(out);
    product.y = new_activations(out, product.matrix.dtype);
    const graph::Dim rows = rows_of(out);
    emit_product(product, rows);
}

void Lowering::experts(const ExpertBlock& match) {
    const Node& gate = program_.nodes[match.gate];
    const Node& up = program_.nodes[match.up];
    const Node& down = program_.nodes[match.down];
    const op::ExpertLinear& gate_op = *gate.op.as<op::ExpertLinear>();
    const op::ExpertLinear& down_op = *down.op.as<op::ExpertLinear>();
    const graph::TensorType& down_type = program_.value(down.inputs[0]).type;
    const ValueId out = program_.nodes[match.sum].output;
    const bool together = gate.inputs[0] == up.inputs[0];
    ExpertsStage stage{.count = static_cast<uint32_t>(down_type.shape[0].count),
                       .used = cols_of(down.inputs[2]) / 2,
                       .dim = cols_of(out),
                       .ffn_dim = static_cast<uint32_t>(gate_op.count),
                       .activation = program_.nodes[match.glu].op.as<op::Glu>()->activation,
                       .gate_dtype = program_.value(gate.inputs[0]).type.dtype,
                       .down_dtype = down_type.dtype,
                       .gate_up_together = together};
    stage.gate_up = together ? weight({gate.inputs[0]}) : weight({gate.inputs[0], up.inputs[0]});
    if (gate_op.biased) stage.gate_up_bias = weight({gate.inputs[gate_op.bias_at()], up.inputs[gate_op.bias_at()]});
    stage.down = weight({down.inputs[0]});
    if (down_op.biased) stage.down_bias = weight({down.inputs[down_op.bias_at()]});
    if (down_op.scaled) stage.down_scale = weight({down.inputs[down_op.kScale]});
    for (const NodeIndex n : {match.gate, match.up, match.glu, match.down}) done_.insert(n);

    const graph::Dim rows = rows_of(out);
    const Tuning* const tuning = &options_.tuning;
    const Capabilities* const device = &options_.capabilities;
    const auto scratch = [&](std::function<uint64_t(uint32_t)> bytes) {
        return add_value({.rows = rows, .cols = 0, .size_bytes = std::move(bytes)});
    };
    const ExpertsStage sizes = stage;
    stage.routing = tensor(down.inputs[2]);
    stage.sorted = scratch([=](uint32_t count) { return sizes.sorted_bytes(*tuning, *device, count); });
    stage.wide = scratch([=](uint32_t count) { return sizes.wide_bytes(count); });
    stage.made = scratch([=](uint32_t count) { return sizes.made_bytes(count); });
    stage.results = scratch([=](uint32_t count) { return sizes.results_bytes(count); });
    stage.y = tensor(out);
    const ValueIndex h = tensor(gate.inputs[1]);
    stage.x = scratch([=](uint32_t count) { return sizes.x_bytes(count); });
    const uint32_t dim = stage.dim;
    emit("activations", {h}, {stage.x}, [=](Recorder& rec, const StageArgs& args) {
        const uint32_t count = row_count(rows, args.bucket);
        return record_norm_act(
            rec, args.capabilities,
            {.x = args.value(h), .rows = count, .cols = dim, .format = stage.format(count), .y = args.value(stage.x)});
    });
    emit(fmt::format("experts {} x {} of {} {}", stage.used, stage.ffn_dim, stage.count, name(stage.gate_dtype)),
         {stage.x, stage.routing}, {stage.sorted, stage.wide, stage.made, stage.results, stage.y},
         [=](Recorder& rec, const StageArgs& args) { return stage.record(rec, row_count(rows, args.bucket), args); });
}

void Lowering::norm(NodeIndex n) {
    const Node& node = program_.nodes[n];
    const DType reader = weight_dtype(uses_.users(node.output).front());
    const ValueIndex x = tensor(node.inputs[0]);
    const ValueIndex y = new_activations(node.output, reader);
    const WeightIndex norm_weight = weight({node.inputs[1]});
    const float eps = node.op.as<op::RmsNorm>()->eps;
    const graph::Dim rows = rows_of(node.output);
    const uint32_t cols = cols_of(node.output);
    emit("norm", {x}, {y}, [=](Recorder& rec, const StageArgs& args) {
        const uint32_t count = row_count(rows, args.bucket);
        return record_norm_act(rec, args.capabilities,
                               {.x = args.value(x),
                                .rows = count,
                                .cols = cols,
                                .norm = norm_params(args, norm_weight, eps),
                                .format = activation_format(args.tuning, reader, count, cols),
                                .y = args.value(y)});
    });
}

void Lowering::residual(const Residual& match) {
    const Node& add = program_.nodes[match.add];
    const Product delta = partials_.at(program_.nodes[match.linear].output);
    const ValueIndex x = tensor(match.x);
    const ValueIndex sum = tensor(match.sum);
    if (match.scale) done_.insert(*match.scale);
    const float delta_scale = match.delta_scale;
    const float sum_scale = match.sum_scale;
    struct Norm {
        WeightIndex weight = kNone;
        float eps = 0;
    };
    const auto norm_of = [&](std::optional<NodeIndex> n) -> Norm {
        if (!n) return {};
        return {weight({program_.nodes[*n].inputs[1]}), program_.nodes[*n].op.as<op::RmsNorm>()->eps};
    };
    const Norm post = norm_of(match.post_norm);
    const Norm next = norm_of(match.norm);
    std::vector<ValueIndex> writes = {sum};
    ValueIndex y = kNone;
    DType reader = DType::f32;
    if (match.norm) {
        const ValueId normed = program_.nodes[*match.norm].output;
        reader = weight_dtype(uses_.users(normed).front());
        y = new_activations(normed, reader);
        writes.push_back(y);
        done_.insert(*match.norm);
    }
    const graph::Dim rows = rows_of(add.output);
    const uint32_t cols = cols_of(add.output);
    emit("residual", {x, delta.y}, std::move(writes), [=](Recorder& rec, const StageArgs& args) {
        const uint32_t count = row_count(rows, args.bucket);
        NormActCall call{.x = args.value(x), .rows = count, .cols = cols};
        call.delta = {.partials = args.value(delta.y),
                      .splits = product_splits(delta, args.tuning, count),
                      .norm = {},
                      .scale = delta_scale,
                      .sum_scale = sum_scale,
                      .sum = args.value(sum)};
        if (post.weight != kNone) call.delta->norm = norm_params(args, post.weight, post.eps);
        if (y != kNone) {
            call.norm = norm_params(args, next.weight, next.eps);
            call.format = activation_format(args.tuning, reader, count, cols);
            call.y = args.value(y);
        }
        return record_norm_act(rec, args.capabilities, call);
    });
}

ValueIndex Lowering::partial_result(const Product& product, graph::Dim rows) {
    const Tuning* const tuning = &options_.tuning;
    return add_value({.rows = rows, .cols = product.outputs(), .size_bytes = [product, tuning](uint32_t count) {
                          return partial_bytes(product, *tuning, count);
                      }});
}

Product Lowering::partial_product(const std::vector<NodeIndex>& linears, graph::Dim rows) {
    Product product = new_product(linears);
    product.partial = true;
    product.y = partial_result(product, rows);
    emit_product(product, rows);
    return product;
}

void Lowering::attention_inputs(const AttentionInputs& match) {
    const Node& attention = program_.nodes[match.attention];
    const op::Attention op = *attention.op.as<op::Attention>();
    const ValueId q = attention.inputs[0];
    const graph::Dim rows = rows_of(q);
    const auto take = [&](std::optional<NodeIndex> n) {
        if (n) done_.insert(*n);
    };
    for (const auto n : {match.q.norm, match.q.rope, match.q_scale}) take(n);
    std::vector<NodeIndex> together = {match.q.linear};
    std::optional<Product> v;
    if (match.written) {
        const AttentionInputs::Written& written = *match.written;
        for (const auto n : {written.k.norm, written.k.rope, written.v_norm, std::optional(written.write)}) take(n);
        together.push_back(written.k.linear);
        if (written.v_apart) {
            v = partial_product({written.v}, rows);
        } else if (written.v != written.k.linear) {
            together.push_back(written.v);
        }
    }
    const Product product = partial_product(together, rows);
    const uint32_t q_cols = cols_of(q);
    const ValueIndex queries = add_value(
        {.rows = rows, .cols = q_cols, .size_bytes = [=](uint32_t count) { return uint64_t{2} * count * q_cols; }});
    const auto norm_weight = [&](std::optional<NodeIndex> norm) {
        return norm ? weight({program_.nodes[*norm].inputs[1]}) : kNone;
    };
    const WeightIndex q_norm = norm_weight(match.q.norm);
    HeadsStage heads{.qkv = product,
                     .v = v,
                     .rows = rows,
                     .kv_sets = static_cast<uint32_t>(together.size()) - 1,
                     .q_norm = q_norm,
                     .k_norm = match.written ? norm_weight(match.written->k.norm) : q_norm,
                     .eps = match.q.norm ? program_.nodes[*match.q.norm].op.as<op::RmsNorm>()->eps : 0.0F,
                     .norms_v = match.written && match.written->v_norm,
                     .q_scale = {},
                     .rope = {},
                     .heads = static_cast<uint32_t>(op.heads),
                     .layer = op.cache,
                     .q = queries};
    if (match.q_scale) heads.q_scale = *program_.nodes[*match.q_scale].op.as<op::ScaleByPosition>();
    if (match.q.rope) heads.rope = *program_.nodes[*match.q.rope].op.as<op::Rope>();
    heads_.emplace(q, heads);
    emit("heads", heads.reads(), {queries}, [=](Recorder& rec, const StageArgs& args) -> Status {
        return record_heads(rec, args.capabilities, TRY(heads.call(args)));
    });
    const Tuning* const tuning = &options_.tuning;
    const Capabilities* const device = &options_.capabilities;
    staged_.stages.back().needless = [=](const Bucket& bucket) {
        return made_by_attention(bucket, *tuning, *device, op);
    };
}

// One for all layers, which run one after another.
ValueIndex Lowering::new_attention_scratch(graph::Dim rows) {
    std::vector<op::Attention> ops;
    for (const AttentionInputs& match : patterns_.attention) {
        ops.push_back(*program_.nodes[match.attention].op.as<op::Attention>());
    }
    const AttentionTuning tuning = options_.tuning.attention;
    return add_value({.rows = rows,
                      .cols = 0,
                      .size_bytes =
                          [=](uint32_t count) {
                              uint64_t most = 0;
                              for (const op::Attention& op : ops) {
                                  most = std::max(most, attention_scratch_bytes(tuning, op, count));
                              }
                              return most;
                          },
                      .zeroed = true});
}

void Lowering::attention(NodeIndex n) {
    const Node& node = program_.nodes[n];
    const op::Attention op = *node.op.as<op::Attention>();
    const HeadsStage heads = heads_.at(node.inputs[0]);
    const DType reader = weight_dtype(uses_.users(node.output).front());
    const ValueIndex y = new_activations(node.output, reader);
    const graph::Dim rows = rows_of(node.output);
    const uint32_t cols = cols_of(node.output);
    if (attention_scratch_ == kNone) attention_scratch_ = new_attention_scratch(rows);
    const ValueIndex scratch = attention_scratch_;
    const WeightIndex sinks = node.inputs.size() > 2 ? weight({node.inputs[2]}) : kNone;
    std::vector<ValueIndex> reads = heads.reads();
    reads.push_back(heads.q);
    emit("attention", std::move(reads), {y, scratch}, [=](Recorder& rec, const StageArgs& args) -> Status {
        const uint32_t count = row_count(rows, args.bucket);
        AttentionCall call{.q = args.value(heads.q).begin,
                           .rows = count,
                           .op = op,
                           .cache = *args.cache,
                           .step = args.step,
                           .scratch = args.value(scratch).begin,
                           .y = args.value(y).begin,
                           .format = activation_format(args.tuning, reader, count, cols),
                           .sinks = sinks == kNone ? 0 : args.weight(sinks).planes[Planes::quants],
                           .one_row_each = args.bucket.one_row_each};
        if (!made_by_attention(args.bucket, args.tuning, args.capabilities, op))
            return record_attention(rec, args.tuning.attention, args.capabilities, call);
        const HeadsCall made = TRY(heads.call(args));
        const kernels::HeadsBlock block = heads_block(made);
        call.heads = &made;
        call.heads_block = TRY(args.constant(std::as_bytes(std::span(&block, 1))));
        return record_attention(rec, args.tuning.attention, args.capabilities, call);
    });
}

Status Lowering::single(const Node& node) {
    if (find_entry(node.op) == nullptr) return fail("op {} has no Vulkan kernel", node.op.name());
    SingleOp stage{.op = node.op, .inputs = {}, .type = program_.value(node.output).type, .y = tensor(node.output)};
    std::vector<ValueIndex> reads;
    for (ValueId id : node.inputs) {
        SingleOp::Input input{.value = program_.value(id)};
        if (input.value.kind == graph::Value::Kind::weight) {
            input.weight = weight({id});
        } else if (!is_step_input(input.value)) {
            reads.push_back(input.made = tensor(id));
        }
        stage.inputs.push_back(std::move(input));
    }
    emit(std::string(node.op.name()), std::move(reads), {stage.y},
         [=](Recorder& rec, const StageArgs& args) -> Status { return stage.record(rec, args); });
    return Ok{};
}

Status Lowering::lower_node(NodeIndex n) {
    if (done_.contains(n)) return Ok{};
    const Node& node = program_.nodes[n];
    const auto begins = [n](const auto& list, auto... members) {
        return std::find_if(list.begin(), list.end(),
                            [&](const auto& match) { return ((match.*members == n) || ...); });
    };
    if (auto found = begins(patterns_.residuals, &Residual::add); found != patterns_.residuals.end()) {
        residual(*found);
    } else if (auto inner = std::find_if(
                   patterns_.residuals.begin(), patterns_.residuals.end(),
                   [n](const Residual& match) { return std::ranges::find(match.inner, n) != match.inner.end(); });
               inner != patterns_.residuals.end()) {
        return Ok{};  // the Residual does it
    } else if (std::find(patterns_.norms.begin(), patterns_.norms.end(), n) != patterns_.norms.end()) {
        norm(n);
    } else if (auto inputs = std::ranges::find_if(patterns_.attention,
                                                  [n](const AttentionInputs& match) { return match.begins_at(n); });
               inputs != patterns_.attention.end()) {
        attention_inputs(*inputs);
    } else if (begins(patterns_.attention, &AttentionInputs::attention) != patterns_.attention.end()) {
        attention(n);
    } else if (begins(patterns_.experts, &ExpertBlock::gate, &ExpertBlock::up, &ExpertBlock::glu, &ExpertBlock::down) !=
               patterns_.experts.end()) {
        return Ok{};  // done with the sum
    } else if (auto block = begins(patterns_.experts, &ExpertBlock::sum); block != patterns_.experts.end()) {
        experts(*block);
    } else if (auto glu = begins(patterns_.gated, &GatedProduct::gate, &GatedProduct::up);
               glu != patterns_.gated.end()) {
        gated(*glu);
    } else if (!options_.exact && is_product(program_, node)) {
        product(n);
    } else {
        return single(node);
    }
    return Ok{};
}

Result<StagedProgram> Lowering::run() {
    for (NodeIndex n = 0; n < program_.nodes.size(); ++n) TRY(lower_node(n));
    for (const graph::NamedResult& result : program_.results) staged_.results.push_back(tensor(result.value));
    return std::move(staged_);
}

}  // namespace

Result<StagedProgram> lower(const graph::Program& program, const LoweringOptions& options) {
    return Lowering(program, options).run();
}

}  // namespace tandem::vulkan
