// Segments: a Program cut into runs of nodes, each a Program of its own that a device of its own may run.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/program.h"

namespace tandem::graph {

struct Segment {
    int device = 0;  // as it was given for the nodes
    Program
        program;  // a value that crosses a cut is a result of one segment and an input of others, by crossing_name()
};

// "%12"
std::string crossing_name(ValueId id);

// Neighbouring nodes of one device are one segment; run in order, the segments do what the Program does. Caches keep
// their numbers.
std::vector<Segment> cut(const Program& program, std::span<const int> device_of_node);

// The cache layers that a segment uses become numbers 0, 1, ... of a cache that has no others; returns their numbers in
// the whole, ascending. Groups keep theirs.
std::vector<int> take_caches(Program& segment);

// How many values cross a cut before each node.
std::vector<int> crossing_counts(const Program& program);

}  // namespace tandem::graph
