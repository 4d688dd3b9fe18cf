#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "npu/designs/gemm.h"
#include "npu/designs/quantize_row.h"

namespace tandem::npu {
namespace {

constexpr int64_t kTileColumns = 8;
constexpr int64_t kRowsAtOnce = 32;  // by one thread
constexpr int64_t kObjectOfX = int64_t{kGemmRows} * kGemmInner;
constexpr int64_t kObjectOfW = int64_t{kGemmColumns} * kGemmInner;

// The rows of a row of tiles on their way into these, filled up with zeros to whole ones.
class TileRows {
  public:
    TileRows(int64_t rows, int64_t columns)
        : rows_(rows),
          columns_(columns),
          stride_((columns + kTileColumns - 1) / kTileColumns * kTileColumns),
          values_(static_cast<size_t>(rows * stride_)) {}

    std::span<int8_t> row(int64_t row) {
        return std::span(values_).subspan(static_cast<size_t>(row * stride_), static_cast<size_t>(columns_));
    }

    // They are rows `r` and on of the block, whose numbers begin at `numbers`.
    void put(int64_t r, std::byte* numbers) const {
        std::byte* object = numbers + r * kGemmInner;
        for (int64_t k = 0; k < stride_; k += kGemmInner, object += kObjectOfX) {
            std::byte* tile = object;
            for (int64_t i = k; i < std::min<int64_t>(stride_, k + kGemmInner); i += kTileColumns) {
                for (int64_t row = 0; row < rows_; ++row, tile += kTileColumns)
                    std::memcpy(tile, values_.data() + row * stride_ + i, kTileColumns);
            }
        }
    }

  private:
    int64_t rows_;
    int64_t columns_;
    int64_t stride_;
    std::vector<int8_t> values_;
};

// One row of a block of w into column `c` of its 8 x 8 tiles.
void put_row_of_w(std::span<const int8_t> row, int64_t c, std::byte* numbers) {
    constexpr int64_t kTiles = kGemmColumns / 8;
    for (int64_t k = 0; k < std::ssize(row); ++k) {
        const int64_t in_object = k % kGemmInner;
        std::byte* const object = numbers + k / kGemmInner * kObjectOfW;
        object[(in_object / 8 * kTiles + c / 8) * 64 + in_object % 8 * 8 + c % 8] =
            static_cast<std::byte>(row[static_cast<size_t>(k)]);
    }
}

// In the first object of a block, behind the header.
void put_scale(float value, int64_t index, std::byte* block) {
    std::memcpy(block + sizeof(GemmHeader) + static_cast<size_t>(index) * sizeof value, &value, sizeof value);
}

std::byte* block_of_x(const GemmLayout& layout, int64_t block, std::span<std::byte> packed) {
    return packed.data() + block * layout.objects() * kObjectOfX;
}

// How many objects each block has, and how many of its rows there are.
void put_headers(const GemmLayout& layout, int64_t rows, std::span<std::byte> packed) {
    for (int64_t block = 0; block < layout.blocks_m(); ++block) {
        const GemmHeader header{.objects = static_cast<int32_t>(layout.blocks_k()),
                                .rows = gemm_rows_of_block(rows - block * kGemmRows)};
        std::memcpy(block_of_x(layout, block, packed), &header, sizeof header);
    }
}

// Rows [first, last) of x, whole rows of tiles but for the last: `fill` makes one and returns its scale.
template <typename Fill>
void put_rows_of_x(const GemmLayout& layout, int64_t first, int64_t last, TileRows tiles, const Fill& fill,
                   std::span<std::byte> packed) {
    for (int64_t i = first; i < last; i += layout.tile_rows) {
        std::byte* const block = block_of_x(layout, i / kGemmRows, packed);
        const int64_t in_block = i % kGemmRows;
        for (int64_t row = 0; row < layout.tile_rows; ++row) {
            const std::span<int8_t> to = tiles.row(row);
            if (i + row < last) {
                put_scale(fill(i + row, to), in_block + row, block);
            } else {
                std::fill(to.begin(), to.end(), int8_t{0});
            }
        }
        tiles.put(in_block, block + kObjectOfX);
    }
}

void clear(std::span<std::byte> packed) {
    std::fill(packed.begin(), packed.end(), std::byte{0});
}

}  // namespace

void pack_x(const GemmLayout& layout, const PackedRows& x, std::span<std::byte> packed) {
    CHECK(std::ssize(packed) == layout.x_bytes() && std::ssize(x.scales) <= layout.m && x.columns <= layout.k);
    clear(packed);
    put_headers(layout, std::ssize(x.scales), packed);
    const auto fill = [&](int64_t i, std::span<int8_t> row) {
        std::copy_n(x.values.begin() + i * x.columns, x.columns, row.begin());
        return x.scales[static_cast<size_t>(i)];
    };
    put_rows_of_x(layout, 0, std::ssize(x.scales), TileRows(layout.tile_rows, x.columns), fill, packed);
}

// The blocks of one column of the array lie together, so that each shim reads one long run.
void pack_w(const GemmLayout& layout, const PackedRows& w, std::span<std::byte> packed) {
    CHECK(std::ssize(packed) == layout.w_bytes() && std::ssize(w.scales) <= layout.n && w.columns <= layout.k);
    CHECK(w.bias.empty() || w.bias.size() == w.scales.size(), "a bias for each row of w");
    clear(packed);
    const int64_t blocks_of_column = layout.blocks_n() / layout.columns;
    for (int64_t i = 0; i < std::ssize(w.scales); ++i) {
        const int64_t n = i / kGemmColumns;
        const int64_t place = n % layout.columns * blocks_of_column + n / layout.columns;
        std::byte* const block = packed.data() + place * layout.objects() * kObjectOfW;
        const int64_t column = i % kGemmColumns;
        put_row_of_w(w.values.subspan(static_cast<size_t>(i * w.columns), static_cast<size_t>(w.columns)), column,
                     block + kObjectOfW);
        put_scale(w.scales[static_cast<size_t>(i)], column, block);
        if (!w.bias.empty()) put_scale(w.bias[static_cast<size_t>(i)], kGemmColumns + column, block);
    }
}

void quantize_x(const GemmLayout& layout, const FloatRows& x, ThreadPool& threads, std::span<std::byte> packed) {
    CHECK(std::ssize(packed) == layout.x_bytes() && x.rows <= layout.m && x.columns <= layout.k);
    if (x.rows < layout.m || x.columns < layout.k) clear(packed);
    put_headers(layout, x.rows, packed);
    const auto fill = [&](int64_t i, std::span<int8_t> row) {
        return quantize_row({x.values + i * x.stride, row.size()}, row);
    };
    threads.for_each_range(layout.m / kRowsAtOnce, 1, [&](int64_t first, int64_t last, int /*thread*/) {
        put_rows_of_x(layout, first * kRowsAtOnce, std::min(last * kRowsAtOnce, x.rows),
                      TileRows(layout.tile_rows, x.columns), fill, packed);
    });
}

}  // namespace tandem::npu
