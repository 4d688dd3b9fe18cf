#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "npu/designs/gemm.h"
#include "npu/designs/quantize_row.h"

namespace tandem::npu {
namespace {

constexpr int64_t kTileRows = 4;  // of the tiles of x
constexpr int64_t kTileColumns = 8;
constexpr int64_t kGroupsAtOnce = 8;  // of four rows, by one thread

// Four rows on their way into tiles, filled up with zeros to whole ones.
class TileRows {
  public:
    explicit TileRows(int64_t columns)
        : columns_(columns),
          stride_((columns + kTileColumns - 1) / kTileColumns * kTileColumns),
          values_(static_cast<size_t>(kTileRows * stride_)) {}

    std::span<int8_t> row(int64_t row) {
        return std::span(values_).subspan(static_cast<size_t>(row * stride_), static_cast<size_t>(columns_));
    }

    // They are rows `r` and on of the block.
    void put(const GemmLayout& layout, int64_t r, std::byte* block) const {
        std::byte* object = block + r * layout.tile_k;
        for (int64_t k = 0; k < stride_; k += layout.tile_k, object += layout.tile_m * layout.tile_k) {
            std::byte* tile = object;
            for (int64_t i = k; i < std::min(stride_, k + layout.tile_k); i += kTileColumns) {
                for (int64_t row = 0; row < kTileRows; ++row, tile += kTileColumns)
                    std::memcpy(tile, values_.data() + row * stride_ + i, kTileColumns);
            }
        }
    }

  private:
    int64_t columns_;
    int64_t stride_;
    std::vector<int8_t> values_;
};

// One row of a block of w into column `c` of its 8 x 8 tiles.
void put_row_of_w(const GemmLayout& layout, std::span<const int8_t> row, int64_t c, std::byte* block) {
    const int64_t tiles = layout.tile_n / 8;
    for (int64_t k = 0; k < static_cast<int64_t>(row.size()); ++k) {
        const int64_t in_object = k % layout.tile_k;
        std::byte* const object = block + k / layout.tile_k * layout.tile_n * layout.tile_k;
        object[(in_object / 8 * tiles + c / 8) * 64 + in_object % 8 * 8 + c % 8] =
            static_cast<std::byte>(row[static_cast<size_t>(k)]);
    }
}

void put_scale(const GemmLayout& layout, float scale, int64_t row, std::byte* scales) {
    if (layout.scaled) std::memcpy(scales + row * static_cast<int64_t>(sizeof scale), &scale, sizeof scale);
}

struct XPlace {
    std::byte* block = nullptr;
    std::byte* scales = nullptr;
    int64_t row = 0;
};

XPlace place_of_x(const GemmLayout& layout, int64_t row, std::span<std::byte> packed) {
    const int64_t object = layout.tile_m * layout.tile_k;
    std::byte* const block = packed.data() + row / layout.tile_m * layout.objects() * object;
    return {block, block + layout.blocks_k() * object, row % layout.tile_m};
}

// Rows [first, last) of x, whole groups but for the last: `fill` makes one and returns its scale.
template <typename Fill>
void put_rows_of_x(const GemmLayout& layout, int64_t first, int64_t last, TileRows tiles, const Fill& fill,
                   std::span<std::byte> packed) {
    for (int64_t i = first; i < last; i += kTileRows) {
        const XPlace place = place_of_x(layout, i, packed);
        for (int64_t row = 0; row < kTileRows; ++row) {
            const std::span<int8_t> to = tiles.row(row);
            if (i + row < last) {
                put_scale(layout, fill(i + row, to), place.row + row, place.scales);
            } else {
                std::fill(to.begin(), to.end(), int8_t{0});
            }
        }
        tiles.put(layout, place.row, place.block);
    }
}

void clear(std::span<std::byte> packed) {
    std::fill(packed.begin(), packed.end(), std::byte{0});
}

}  // namespace

void pack_x(const GemmLayout& layout, const PackedRows& x, std::span<std::byte> packed) {
    CHECK(std::ssize(packed) == layout.x_bytes() && std::ssize(x.scales) <= layout.m && x.columns <= layout.k);
    clear(packed);
    const auto fill = [&](int64_t i, std::span<int8_t> row) {
        std::copy_n(x.values.begin() + i * x.columns, x.columns, row.begin());
        return x.scales[static_cast<size_t>(i)];
    };
    put_rows_of_x(layout, 0, std::ssize(x.scales), TileRows(x.columns), fill, packed);
}

// The blocks of one column of the array lie together, so that each shim reads one long run.
void pack_w(const GemmLayout& layout, const PackedRows& w, std::span<std::byte> packed) {
    CHECK(std::ssize(packed) == layout.w_bytes() && std::ssize(w.scales) <= layout.n && w.columns <= layout.k);
    CHECK(!layout.bias || w.bias.size() == w.scales.size(), "a bias for each row of w");
    clear(packed);
    const int64_t object = layout.tile_n * layout.tile_k;
    const int64_t blocks_of_column = layout.blocks_n() / layout.columns;
    for (int64_t i = 0; i < std::ssize(w.scales); ++i) {
        const int64_t n = i / layout.tile_n;
        const int64_t place = n % layout.columns * blocks_of_column + n / layout.columns;
        std::byte* const block = packed.data() + place * layout.objects() * object;
        put_row_of_w(layout, w.values.subspan(static_cast<size_t>(i * w.columns), static_cast<size_t>(w.columns)),
                     i % layout.tile_n, block);
        std::byte* const scales = block + layout.blocks_k() * object;
        put_scale(layout, w.scales[static_cast<size_t>(i)], i % layout.tile_n, scales);
        if (layout.bias) put_scale(layout, w.bias[static_cast<size_t>(i)], layout.tile_n + i % layout.tile_n, scales);
    }
}

void quantize_x(const GemmLayout& layout, const FloatRows& x, ThreadPool& threads, std::span<std::byte> packed) {
    CHECK(std::ssize(packed) == layout.x_bytes() && x.rows <= layout.m && x.columns <= layout.k);
    if (x.rows < layout.m || x.columns < layout.k) clear(packed);
    const auto fill = [&](int64_t i, std::span<int8_t> row) {
        return quantize_row({x.values + i * x.stride, row.size()}, row);
    };
    threads.for_each_range(layout.m / kTileRows, kGroupsAtOnce, [&](int64_t first, int64_t last, int /*thread*/) {
        put_rows_of_x(layout, first * kTileRows, std::min(last * kTileRows, x.rows), TileRows(x.columns), fill, packed);
    });
}

}  // namespace tandem::npu
