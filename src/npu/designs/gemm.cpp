#include "npu/designs/gemm.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "npu/array.h"
#include "npu/designs/use_kernel.h"

namespace tandem::npu {
namespace {

constexpr int kFirstRow = 2;  // of compute tiles
constexpr int64_t kMaxExtent = int64_t{1} << 20;
constexpr int64_t kGemmStackBytes = 2048;
constexpr ObjectType kXObject{Element::i8, int64_t{kGemmRows} * kGemmInner};
constexpr ObjectType kWObject{Element::i8, int64_t{kGemmColumns} * kGemmInner};
constexpr ObjectType kYObject{Element::i32, int64_t{kGemmRows} * kGemmColumns};  // at last the bits of floats
constexpr ObjectType kBlock{Element::i32, sizeof(GemmBlock) / sizeof(int32_t)};

int64_t round_up_to(int64_t value, int64_t step) {
    return (value + step - 1) / step * step;
}

std::string numbered(std::string_view name, int64_t number) {
    return fmt::format("{}{}", name, number);
}

std::string y_name(int column, int row) {
    return fmt::format("y{}_{}", column, row);
}

std::string kernel_name(const GemmLayout& layout, std::string_view what) {
    return fmt::format("gemm_{}_{}x8x8", what, layout.tile_rows);
}

// What comes through mem tile `column` and goes to all of `cores`.
void add_shared(std::string_view name, int column, const std::vector<Tile>& cores, const ObjectType& object,
                Design& design) {
    const std::string in = fmt::format("{}_in{}", name, column);
    const std::string out = numbered(name, column);
    const Tile mem{column, 1};
    design.fifos.push_back({.name = in, .producer = {column, 0}, .consumers = {mem}, .object = object});
    design.fifos.push_back({.name = out, .producer = mem, .consumers = cores, .object = object});
    design.links.push_back({.from = {in}, .to = {out}});
}

// Row r of the array shares x, which comes through mem tile r; column c shares w.
void add_inputs(const GemmLayout& layout, Design& design) {
    for (int r = 0; r < layout.rows; ++r) {
        std::vector<Tile> cores;
        for (int c = 0; c < layout.columns; ++c) cores.push_back({c, kFirstRow + r});
        add_shared("x", r, cores, kXObject, design);
    }
    for (int c = 0; c < layout.columns; ++c) {
        std::vector<Tile> cores;
        for (int r = 0; r < layout.rows; ++r) cores.push_back({c, kFirstRow + r});
        add_shared("w", c, cores, kWObject, design);
    }
}

// Mem tile c joins the blocks of its column and turns the tiles of each into rows.
void add_results(const GemmLayout& layout, Design& design) {
    const int64_t tile = int64_t{8} * layout.tile_rows;
    const Access rows_of_part{{kGemmRows / layout.tile_rows, layout.tile_rows * kGemmColumns},
                              {layout.tile_rows, 8},
                              {kGemmColumns / 8, tile},
                              {8, 1}};
    for (int c = 0; c < layout.columns; ++c) {
        const Tile mem{c, 1};
        Link join{.from = {}, .to = {numbered("y_out", c)}};
        for (int r = 0; r < layout.rows; ++r) {
            design.fifos.push_back(
                {.name = y_name(c, r), .producer = {c, kFirstRow + r}, .consumers = {mem}, .object = kYObject});
            join.from.push_back(y_name(c, r));
            join.offsets.push_back(r * kYObject.count);
        }
        design.fifos.push_back({.name = numbered("y_out", c),
                                .producer = mem,
                                .consumers = {{c, 0}},
                                .object = {kYObject.element, layout.rows * kYObject.count},
                                .to_stream = rows_of_part});
        design.links.push_back(std::move(join));
    }
}

// One block after another, as long as they come: how many objects of k there are is in the first.
Worker worker_of(const GemmLayout& layout, int column, int row) {
    const std::string x = numbered("x", row);
    const std::string w = numbered("w", column);
    const std::string y = y_name(column, row);
    const BufferArgument block{"block"};
    const Loop products{
        .count = layout.blocks_k(),
        .body = {Acquire{x}, Acquire{w},
                 Call{kernel_name(layout, "add"), {ObjectArgument{x}, ObjectArgument{w}, ObjectArgument{y}, block}},
                 Release{x}, Release{w}},
        .counter = "block"};
    return {.tile = {column, kFirstRow + row},
            .buffers = {{"block", kBlock}},
            .body = {Acquire{x}, Acquire{w}, Acquire{y},
                     Call{"gemm_begin", {ObjectArgument{x}, ObjectArgument{w}, ObjectArgument{y}, block}}, Release{x},
                     Release{w}, products, Call{kernel_name(layout, "end"), {ObjectArgument{y}, block}}, Release{y}},
            .stack_bytes = kGemmStackBytes};
}

// The transfers of one row of blocks after another: x again for each column of blocks, all of w, and y.
class GemmSequence {
  public:
    GemmSequence(const GemmLayout& layout, const Array& array, std::vector<Transfer>& transfers)
        : layout_(layout), array_(array), transfers_(transfers) {}

    void add() {
        const int64_t steps = layout_.blocks_m() / layout_.rows;
        add_blocks(0);
        for (int64_t step = 0; step < steps; ++step) {
            // The next inputs are under way before the last results are, or the array would run dry in between.
            if (step + 1 < steps) add_blocks(step + 1);
            add_rows(step);
        }
    }

  private:
    void add_blocks(int64_t step) {
        const int64_t block = layout_.objects() * kXObject.count;
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

    void add_rows(int64_t step) {
        const int64_t rows = layout_.rows * kGemmRows;
        const int64_t columns = layout_.blocks_n() / layout_.columns;
        for (int c = 0; c < layout_.columns; ++c)
            transfers_.push_back(
                {.fifo = numbered("y_out", c),
                 .argument = 2,
                 .offset = step * rows * layout_.n + c * kGemmColumns,
                 .access = {{columns, int64_t{layout_.columns} * kGemmColumns}, {rows, layout_.n}, {kGemmColumns, 1}},
                 .wait = c + 1 == layout_.columns});
    }

    const GemmLayout& layout_;
    const Array& array_;
    std::vector<Transfer>& transfers_;
};

template <typename T>
void put(const T& value, std::vector<std::byte>& bytes) {
    std::memcpy(bytes.data(), &value, sizeof value);
}

}  // namespace

Result<GemmLayout> gemm_layout(const GemmShape& shape) {
    const Array* const array = TRY(array_named(shape.array));
    for (const int64_t extent : {shape.m, shape.k, shape.n}) {
        if (extent < 1 || extent > kMaxExtent)
            return fail("a product of {} x {} x {} is not one for the NPU: each is 1 to {}", shape.m, shape.k, shape.n,
                        kMaxExtent);
    }
    GemmLayout layout;
    layout.array = shape.array;
    layout.columns = array->columns;
    layout.rows = array->rows - kFirstRow;
    layout.tile_rows = array->native_rows_i8;
    layout.m = round_up_to(shape.m, int64_t{layout.rows} * kGemmRows);
    layout.k = round_up_to(shape.k, kGemmInner);
    layout.n = round_up_to(shape.n, int64_t{layout.columns} * kGemmColumns);
    return layout;
}

Result<Design> gemm_i8(const GemmLayout& layout) {
    const Array* const array = TRY(array_named(layout.array));
    Design design;
    design.name = "gemm_i8";
    design.shape = fmt::format("{}x{}x{}", layout.m, layout.k, layout.n);
    design.array = layout.array;
    add_inputs(layout, design);
    add_results(layout, design);
    design.kernels = {use_kernel("gemm_begin", {kXObject, kWObject, kYObject, kBlock}),
                      use_kernel(kernel_name(layout, "add"), {kXObject, kWObject, kYObject, kBlock}),
                      use_kernel(kernel_name(layout, "end"), {kYObject, kBlock})};
    design.workers.reserve(static_cast<size_t>(layout.rows) * static_cast<size_t>(layout.columns));
    for (int c = 0; c < layout.columns; ++c) {
        for (int r = 0; r < layout.rows; ++r) design.workers.push_back(worker_of(layout, c, r));
    }
    design.sequence.arguments = {{"x", {Element::i8, layout.x_bytes()}},
                                 {"w", {Element::i8, layout.w_bytes()}},
                                 {"y", {Element::f32, layout.m * layout.n}}};
    GemmSequence(layout, *array, design.sequence.transfers).add();
    return design;
}

int32_t gemm_rows_of_block(int64_t rows) {
    constexpr int64_t kStep = 16;
    return static_cast<int32_t>(round_up_to(std::clamp<int64_t>(rows, 0, kGemmRows), kStep));
}

std::vector<Sample> gemm_samples(const GemmLayout& layout, int64_t rows) {
    const GemmHeader header{.objects = static_cast<int32_t>(layout.blocks_k()), .rows = gemm_rows_of_block(rows)};
    std::vector<std::byte> first(static_cast<size_t>(kXObject.count));
    std::vector<std::byte> block(sizeof(GemmBlock));
    put(header, first);
    put(header, block);
    std::vector<Sample> samples{{"block", block}};
    for (int r = 0; r < layout.rows; ++r) samples.push_back({numbered("x", r), first});
    return samples;
}

}  // namespace tandem::npu
