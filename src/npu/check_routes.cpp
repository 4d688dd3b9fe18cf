// Routes for the streams: every FIFO that goes through DMA takes a port of each switch box on its way. One column or
// one row after another, as the first of a few ways that is still free; the vendor's router searches longer.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>

#include "npu/check_parts.h"
#include "npu/tile_use.h"

namespace tandem::npu {
namespace {

using Hop = std::pair<Tile, Tile>;  // neighbours

int capacity(const Array& array, const Hop& hop) {
    const auto& [from, to] = hop;
    const Ports& ports = array.ports(array.kind(from));
    if (to.column > from.column) return ports.east;
    if (to.column < from.column) return ports.west;
    return to.row > from.row ? ports.north : ports.south;
}

void walk_row(Tile& at, int column, std::vector<Hop>& path) {
    while (at.column != column) {
        const Tile next{at.column + (column > at.column ? 1 : -1), at.row};
        path.emplace_back(at, next);
        at = next;
    }
}

void walk_column(Tile& at, int row, std::vector<Hop>& path) {
    while (at.row != row) {
        const Tile next{at.column, at.row + (row > at.row ? 1 : -1)};
        path.emplace_back(at, next);
        at = next;
    }
}

// Along the column to `row`, along that row, and along the other column.
std::vector<Hop> path_by_row(Tile from, Tile to, int row) {
    std::vector<Hop> path;
    Tile at = from;
    if (from.column != to.column) {
        walk_column(at, row, path);
        walk_row(at, to.column, path);
    }
    walk_column(at, to.row, path);
    return path;
}

// The rows to try, nearest first. Mem tiles have no streams to the side.
std::vector<int> rows_between(const Array& array, Tile from, Tile to) {
    std::vector<int> rows;
    rows.reserve(static_cast<size_t>(array.rows));
    for (int row = 0; row < array.rows; ++row)
        if (array.kind({from.column, row}) != TileKind::mem) rows.push_back(row);
    const auto detour = [&](int row) { return std::abs(row - from.row) + std::abs(row - to.row); };
    std::stable_sort(rows.begin(), rows.end(), [&](int a, int b) { return detour(a) < detour(b); });
    return rows;
}

class Router {
  public:
    explicit Router(const Array& array) : array_(array) {}

    Status route(const Fifo& fifo) {
        std::set<Hop> tree;  // a stream to several consumers parts where their ways do
        for (const Tile consumer : fifo.consumers) TRY(route_to(fifo, consumer, tree));
        for (const Hop& hop : tree) ++used_[hop];
        return Ok{};
    }

  private:
    Status route_to(const Fifo& fifo, Tile consumer, std::set<Hop>& tree) const {
        std::optional<Hop> full;  // of the shortest way
        for (const int row : rows_between(array_, fifo.producer, consumer)) {
            const std::vector<Hop> path = path_by_row(fifo.producer, consumer, row);
            const auto blocked = std::find_if(path.begin(), path.end(), [&](const Hop& hop) {
                return tree.count(hop) == 0 && streams(hop) >= capacity(array_, hop);
            });
            if (blocked == path.end()) {
                tree.insert(path.begin(), path.end());
                return Ok{};
            }
            if (!full) full = *blocked;
        }
        return fail("FIFO '{}' finds no way from {} to {}: all {} streams from {} to {} are taken", fifo.name,
                    describe(array_, fifo.producer), describe(array_, consumer), capacity(array_, *full),
                    describe(array_, full->first), describe(array_, full->second));
    }

    int streams(const Hop& hop) const {
        const auto at = used_.find(hop);
        return at == used_.end() ? 0 : at->second;
    }

    const Array& array_;
    std::map<Hop, int> used_;
};

}  // namespace

Status check_routes(const Design& design, const Array& array) {
    Router router(array);
    for (const Fifo& fifo : design.fifos)
        if (!shares_memory(fifo, array)) TRY(router.route(fifo));
    return Ok{};
}

}  // namespace tandem::npu
