#include "npu/designs/gemm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "npu/array.h"
#include "npu/designs/use_kernel.h"

namespace tandem::npu {
namespace {

constexpr int kFirstRow = 2;        // of compute tiles
constexpr int64_t kMaxTileK = 120;  // with 64 x 64 results and double buffers the last that fits into 64 KB
constexpr int64_t kMaxExtent = int64_t{1} << 20;
constexpr int64_t kStackBytes = 1024;

int64_t round_up_to(int64_t value, int64_t step) {
    return (value + step - 1) / step * step;
}

// Of sizes that suit, the one that costs least: `overhead` is what a call costs apart from its products, in steps of
// the same dimension.
template <typename Sizes>
int64_t cheapest(const Sizes& sizes, int64_t extent, int64_t parts, int64_t overhead) {
    int64_t best = 0;
    double best_cost = std::numeric_limits<double>::max();
    for (const int64_t size : sizes) {
        const auto cost = static_cast<double>(round_up_to(extent, size * parts)) *
                          (1.0 + static_cast<double>(overhead) / static_cast<double>(size));
        if (cost >= best_cost) continue;
        best = size;
        best_cost = cost;
    }
    return best;
}

int64_t choose_tile_k(int64_t k) {
    std::array<int64_t, kMaxTileK / 8> sizes{};
    for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = kMaxTileK - static_cast<int64_t>(i) * 8;
    return cheapest(sizes, k, 1, 48);
}

ObjectType bytes(int64_t count) {
    return {Element::i8, count};
}

std::string numbered(std::string_view name, int64_t number) {
    return fmt::format("{}{}", name, number);
}

// The FIFOs of x: row r of the array shares what comes through mem tile r.
void add_x(const GemmLayout& layout, Design& design) {
    for (int r = 0; r < layout.rows; ++r) {
        std::vector<Tile> cores;
        cores.reserve(static_cast<size_t>(layout.columns));
        for (int c = 0; c < layout.columns; ++c) cores.push_back({c, kFirstRow + r});
        const ObjectType object = bytes(layout.tile_m * layout.tile_k);
        const Tile mem{r, 1};
        design.fifos.push_back({.name = numbered("x_in", r), .producer = {r, 0}, .consumers = {mem}, .object = object});
        design.fifos.push_back({.name = numbered("x", r), .producer = mem, .consumers = cores, .object = object});
        design.links.push_back({.from = {numbered("x_in", r)}, .to = {numbered("x", r)}});
    }
}

// The FIFOs of w: column c shares what comes through mem tile c.
void add_w(const GemmLayout& layout, Design& design) {
    for (int c = 0; c < layout.columns; ++c) {
        std::vector<Tile> cores;
        cores.reserve(static_cast<size_t>(layout.rows));
        for (int r = 0; r < layout.rows; ++r) cores.push_back({c, kFirstRow + r});
        const ObjectType object = bytes(layout.tile_n * layout.tile_k);
        const Tile mem{c, 1};
        design.fifos.push_back({.name = numbered("w_in", c), .producer = {c, 0}, .consumers = {mem}, .object = object});
        design.fifos.push_back({.name = numbered("w", c), .producer = mem, .consumers = cores, .object = object});
        design.links.push_back({.from = {numbered("w_in", c)}, .to = {numbered("w", c)}});
    }
}

Element y_element(const GemmLayout& layout) {
    return layout.scaled ? Element::f32 : Element::i32;
}

std::string y_name(int column, int row) {
    return fmt::format("y{}_{}", column, row);
}

// The FIFOs of y: mem tile c joins the blocks of its column and turns their 4 x 8 tiles into rows.
void add_y(const GemmLayout& layout, Design& design) {
    const int64_t block = layout.tile_m * layout.tile_n;
    for (int c = 0; c < layout.columns; ++c) {
        const Tile mem{c, 1};
        Link join{.from = {}, .to = {numbered("y_out", c)}};
        for (int r = 0; r < layout.rows; ++r) {
            design.fifos.push_back({.name = y_name(c, r),
                                    .producer = {c, kFirstRow + r},
                                    .consumers = {mem},
                                    .object = {y_element(layout), block},
                                    .depth = layout.scaled ? 1 : 2});
            join.from.push_back(y_name(c, r));
            join.offsets.push_back(r * block);
        }
        design.fifos.push_back(
            {.name = numbered("y_out", c),
             .producer = mem,
             .consumers = {{c, 0}},
             .object = {y_element(layout), layout.rows * block},
             .to_stream = {
                 {layout.rows * layout.tile_m / 4, 4 * layout.tile_n}, {4, 8}, {layout.tile_n / 8, 32}, {8, 1}}});
        design.links.push_back(std::move(join));
    }
}

std::string scale_kernel(const GemmLayout& layout) {
    return layout.bias ? "scale_bias_i32_f32" : "scale_i32_f32";
}

std::vector<KernelUse> kernels_of(const GemmLayout& layout) {
    const ObjectType x = bytes(layout.tile_m * layout.tile_k);
    const ObjectType w = bytes(layout.tile_n * layout.tile_k);
    const ObjectType sums{Element::i32, layout.tile_m * layout.tile_n};
    const ObjectType y{Element::f32, layout.tile_m * layout.tile_n};
    std::vector<KernelUse> uses{use_kernel("zero_i32", {sums}), use_kernel("matmul_i8", {x, w, sums})};
    // The last objects of x and w before each result are its scales.
    if (layout.scaled) uses.push_back(use_kernel(scale_kernel(layout), {sums, x, w, y}));
    return uses;
}

Worker worker_of(const GemmLayout& layout, int column, int row) {
    const auto tile_m = static_cast<int32_t>(layout.tile_m);
    const auto tile_k = static_cast<int32_t>(layout.tile_k);
    const auto tile_n = static_cast<int32_t>(layout.tile_n);
    const std::string x = numbered("x", row);
    const std::string w = numbered("w", column);
    const std::string y = y_name(column, row);
    const auto products = [&](auto sums) {
        return Loop{.count = layout.blocks_k(),
                    .body = {Acquire{x}, Acquire{w},
                             Call{"matmul_i8", {ObjectArgument{x}, ObjectArgument{w}, sums, tile_m, tile_k, tile_n}},
                             Release{x}, Release{w}}};
    };
    Worker worker{.tile = {column, kFirstRow + row}, .body = {}, .stack_bytes = kStackBytes};
    Loop results{.count = layout.blocks_m() / layout.rows * (layout.blocks_n() / layout.columns), .body = {}};
    if (layout.scaled) {
        const BufferArgument sums{"sums"};
        worker.buffers = {{"sums", {Element::i32, layout.tile_m * layout.tile_n}}};
        results.body = {
            Call{"zero_i32", {sums, tile_m * tile_n}},
            products(sums),
            Acquire{x},
            Acquire{w},
            Acquire{y},
            Call{scale_kernel(layout), {sums, ObjectArgument{x}, ObjectArgument{w}, ObjectArgument{y}, tile_m, tile_n}},
            Release{y},
            Release{x},
            Release{w}};
    } else {
        const ObjectArgument sums{y};
        results.body = {Acquire{y}, Call{"zero_i32", {sums, tile_m * tile_n}}, products(sums), Release{y}};
    }
    worker.body = {results};
    return worker;
}

// The transfers of one row of blocks after another: x again for each column of blocks, all of w, and y.
class GemmSequence {
  public:
    GemmSequence(const GemmLayout& layout, const Array& array, std::vector<Transfer>& transfers)
        : layout_(layout), array_(array), transfers_(transfers) {}

    void add() {
        const int64_t steps = layout_.blocks_m() / layout_.rows;
        add_inputs(0);
        for (int64_t step = 0; step < steps; ++step) {
            // The next inputs are under way before the last results are, or the array would run dry in between.
            if (step + 1 < steps) add_inputs(step + 1);
            add_results(step);
        }
    }

  private:
    void add_inputs(int64_t step) {
        const int64_t block = layout_.objects() * layout_.tile_m * layout_.tile_k;
        const int64_t columns = layout_.blocks_n() / layout_.columns;
        for (int64_t done = 0; done < columns; done += array_.shim.max_repeat) {
            for (int r = 0; r < layout_.rows; ++r)
                transfers_.push_back({.fifo = numbered("x_in", r),
                                      .argument = 0,
                                      .offset = (step * layout_.rows + r) * block,
                                      .access = {{std::min(array_.shim.max_repeat, columns - done), 0}, {block, 1}}});
        }
        const int64_t w_stream = layout_.w_bytes() / layout_.columns;
        for (int c = 0; c < layout_.columns; ++c)
            transfers_.push_back(
                {.fifo = numbered("w_in", c), .argument = 1, .offset = c * w_stream, .access = {{w_stream, 1}}});
    }

    void add_results(int64_t step) {
        const int64_t rows = layout_.rows * layout_.tile_m;
        const int64_t columns = layout_.blocks_n() / layout_.columns;
        for (int c = 0; c < layout_.columns; ++c)
            transfers_.push_back(
                {.fifo = numbered("y_out", c),
                 .argument = 2,
                 .offset = step * rows * layout_.n + c * layout_.tile_n,
                 .access = {{columns, layout_.columns * layout_.tile_n}, {rows, layout_.n}, {layout_.tile_n, 1}},
                 .wait = c + 1 == layout_.columns});
    }

    const GemmLayout& layout_;
    const Array& array_;
    std::vector<Transfer>& transfers_;
};

}  // namespace

Result<GemmLayout> gemm_layout(const GemmShape& shape) {
    const Array* array = find_array(shape.array);
    if (array == nullptr) return fail("there is no array '{}': npu1 and npu2 are known", shape.array);
    for (const int64_t extent : {shape.m, shape.k, shape.n}) {
        if (extent < 1 || extent > kMaxExtent)
            return fail("a product of {} x {} x {} is not one for the NPU: each is 1 to {}", shape.m, shape.k, shape.n,
                        kMaxExtent);
    }
    GemmLayout layout;
    layout.array = shape.array;
    layout.scaled = shape.scaled;
    layout.bias = shape.bias && shape.scaled;
    layout.columns = array->columns;
    layout.rows = array->rows - kFirstRow;
    layout.tile_m = cheapest(std::array<int64_t, 4>{64, 32, 16, 8}, shape.m, layout.rows, 16);
    layout.tile_k = choose_tile_k(shape.k);
    layout.tile_n = cheapest(std::array<int64_t, 3>{64, 32, 16}, shape.n, layout.columns, 16);
    layout.m = round_up_to(shape.m, layout.rows * layout.tile_m);
    layout.k = round_up_to(shape.k, layout.tile_k);
    layout.n = round_up_to(shape.n, layout.columns * layout.tile_n);
    return layout;
}

Result<Design> gemm_i8(const GemmLayout& layout) {
    const Array* array = find_array(layout.array);
    if (array == nullptr) return fail("there is no array '{}': npu1 and npu2 are known", layout.array);
    Design design;
    design.name = fmt::format("{}_{}x{}x{}", layout.bias ? "gemm_bias_i8" : "gemm_i8", layout.m, layout.k, layout.n);
    design.array = layout.array;
    add_x(layout, design);
    add_w(layout, design);
    add_y(layout, design);
    design.kernels = kernels_of(layout);
    design.workers.reserve(static_cast<size_t>(layout.rows) * static_cast<size_t>(layout.columns));
    for (int c = 0; c < layout.columns; ++c) {
        for (int r = 0; r < layout.rows; ++r) design.workers.push_back(worker_of(layout, c, r));
    }
    design.sequence.arguments = {{"x", bytes(layout.x_bytes())},
                                 {"w", bytes(layout.w_bytes())},
                                 {"y", {y_element(layout), layout.m * layout.n}}};
    GemmSequence(layout, *array, design.sequence.transfers).add();
    return design;
}

}  // namespace tandem::npu
