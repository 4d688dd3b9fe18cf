#include "npu/designs/attention.h"

#include <algorithm>
#include <bit>

#include "npu/array.h"
#include "npu/designs/use_kernel.h"
#include "npu/kernels.h"
#include "npu/tile_use.h"

namespace tandem::npu {
namespace {

constexpr int64_t kAttentionStackBytes = 2048;
constexpr int64_t kMaxTokens = 8192;
constexpr int64_t kMaxKeys = int64_t{1} << 20;
constexpr int64_t kSegmentsInFlight = 4;  // of the shim's 16 descriptors each takes two, and the queries one

constexpr ObjectType kTileCount{Element::i32, 16};

// With what the linker needs.
int64_t memory_bytes(int64_t queries, int64_t keys, int64_t head_dim) {
    return 2 * attention_kv_bytes(keys, head_dim) + attention_q_bytes(queries, head_dim) + 4 * queries * head_dim +
           4 * attention_state_floats(queries, keys) + kTileCount.size_bytes() + kAttentionStackBytes + kLinkerBytes +
           kBufferAlignment;
}

// Tiles that fit into a core's memory, keys twice: rather more keys than more queries, since the sums of all queries
// are brought up to date once for each tile of keys.
Status choose_tiles(const Array& array, AttentionLayout& layout) {
    for (const int64_t keys : {64, 32, 16}) {
        for (const int64_t queries : {32, 16, 8}) {
            if (layout.tile_queries > 0 || queries % layout.group != 0 ||
                memory_bytes(queries, keys, layout.head_dim) > array.compute.memory_bytes)
                continue;
            layout.tile_queries = queries;
            layout.tile_keys = keys;
        }
    }
    if (layout.tile_queries == 0)
        return fail("attention with heads of {} in groups of {} does not fit into the {} bytes of a core",
                    layout.head_dim, layout.group, array.compute.memory_bytes);
    return Ok{};
}

Status check_shape(const AttentionShape& shape) {
    if (shape.tokens < 1 || shape.tokens > kMaxTokens || shape.keys < 1 || shape.keys > kMaxKeys)
        return fail("attention of {} tokens over {} keys is not one for the NPU: 1 to {} and 1 to {}", shape.tokens,
                    shape.keys, kMaxTokens, kMaxKeys);
    if (shape.kv_heads < 1 || shape.heads < shape.kv_heads || shape.heads % shape.kv_heads != 0 ||
        shape.heads > 32 * shape.kv_heads)
        return fail("attention with {} heads over {} heads of keys is not one for the NPU: 1 to 32 for each",
                    shape.heads, shape.kv_heads);
    if (shape.head_dim < 32 || shape.head_dim % 32 != 0)
        return fail("attention with heads of {} is not one for the NPU: a multiple of 32 is needed", shape.head_dim);
    return Ok{};
}

// Consecutive units of a column with the same keys.
struct Segment {
    int64_t kv_head = 0;
    int64_t first_step = 0;
    int64_t steps = 0;
};

std::vector<Segment> segments_of(const AttentionLayout& layout, int column, int64_t most_steps) {
    std::vector<Segment> segments;
    const int64_t per_column = layout.units() / layout.columns;
    const int64_t end = (column + 1) * per_column;
    for (int64_t unit = column * per_column; unit < end;) {
        const int64_t first_step = unit % layout.steps;
        const int64_t steps = std::min({layout.steps - first_step, end - unit, most_steps});
        segments.push_back({unit / layout.steps, first_step, steps});
        unit += steps;
    }
    return segments;
}

std::string of_column(std::string_view name, int column) {
    return fmt::format("{}{}", name, column);
}

std::string of_core(std::string_view name, int column, int row) {
    return fmt::format("{}{}_{}", name, column, row);
}

void add_fifos(const AttentionLayout& layout, int column, Design& design) {
    const Tile shim{column, 0};
    const Tile mem{column, 1};
    const ObjectType q{Element::i8, layout.q_object_bytes()};
    const ObjectType kv{Element::i8, layout.kv_object_bytes()};
    const int64_t block = layout.tile_queries * layout.head_dim;
    std::vector<Tile> cores;
    Link queries{.from = {of_column("q", column)}, .to = {}};
    Link results{.from = {}, .to = {of_column("y", column)}};
    design.fifos.push_back({.name = of_column("q", column),
                            .producer = shim,
                            .consumers = {mem},
                            .object = {Element::i8, layout.rows * q.count}});
    for (int r = 0; r < layout.rows; ++r) {
        const Tile core{column, kFirstAttentionRow + r};
        cores.push_back(core);
        design.fifos.push_back(
            {.name = of_core("q", column, r), .producer = mem, .consumers = {core}, .object = q, .depth = 1});
        design.fifos.push_back({.name = of_core("y", column, r),
                                .producer = core,
                                .consumers = {mem},
                                .object = {Element::f32, block},
                                .depth = 1});
        queries.to.push_back(of_core("q", column, r));
        queries.offsets.push_back(r * q.count);
        results.from.push_back(of_core("y", column, r));
        results.offsets.push_back(r * block);
    }
    design.fifos.push_back({.name = of_column("kv_in", column), .producer = shim, .consumers = {mem}, .object = kv});
    design.fifos.push_back({.name = of_column("kv", column), .producer = mem, .consumers = cores, .object = kv});
    design.fifos.push_back(
        {.name = of_column("y", column),
         .producer = mem,
         .consumers = {shim},
         .object = {Element::f32, layout.rows * block},
         .to_stream = {{layout.tile_queries / 4, 4 * layout.head_dim}, {4, 8}, {layout.head_dim / 8, 32}, {8, 1}}});
    design.links.push_back(std::move(queries));
    design.links.push_back({.from = {of_column("kv_in", column)}, .to = {of_column("kv", column)}});
    design.links.push_back(std::move(results));
}

Worker attention_worker(const AttentionLayout& layout, int column, int row) {
    const auto queries = static_cast<int32_t>(layout.tile_queries);
    const auto keys = static_cast<int32_t>(layout.tile_keys);
    const auto head_dim = static_cast<int32_t>(layout.head_dim);
    const std::string q = of_core("q", column, row);
    const std::string kv = of_column("kv", column);
    const std::string y = of_core("y", column, row);
    const BufferArgument state{"state"};
    const BufferArgument count{"count"};
    const Loop tiles{
        .count = layout.key_tiles,
        .body = {Acquire{kv},
                 Call{"attention_i8_tile",
                      {ObjectArgument{q}, ObjectArgument{kv}, ObjectArgument{y}, state, queries, keys, head_dim}},
                 Release{kv}},
        .counter = "count"};
    return {
        .tile = {column, kFirstAttentionRow + row},
        .buffers = {{"state", {Element::f32, attention_state_floats(queries, keys)}}, {"count", kTileCount}},
        .body = {Acquire{q}, Acquire{y},
                 Call{"attention_begin", {ObjectArgument{q}, ObjectArgument{y}, state, count, queries, head_dim}},
                 tiles, Call{"attention_end", {ObjectArgument{y}, state, queries, head_dim}}, Release{y}, Release{q}},
        .stack_bytes = kAttentionStackBytes};
}

class AttentionSequence {
  public:
    AttentionSequence(const AttentionLayout& layout, const Array& array, std::vector<Transfer>& transfers)
        : layout_(layout), transfers_(transfers) {
        for (int c = 0; c < layout.columns; ++c) segments_.push_back(segments_of(layout, c, array.shim.max_repeat));
    }

    void add() {
        const int64_t queries = layout_.q_bytes() / layout_.columns;
        for (int c = 0; c < layout_.columns; ++c)
            transfers_.push_back(
                {.fifo = of_column("q", c), .argument = 0, .offset = c * queries, .access = {{queries, 1}}});
        size_t most = 0;
        for (const auto& column : segments_) most = std::max(most, column.size());
        add_keys(0);
        for (size_t i = 0; i < most; ++i) {
            if (i + 1 < most) add_keys(i + 1);
            add_results(i);
            if (i + 1 == most || i % kSegmentsInFlight == kSegmentsInFlight - 1) transfers_.back().wait = true;
        }
    }

  private:
    // The keys of a head again for each step.
    void add_keys(size_t i) {
        const int64_t object = layout_.kv_object_bytes();
        for (int c = 0; c < layout_.columns; ++c) {
            if (i >= segments_[static_cast<size_t>(c)].size()) continue;
            const Segment& segment = segments_[static_cast<size_t>(c)][i];
            transfers_.push_back({.fifo = of_column("kv_in", c),
                                  .argument = 1,
                                  .offset = segment.kv_head * layout_.key_tiles * object,
                                  .access = {{segment.steps, 0}, {layout_.key_tiles * object, 1}}});
        }
    }

    void add_results(size_t i) {
        const int64_t heads = layout_.kv_heads * layout_.group;
        for (int c = 0; c < layout_.columns; ++c) {
            if (i >= segments_[static_cast<size_t>(c)].size()) continue;
            const Segment& segment = segments_[static_cast<size_t>(c)][i];
            const int64_t first_token = segment.first_step * layout_.tokens_per_step();
            transfers_.push_back({.fifo = of_column("y", c),
                                  .argument = 2,
                                  .offset = (first_token * heads + segment.kv_head * layout_.group) * layout_.head_dim,
                                  .access = {{segment.steps, layout_.tokens_per_step() * heads * layout_.head_dim},
                                             {layout_.tokens_per_step(), heads * layout_.head_dim},
                                             {layout_.group, layout_.head_dim},
                                             {layout_.head_dim, 1}}});
        }
    }

    const AttentionLayout& layout_;
    std::vector<Transfer>& transfers_;
    std::vector<std::vector<Segment>> segments_;
};

}  // namespace

int64_t AttentionLayout::q_object_bytes() const {
    return attention_q_bytes(tile_queries, head_dim);
}

int64_t AttentionLayout::kv_object_bytes() const {
    return attention_kv_bytes(tile_keys, head_dim);
}

Result<AttentionLayout> attention_layout(const AttentionShape& shape) {
    const Array* const array = TRY(array_named(shape.array));
    TRY(check_shape(shape));
    AttentionLayout layout;
    layout.array = shape.array;
    layout.rows = array->rows - kFirstAttentionRow;
    layout.columns = array->columns;
    layout.kv_heads = shape.kv_heads;
    layout.heads = shape.heads;
    layout.group = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(shape.heads / shape.kv_heads)));
    layout.head_dim = shape.head_dim;
    TRY(choose_tiles(*array, layout));
    layout.key_tiles = (shape.keys + layout.tile_keys - 1) / layout.tile_keys;
    layout.steps = (shape.tokens + layout.tokens_per_step() - 1) / layout.tokens_per_step();
    while (layout.units() % layout.columns != 0) ++layout.steps;
    layout.tokens = layout.steps * layout.tokens_per_step();
    return layout;
}

Result<Design> attention_i8(const AttentionLayout& layout) {
    const Array* const array = TRY(array_named(layout.array));
    const ObjectType q{Element::i8, layout.q_object_bytes()};
    const ObjectType kv{Element::i8, layout.kv_object_bytes()};
    const ObjectType out{Element::f32, layout.tile_queries * layout.head_dim};
    const ObjectType state{Element::f32, attention_state_floats(layout.tile_queries, layout.tile_keys)};
    Design design;
    design.name = fmt::format("attention_i8_{}_{}x{}", layout.head_dim, layout.tile_queries, layout.tile_keys);
    design.shape =
        fmt::format("{}x{}x{}_{}", layout.tokens, layout.kv_heads, layout.group, layout.key_tiles * layout.tile_keys);
    design.array = layout.array;
    design.kernels = {use_kernel("attention_begin", {q, out, state, kTileCount}),
                      use_kernel("attention_i8_tile", {q, kv, out, state}), use_kernel("attention_end", {out, state})};
    for (int c = 0; c < layout.columns; ++c) {
        add_fifos(layout, c, design);
        for (int r = 0; r < layout.rows; ++r) design.workers.push_back(attention_worker(layout, c, r));
    }
    design.sequence.arguments = {{"q", {Element::i8, layout.q_bytes()}},
                                 {"kv", {Element::i8, layout.kv_bytes()}},
                                 {"y", {Element::f32, layout.y_bytes() / 4}}};
    AttentionSequence(layout, *array, design.sequence.transfers).add();
    return design;
}

}  // namespace tandem::npu
